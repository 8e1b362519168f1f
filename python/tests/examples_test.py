#!/usr/bin/env python3
"""Runs the Python examples on small random models. MAKE_MODEL: path of the make_model program."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import kvick

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
SHAPE = ("--layers", "2", "--dim", "64", "--ffn", "96", "--heads", "2", "--vocab", "512", "--context", "1024", "--type", "Q8_0")


@unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
class Strategies(unittest.TestCase):
    def test_each_strategy_has_a_cell_and_all_of_them_run(self):
        example = EXAMPLES / "strategies.py"
        cells = [line.removeprefix("# %% ").split(":")[0] for line in example.read_text(encoding="utf-8").splitlines() if line.startswith("# %% ")]
        for strategy in kvick.strategies():
            self.assertIn(strategy["name"], cells)
        with tempfile.TemporaryDirectory() as folder:
            models = [os.path.join(folder, name) for name in ("rows.gguf", "slots.gguf")]
            for path, more in zip(models, ((), ("--arch", "bct"))):
                subprocess.run([os.environ["MAKE_MODEL"], "-o", path, *SHAPE, *more], check=True, stdin=subprocess.DEVNULL, timeout=120)
            done = subprocess.run([sys.executable, str(example), *models], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240,
                                  env={**os.environ, "XDG_CACHE_HOME": folder})
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
        rows = {line[0]: line[1:] for line in lines if len(line) == 5}
        self.assertEqual(float(rows["upfront"][3]), 0)  # MB copied
        self.assertGreater(float(rows["iterative"][3]), float(rows["bmc:r=64"][3]))
        self.assertGreater(float(rows["upfront"][1]), float(rows["paged"][1]))  # MB allocated
        self.assertIn("bounded: ", done.stdout)
        self.assertNotIn("needs a model", done.stdout)
        for name in "f16", "q8", "all", "quest", "largest":
            self.assertEqual(len([line for line in lines if line[0] == name]), 1, name)


if __name__ == "__main__":
    unittest.main()
