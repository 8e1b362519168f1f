#!/usr/bin/env python3
"""kvick on processors with fewer instruction sets than this one, emulated by qemu, which stops a program at the first unknown
instruction. The results must equal those of this processor with the same instruction set."""

import json
import pathlib
import platform
import shutil
import subprocess
import sys
import unittest

from made_model import KVICK, CommandTest, make_model

QEMU = shutil.which("qemu-x86_64")
# The instruction set that kvick must choose on each: no AVX, AVX only, and AVX2 with FMA and F16C.
PROCESSORS = {"Nehalem": "scalar", "SandyBridge": "scalar", "Haswell": "avx2"}


class Processors(CommandTest):
    def result(self, command, *arguments, processor=None, isa=None, model=None):
        start = [QEMU, "-cpu", processor] if processor else []
        env = self.env | ({"KVICK_ISA": isa} if isa else {})
        done = subprocess.run([*start, KVICK, command, "--json", "-m", model or self.model, "--threads", "2", *map(str, arguments)],
                              env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, 0, (processor, isa, done))
        return json.loads(done.stdout)

    def test_all_types_of_weights_and_rows(self):
        text = self.top / "text.txt"
        text.write_text("All happy families are alike. " * 3)
        models = [(kind, str(self.top / f"{kind}.gguf")) for kind in ("F16", "BF16", "Q8_0", "Q4_K", "IQ4_NL")]
        for kind, path in models:
            make_model(path, "--layers", "1", "--dim", "256", "--ffn", "256", "--heads", "4", "--vocab", "512", "--context", "64",
                       "--type", kind)
        here = {"scalar"} | ({"avx2"} if " avx2 " in pathlib.Path("/proc/cpuinfo").read_text() else set())
        for processor, isa in PROCESSORS.items():
            for (kind, path), rows in zip(models, ("f16", "q8", "q4", "f32", "kivi4")):
                with self.subTest(processor=processor, weights=kind, rows=rows):
                    asked = ("-f", text, "--ctx", 32, "--kv-type", rows)
                    there = self.result("ppl", *asked, processor=processor, model=path)
                    if isa in here:
                        self.assertEqual(there["perplexity"], self.result("ppl", *asked, isa=isa, model=path)["perplexity"])

    def test_its_speed_is_measured(self):
        for processor in PROCESSORS:
            told = self.result("bench", "-p", 8, "-n", 4, "-r", 1, "--ctx", 64, processor=processor)
            self.assertGreater(told["kv"]["used_bytes"], 0)


if __name__ == "__main__":
    if QEMU is None or platform.machine() != "x86_64":
        print("skipped: needs an x86-64 machine with qemu-x86_64", file=sys.stderr)
        sys.exit(77)
    unittest.main()
