#!/usr/bin/env python3
"""Tests the program tools/ruler with a fake Python module kvick."""

import contextlib
import importlib.util
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "report"), str(HERE.parent / "compare")]

import engine  # noqa: E402
import findings  # noqa: E402
import keeping  # noqa: E402
import results  # noqa: E402
import tasks  # noqa: E402
import texts  # noqa: E402
from fake_kvick import KVICK, Model, made_up_hotpot, made_up_squad, made_up_text  # noqa: E402

SPEC = importlib.util.spec_from_file_location("ruler_program", HERE / "__main__.py")
ruler = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(ruler)

REAL_MODULE = engine.module  # tests of the program replace it


class Program(unittest.TestCase):
    def setUp(self):
        self.top = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.text, self.out = self.top / "text.txt", self.top / "ruler.json"
        self.text.write_text(made_up_text(1))
        self.enterContext(mock.patch.object(engine, "module", lambda: KVICK))
        self.reset()

    def reset(self):
        Model.opened, Model.asked, Model.fails_at = [], [], None

    def run_it(self, *arguments):
        """Exit status, and what was printed on stdout and on stderr. Afterwards Model.asked has the requests of this run."""
        Model.opened, Model.asked = [], []
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = ruler.main([str(one) for one in arguments])
            except SystemExit as ended:
                status = ended.code
        return status, out.getvalue(), err.getvalue()

    def small(self, *more):
        return self.run_it("--text", self.text, "--lengths", 512, 1024, "--samples", 2, "--tasks", "niah_single_2", "fwe", "-o", self.out, *more)

    def loaded(self):
        return json.loads(self.out.read_text())

    def test_settings_get_the_same_prompts_and_are_compared(self):
        status, said, progress = self.run_it("--text", self.text, "--lengths", 1024, "--samples", 12, "--tasks", "niah_single_2", "-o", self.out,
                                             "--kv-select", "none", "--kv-select", "half", "--kv-type", "q8")
        self.assertEqual(status, 0, progress)
        by_setting = [[tokens for options, tokens, _, _ in Model.asked if options[3] == select] for select in (None, "half")]
        self.assertEqual(by_setting[0], by_setting[1])
        self.assertGreater(len(set(by_setting[0])), 1)
        self.assertTrue(all(asked[3] == {"max_tokens": 128, "temperature": 0, "repetition_penalty": 1, "presence_penalty": 0,
                                         "frequency_penalty": 0} and asked[0][:3] == ("smollm2", None, "q8") for asked in Model.asked))
        full, half = self.loaded()["summary"]["settings"]
        self.assertEqual((full["setting"], full["mean_percent"], full["minus_first"]), ("q8 all rows", 100, 0))
        self.assertTrue(0 < half["mean_percent"] < 100)
        self.assertAlmostEqual(half["minus_first"], half["mean_percent"] - 100)
        self.assertEqual(half["protocol"], "question in the prompt")
        lines = said.splitlines()
        self.assertIn("1024 tokens, question in the prompt", lines[0])
        self.assertRegex(said, r"mean +100\.0 ± 0\.0 +\d+\.\d ± \d+\.\d")
        self.assertRegex(lines[-1], r"^q8 half .* -\d+\.\d ± \d+\.\d$")
        self.assertIn("[24/24] q8 half, niah_single_2, 1024 tokens: ", progress)
        self.assertRegex(progress.splitlines()[0], r"^\[12/24\] q8 all rows, niah_single_2, 1024 tokens: 100 %; about \d+ s left$")

    def test_question_later_reads_the_context_first_and_alone(self):
        status, said, error = self.small("--question-later")
        self.assertEqual(status, 0, error)
        contexts, questions = Model.asked[::2], Model.asked[1::2]
        self.assertEqual([one[3]["max_tokens"] for one in contexts], [1] * 8)
        self.assertEqual([one[2] for one in questions], [one[1] for one in contexts])  # all of the context was cached
        self.assertTrue(all(question[1] > context[1] for context, question in zip(contexts, questions)))
        self.assertIn("question later", said.splitlines()[0])
        self.assertEqual({cell["what"]["protocol"] for cell in self.loaded()["cells"]}, {"question later"})
        status, _, error = self.small("--question-later", "--kv", "unkept")
        self.assertEqual(status, 2)
        self.assertIn("0 were cached when the question came; with this setting leave --question-later out", error)

    def test_an_interrupted_run_goes_on_with_the_sample_where_it_ended(self):
        self.assertEqual(self.small()[0], 0)
        expected, asked = self.loaded(), len(Model.asked)
        self.out.unlink()
        Model.fails_at = 3
        with self.assertRaises(KeyboardInterrupt):
            self.small()
        self.assertEqual([len(cell["runs"]) for cell in self.loaded()["cells"]], [2, 1])
        Model.fails_at = None
        self.assertEqual(self.small()[0], 0)
        self.assertEqual(len(Model.asked), asked - 3)
        found = self.loaded()
        for one in expected, found:
            for cell in one["cells"]:
                for run in cell["runs"]:
                    self.assertGreaterEqual(run.pop("seconds"), 0)
        self.assertEqual(found, expected)
        self.assertEqual(self.small()[0], 0)
        self.assertEqual(Model.asked, [])
        self.assertEqual(self.small("--again")[0], 0)
        self.assertEqual(len(Model.asked), asked)

    def test_other_inputs_are_measured_and_other_settings_stay_in_the_file(self):
        self.small()
        self.text.write_text(made_up_text(2))
        self.small()
        self.assertEqual(len(Model.asked), 4)  # only those of niah_single_2: fwe does not use the text
        self.small("--seed", 2)
        self.small("--kv-select", "half")
        self.assertEqual(len(Model.asked), 8)
        self.assertEqual(len(self.loaded()["cells"]), 4 + 2 + 4 + 4)
        self.assertEqual([one["setting"] for one in self.loaded()["summary"]["settings"]], ["half"])
        self.small("--samples", 3, "--kv-select", "half")
        self.assertEqual(len(Model.asked), 4)

    def test_a_predictor_with_other_contents_is_another_input(self):
        file = self.top / "scores.kvp"
        file.write_text("one")
        self.small("--kv-select", f"kvzap:file={file},budget=0.25")
        self.assertEqual({cell["what"]["setting"] for cell in self.loaded()["cells"]}, {"kvzap:file=scores.kvp,budget=0.25"})
        self.small("--kv-select", f"kvzap:file={file},budget=0.25")
        self.assertEqual(Model.asked, [])
        file.write_text("two")
        self.small("--kv-select", f"kvzap:file={file},budget=0.25")
        self.assertEqual(len(Model.asked), 8)
        file.unlink()
        status, _, error = self.small("--kv-select", f"kvzap:file={file},budget=0.25")
        self.assertEqual((status, error), (2, f"tools/ruler: cannot read {file}: No such file or directory\n"))

    def test_the_result_can_be_kept(self):
        self.small()
        kept_at = keeping.keep("xeon", self.out, self.top / "results")
        self.assertEqual(list(results.Results(self.top / "results").faults()), [])
        provenance = json.loads(kept_at.read_text())["provenance"]
        self.assertEqual(provenance["spread"], "2 samples of each cell, each is here")
        self.assertIn("tools/ruler --text text.txt --lengths 512 1024", provenance["command"])
        self.assertNotIn(str(self.top), kept_at.read_text())
        cells = self.loaded()["cells"]
        self.assertEqual([(cell["what"]["length"], cell["what"]["task"]) for cell in cells],
                         [(512, "niah_single_2"), (512, "fwe"), (1024, "niah_single_2"), (1024, "fwe")])
        self.assertTrue(all(run["score"] == 1 and run["tokens"] < cell["what"]["length"] for cell in cells for run in cell["runs"]))

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "charts need matplotlib")
    def test_its_chart_and_page_can_be_drawn(self):
        import charts
        self.small("--kv-select", "none", "--kv-select", "half")
        charts.draw_folder(self.top)
        self.assertIn("tokens of prompt and answer", (self.top / "ruler.svg").read_text())
        self.assertIn("RULER&#x27;s tasks in 512 tokens", (self.top / "index.html").read_text())

    def test_questions_come_from_files_of_both_forms(self):
        squad, hotpot = self.top / "squad.json", self.top / "hotpot.json"
        squad.write_text(json.dumps(made_up_squad()))
        hotpot.write_text(json.dumps(made_up_hotpot()))
        status, _, error = self.run_it("--qa-1", squad, "--qa-2", hotpot, "--tasks", "qa_1", "qa_2", "--quick", "-o", self.out)
        self.assertEqual(status, 0, error)
        self.assertEqual([(cell["what"]["task"], [run["score"] for run in cell["runs"]]) for cell in self.loaded()["cells"]],
                         [("qa_1", [1, 1]), ("qa_2", [1, 1])] * 2)
        for content in ("no JSON", "[]", "[1]", '{"data": [{"paragraphs": 3}]}', '{"data": []}', '{"data": null}'):
            squad.write_text(content)
            status, _, error = self.run_it("--qa-1", squad, "--tasks", "qa_1")
            self.assertEqual((status, error.count("\n")), (2, 1), content)
            self.assertRegex(error, f"^tools/ruler: {re.escape(str(squad))} has (neither SQuAD's form|no question with an answer)")

    def test_quick_and_the_defaults(self):
        options = ruler.parsed(["--text", "some", "--quick"])
        self.assertEqual((options.lengths, options.samples), ([1024, 2048], 2))
        options = ruler.parsed(["--text", "some"])
        self.assertEqual((options.lengths, options.samples), ([1024, 2048, 4096, 8192], 20))
        self.assertEqual([task.name for task in options.tasks], [name for name in tasks.TASKS if not name.startswith("qa")])
        options = ruler.parsed(["--text", "some", "--qa-2", "file"])
        self.assertEqual(options.tasks[-1].name, "qa_2")
        self.assertEqual(engine.settings([], [], ["none", "h2o", "none"]), [engine.Setting(), engine.Setting(kv_select="h2o")])
        self.assertEqual([one.label for one in engine.settings(["bmc", "paged"], ["q8"], [])], ["bmc q8 all rows", "paged q8 all rows"])

    def test_answers_are_written_for_readers(self):
        answers = self.top / "answers.jsonl"
        self.small("--answers", answers)
        lines = [json.loads(line) for line in answers.read_text().splitlines()]
        self.assertEqual([line["sample"] for line in lines], [0, 1] * 4)
        self.assertTrue(all(line["score"] == 1 and all(one in line["answer"] for one in line["expected"]) for line in lines))

    def test_the_list_names_each_task(self):
        status, said, _ = self.run_it("--list")
        self.assertEqual((status, [line.split()[0] for line in said.splitlines()]), (0, list(tasks.TASKS)))

    def test_mistakes_are_one_line_with_status_2(self):
        other = self.top / "other.json"
        other.write_text("{}")
        self.small()
        elsewhere = self.loaded()
        elsewhere["machine"]["isa"] = "neon"
        machine = self.top / "machine.json"
        machine.write_text(json.dumps(elsewhere))
        binary = self.top / "binary"
        binary.write_bytes(b"\xff\xfe\xff")
        empty = self.top / "empty"
        empty.write_text(" \n")
        text = ("--text", self.text, "--quick")
        for arguments, message in (
                ((), "niah_single_2 needs a text: give --text FILE, or --tasks without it"),
                (("--tasks", "qa_1"), "qa_1 needs questions: give --qa-1 FILE, or --tasks without it"),
                (("--tasks", "niah"), "there is no task niah; there are niah_single_1, "),
                ((*text, "--samples", 0), "--samples, --lengths and --threads must be positive"),
                ((*text, "--lengths", "x"), "argument --lengths: invalid int value: 'x'"),
                (("--text", self.top / "none"), f"cannot read {self.top / 'none'}: No such file or directory"),
                (("--text", binary), f"{binary} is not a text in UTF-8: give a text file"),
                (("--text", empty), f"{empty} is empty: give another --text"),
                ((*text, "--kv-select", "none", "--kv-select", "wrong"), 'wrong: unknown policy "wrong"'),
                ((*text, "--kv", "small"), "small all rows: 2048 tokens are more than the context of 1100: give shorter --lengths"),
                ((*text, "--lengths", 200), "niah_single_1 does not fit into 200 tokens"),
                ((*text, "-o", other), f"{other} is not a result of tools/ruler: give another -o, or remove it"),
                ((*text, "-o", machine), f"{machine} was measured on another machine or with other threads"),
                ((*text, "-o", self.top / "no" / "file"), f"cannot write {self.top / 'no' / 'file'}: No such file or directory")):
            with self.subTest(arguments=arguments):
                status, said, error = self.run_it(*arguments)
                self.assertEqual((status, said, error.count("\n")), (2, "", 1), error)
                self.assertTrue(error.startswith(f"tools/ruler: {message}"), error)
                self.assertEqual(Model.asked, [])  # nothing was measured

    def test_a_missing_module_is_a_mistake(self):
        with mock.patch.dict(sys.modules, {"kvick": None}), self.assertRaisesRegex(texts.Mistake, "cannot be imported .*PYTHONPATH"):
            REAL_MODULE()


class Means(unittest.TestCase):
    def test_errors_come_from_the_spread_of_samples_and_differences_from_pairs(self):
        cells = [{"runs": [{"score": score} for score in scores]} for scores in ((0.0, 1.0, 0.0, 1.0), (1.0, 1.0, 1.0, 1.0))]
        mean, error = findings.mean_of(cells, 4)
        self.assertEqual(mean, 75)
        self.assertAlmostEqual(error, 100 * (1 / 3 / 4) ** 0.5 / 2)
        other = [{"runs": [{"score": score} for score in scores]} for scores in ((0.5, 0.5, 0.5, 0.5), (1.0, 1.0, 1.0, 1.0))]
        self.assertEqual(findings.differences(cells, cells, 4), (0, 0))
        self.assertEqual(findings.differences(cells, other, 4)[0], 0)
        self.assertGreater(findings.differences(cells, other, 4)[1], 0)
        self.assertEqual(findings.mean_of(cells, 1), (50, None))
        self.assertEqual(findings.figure((50, None)), "50.0")


if __name__ == "__main__":
    unittest.main()
