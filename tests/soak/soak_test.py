#!/usr/bin/env python3
"""tools/soak for some seconds: a made model, instances where there are cores for two, and files that fail.

KVICK, FAULTY_SERVER and MAKE_MODEL name the programs.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

SOAK = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "soak"
# Thirds of it are compared, of which the first is for warming up. Memory for a fifth of what the streams would like to have, and files for a part of what is written.
LOAD = ("--seconds", "30", "--streams", "256", "--prompts", "16", "--ctx", "3000", "--kv-memory", "6MB", "--kv-dir-size", "1MB")


def main():
    with tempfile.TemporaryDirectory() as folder:
        model = str(pathlib.Path(folder) / "model.gguf")
        subprocess.run([os.environ["MAKE_MODEL"], "-o", model, "--layers", "2", "--dim", "64", "--ffn", "96", "--heads", "2",
                        "--vocab", "512", "--context", "4096", "--type", "Q8_0"], check=True, timeout=120)
        return subprocess.run([sys.executable, SOAK, "--kvick", os.environ["KVICK"], "--faulty", os.environ["FAULTY_SERVER"],
                               "--model", model, "--instances", str(min(2, len(os.sched_getaffinity(0)))), *LOAD],
                              timeout=280).returncode


if __name__ == "__main__":
    sys.exit(main())
