#!/usr/bin/env python3
"""Tests tools/lab with a fake kvick program that notes its arguments."""

import contextlib
import html
import importlib.util
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import experiments  # noqa: E402

SPEC = importlib.util.spec_from_file_location("lab_program", HERE / "__main__.py")
lab = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(lab)

# A fake kvick: `train ... -o FILE` writes the file; `lab NAME ... -o FOLDER` writes a result, and fails for the name in the file `fails`.
PROGRAM = """#!{python}
import json, pathlib, sys
asked = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(" ".join(asked) + "\\n")
out = pathlib.Path(asked[asked.index("-o") + 1])
fails = pathlib.Path({fails!r})
if asked[0] == "train":
    out.write_text("file")
elif fails.exists() and fails.read_text() == asked[1]:
    sys.exit(2)
else:
    (out / (asked[1] + ".json")).write_text(json.dumps(dict(experiment=asked[1], command=" ".join(asked), machine=dict(cpu="one"), cells=[], tables=[], charts=[])))
print("a table")
"""


class Lab(unittest.TestCase):
    def setUp(self):
        self.top = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.log, self.out, self.data, self.fails = (self.top / name for name in ("log", "out", "data", "fails"))
        self.kvick = self.top / "kvick"
        self.kvick.write_text(PROGRAM.format(python=sys.executable, log=str(self.log), fails=str(self.fails)))
        self.kvick.chmod(0o755)
        for name in experiments.SOURCES:
            (self.data / name).parent.mkdir(parents=True, exist_ok=True)
            (self.data / name).write_text("data")

    def run_it(self, *arguments):
        """Exit status and output of one run, and the calls of kvick that it made."""
        self.log.write_text("")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = lab.main(["--kvick", str(self.kvick), "-o", str(self.out), *map(str, arguments)])
        return status, out.getvalue(), self.log.read_text().splitlines()

    def test_all_experiments_run_and_the_times_are_kept(self):
        status, said, calls = self.run_it("--data", self.data, "--quick")
        self.assertEqual(status, 0, said)
        self.assertEqual([call.split()[1] for call in calls if call.startswith("lab ")], [one.name for one in experiments.EXPERIMENTS])
        self.assertTrue(all(call.endswith("--quick") for call in calls if call.startswith("lab ")), calls)
        self.assertEqual(set(json.loads((self.out / "times.json").read_text())), {one.name for one in experiments.EXPERIMENTS})
        self.assertEqual((self.out / "waste.txt").read_text(), "a table\n")
        page = (self.out / "index.html").read_text()
        questions = [html.escape(one.question) for one in experiments.EXPERIMENTS]
        self.assertEqual(re.findall("<h2 id=[^>]*>([^<]*)", page), questions)
        self.assertEqual(re.findall('<li><a href="#[^>]*>([^<]*)', page), questions)
        quick = lab.duration(sum(one.seconds[0] for one in experiments.EXPERIMENTS))
        self.assertIn(f"{len(experiments.EXPERIMENTS)} experiments, about {quick} on two cores", said)

    def test_prepared_files_are_made_once_and_only_where_arguments_name_them(self):
        _, _, calls = self.run_it("--data", self.data, "--quick", "table1", "depth", "budget")
        self.assertEqual([" ".join(call.split()[:2]) for call in calls], ["lab table1", "train pca", "lab depth", "lab budget"])
        _, _, calls = self.run_it("--data", self.data, "budget")
        self.assertEqual([" ".join(call.split()[:2]) for call in calls], ["train kvzap", "train duo", "lab budget"])
        self.assertIn(f"--scores {self.out}/scores.kvp --heads {self.out}/heads.kvp", calls[-1])

    def test_an_experiment_without_its_data_is_skipped_and_the_line_says_what_it_needs(self):
        (self.data / experiments.REQUESTS).unlink()
        status, said, calls = self.run_it("--data", self.data, "waste", "table1")
        self.assertEqual((status, len(calls)), (0, 1))
        self.assertIn(f"skipped: {self.data / experiments.REQUESTS} is missing: {experiments.SOURCES[experiments.REQUESTS]}", said)
        _, said, _ = self.run_it("budget")
        self.assertIn(f"skipped: it needs {experiments.TEXT}: give --data FOLDER", said)

    def test_others_run_after_one_that_fails(self):
        self.fails.write_text("table1")
        status, said, calls = self.run_it("--quick", "table1", "breakdown")
        self.assertEqual((status, len(calls)), (1, 2))
        self.assertIn("failed: table1", said.splitlines()[-1])
        self.assertNotIn("table1", json.loads((self.out / "times.json").read_text()))

    def test_a_repeated_run_keeps_the_longer_time(self):
        self.run_it("table1")
        (self.out / "times.json").write_text('{"table1": 1000.0}')
        self.run_it("table1")
        self.assertEqual(json.loads((self.out / "times.json").read_text())["table1"], 1000)

    def test_the_list_has_each_question_and_the_sums(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(lab.main(["--list"]), 0)
        lines = out.getvalue().splitlines()
        self.assertEqual(len(lines), len(experiments.EXPERIMENTS) + 2)
        for one, line in zip(experiments.EXPERIMENTS, lines[1:]):
            self.assertTrue(line.startswith(one.name) and line.endswith(one.question), line)

    def test_an_unknown_name_is_refused_with_the_known_ones(self):
        with self.assertRaisesRegex(SystemExit, "no experiment speed; there are waste, prefix"):
            self.run_it("speed")


if __name__ == "__main__":
    unittest.main()
