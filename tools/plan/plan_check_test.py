#!/usr/bin/env python3
"""Tests tools/plan/plan_check.py with a fake kvick program that prints fixed figures."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import plan_check  # noqa: E402

# A fake kvick: `plan` predicts 100 tokens/s, `bench` measures 110; `paged` measures 80 and one byte more than planned.
PROGRAM = """#!{python}
import json, pathlib, sys
asked = sys.argv[1:]
of = lambda name: asked[asked.index(name) + 1]
with open({log!r}, "a") as log:
    log.write(" ".join(asked) + "\\n")
if of("--kv") == "broken":
    print("kvick: no strategy is named broken", file=sys.stderr)
    sys.exit(2)
bytes_ = 1000 * int(of("--ctx")) * int(of("-b"))
slower = of("--kv") == "paged"
if asked[0] == "plan":
    print(json.dumps(dict(predicted_decode_tok_s=100, fast_bytes=bytes_, others_share=0)))
else:
    print(json.dumps(dict(decode_tok_s=80 if slower else 110, spread=dict(decode=0.01), kv=dict(allocated_bytes=bytes_ + slower), others_share=0.1)))
"""


class PlanCheck(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.log, self.out = self.folder / "log", self.folder / "out.json"
        self.kvick = self.folder / "kvick"
        self.kvick.write_text(PROGRAM.format(python=sys.executable, log=str(self.log)))
        self.kvick.chmod(0o755)

    def run_it(self, *arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            plan_check.main(["m.gguf", "--kvick", str(self.kvick), "-o", str(self.out), "--batches", "1", *arguments])
        return out.getvalue(), json.loads(self.out.read_text())

    def test_each_cell_is_planned_and_measured_with_the_same_options(self):
        said, data = self.run_it("--kv", "virtual", "paged", "--depths", "512", "4096")
        calls = self.log.read_text().splitlines()
        self.assertEqual(len(calls), 8)
        for plan, bench in zip(calls[::2], calls[1::2]):
            self.assertTrue(plan.startswith("plan ") and bench.startswith("bench "), calls)
            self.assertEqual(plan.removeprefix("plan ").removesuffix(" --json --quiet"), bench.removeprefix("bench ").split(" -p ")[0])
        self.assertIn("-d 4096", calls[-1])
        self.assertEqual([cell["what"]["depth"] for cell in data["cells"]], [512, 512, 4096, 4096])
        self.assertEqual(data["summary"]["cells"], 4)
        self.assertEqual(data["summary"]["bytes_equal"], 2)
        # 80 measured instead of 100 is an error of 0.25, the same as 125.
        self.assertAlmostEqual(data["summary"]["worst_off"], 0.25)
        self.assertIn("all within 25 %", said)

    def test_an_interrupted_run_is_continued(self):
        self.run_it("--kv", "virtual", "--depths", "512")
        said, data = self.run_it("--kv", "virtual", "paged", "--depths", "512")
        self.assertEqual(len(self.log.read_text().splitlines()), 4)
        self.assertIn("1 of 2 cells to measure", said)
        self.assertEqual([cell["what"]["strategy"] for cell in data["cells"]], ["virtual", "paged"])

    def test_quick_measures_one_repeat_at_one_depth(self):
        self.run_it("--kv", "virtual", "--quick")
        bench = self.log.read_text().splitlines()[1]
        self.assertIn(" -d 512 -r 1 ", bench)

    def test_an_error_of_kvick_ends_the_run_but_keeps_measured_cells(self):
        with self.assertRaises(SystemExit) as end, contextlib.redirect_stderr(io.StringIO()):
            self.run_it("--kv", "virtual", "broken", "--depths", "512")
        self.assertIn("ended with status 2", str(end.exception))
        self.assertEqual(len(json.loads(self.out.read_text())["cells"]), 1)


if __name__ == "__main__":
    unittest.main()
