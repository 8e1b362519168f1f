#!/usr/bin/env python3
"""Runs tools/soak for some seconds on random models, with failing files and, if there are two cores, two instances.

The environment variables KVICK, FAULTY_SERVER and MAKE_MODEL are the paths of the programs.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

SOAK = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "soak"
# The run has three equal parts: warm-up, and two whose memory is compared. --kv-memory holds a fifth of what the streams ask for, and
# --kv-dir-size a part of what is written.
LOAD = ("--seconds", "20", "--streams", "256", "--prompts", "16", "--ctx", "3000", "--kv-memory", "6MB")
MODELS = {
    "rows": (("--layers", "2", "--dim", "64", "--ffn", "96", "--heads", "2", "--type", "Q8_0"), ("--kv-dir-size", "1MB")),
    # Three of the four layers keep a recurrent state, so that files with checkpoints of states are damaged too.
    "states": (("--family", "lfm2", "--layers", "4", "--dim", "64", "--ffn", "96", "--heads", "2"), ("--kv-dir-size", "3MB")),
}


def soak(folder, name):
    made, load = MODELS[name]
    model = str(pathlib.Path(folder) / f"{name}.gguf")
    subprocess.run([os.environ["MAKE_MODEL"], "-o", model, *made, "--vocab", "512", "--context", "4096"], check=True, timeout=120)
    print(f"== {name}", flush=True)
    return subprocess.run([sys.executable, SOAK, "--kvick", os.environ["KVICK"], "--faulty", os.environ["FAULTY_SERVER"],
                           "--model", model, "--instances", str(min(2, len(os.sched_getaffinity(0)))), *LOAD, *load],
                          timeout=140).returncode


def main():
    with tempfile.TemporaryDirectory() as folder:
        return max(soak(folder, name) for name in MODELS)


if __name__ == "__main__":
    sys.exit(main())
