#!/usr/bin/env python3
"""`kvick train tokens`, `lm`, `bct`, `export`, `start`, `answers`, `draft`, `maple` and `predictor`: they start from a text or a model
and produce a model that answers.

Training needs kvick-train, which is only built if libtorch is installed. Without it those tests are skipped.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

KVICK = os.environ["KVICK"]
TRAINER = pathlib.Path(KVICK).parent / "kvick-train"
SMALL = ("--dim", "64", "--layers", "1", "--heads", "2", "--ctx", "32", "--batch", "2", "--steps", "3", "--slots", "8")
needs_trainer = unittest.skipUnless(TRAINER.exists(), "kvick-train is not built because libtorch is missing")


class TrainTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.text = self.top / "text.txt"
        self.text.write_text("All happy families are alike; each unhappy family is unhappy in its own way.\n" * 20)
        self.tokens = self.top / "text.tokens"

    def run_program(self, *arguments, status=0, program=KVICK):
        done = subprocess.run([program, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=240)
        self.assertEqual(done.returncode, status, done)
        return done

    def make_tokens(self):
        return json.loads(self.run_program("train", "tokens", "-f", self.text, "-o", self.tokens, "--json").stdout)

    def refused(self, *arguments, says, program=KVICK):
        done = self.run_program("train", *arguments, status=2, program=program)
        self.assertEqual((len(done.stderr.splitlines()), done.stdout), (1, ""), done)
        self.assertRegex(done.stderr, says)

    def test_bytes_are_tokens_and_the_end_of_the_text_is_held_out(self):
        made = self.make_tokens()
        self.assertEqual(made["vocab"], 257)
        self.assertEqual(made["tokens"] + made["held_out"], self.text.stat().st_size + 2)
        self.assertGreater(made["held_out"], 0)

    def test_wrong_files_are_refused(self):
        self.refused("tokens", "-f", self.top / "none", "-o", self.tokens, says="^kvick: cannot read .*none$")
        self.refused("export", self.text, "-o", self.top / "x.gguf", says="text.txt: is no checkpoint of kvick train$")
        elsewhere = self.top / "kvick"
        shutil.copy(KVICK, elsewhere)
        self.refused("lm", "--data", "x", says="kvick-train, which is built where libtorch is: apt-get install libtorch",
                     program=elsewhere)

    @needs_trainer
    def test_a_trained_model_answers(self):
        self.make_tokens()
        for arch in ("lm", "bct"):
            folder = self.top / arch
            done = self.run_program("train", arch, "--data", self.tokens, "-o", folder, *SMALL, "--json")
            self.assertEqual(json.loads(done.stdout)["steps"], 3)
            self.assertEqual(len(json.loads((folder / "log.json").read_text())), 1)
            summary = json.loads((folder / "summary.json").read_text())
            self.assertEqual((summary["steps"], summary["slots"]), (3, 8 if arch == "bct" else None))
            self.run_program("train", "export", folder / "checkpoint.kvc", "-o", folder / "bf16.gguf", "--type", "bf16")
            for name in ("model.gguf", "bf16.gguf"):
                answer = self.run_program("run", "-m", folder / name, "--raw", "-p", "All", "-n", "4", "--json")
                self.assertEqual(json.loads(answer.stdout)["prompt_tokens"], 3)

    def make_teacher(self):
        """Makes a model whose vocabulary can tokenize texts, and a file of prompts (JSON lines). Returns both paths."""
        model = self.top / "teacher.gguf"
        subprocess.run([os.environ["MAKE_MODEL"], "-o", model, "--layers", "3", "--dim", "64", "--ffn", "96", "--heads", "2",
                        "--vocab", "512", "--context", "256", "--tied", "--type", "Q8_0"], check=True, timeout=120)
        prompts = self.top / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": f"def f{i}(x):"}) + "\n" for i in range(8)))
        return model, prompts

    def test_answers_are_stored_with_their_likeliest_tokens(self):
        model, prompts = self.make_teacher()
        answers = self.top / "a.answers"
        common = ("train", "answers", "-m", model, "-o", answers, "-n", "6", "-b", "3", "--top", "4")
        made = json.loads(self.run_program(*common, "-f", prompts, self.text, "--prompts", "5", "--json").stdout)
        self.assertEqual((made["sequences"], made["top"]), (10, 4))
        self.run_program(*common, "-f", prompts, "--seed", "3", "--temp", "1")
        first = answers.read_bytes()
        self.run_program(*common, "-f", prompts, "--seed", "3", "--temp", "1")
        self.assertEqual(answers.read_bytes(), first)
        self.refused("answers", "-m", model, "-o", answers, "-f", self.top / "none", says="^kvick: cannot read .*none$")
        self.refused("answers", "-m", model, "-o", answers, "-f", prompts, "--top", "0", says="from 1 to 512 likely tokens")
        self.refused("answers", "-m", model, "-o", answers, "-f", prompts, "--longest", "2", says="no prompts to answer")
        questions = self.top / "questions.jsonl"
        questions.write_text('{"question": "How many?", "answer": "2"}\n')
        made = json.loads(self.run_program(*common, "-f", questions, "--json").stdout)
        self.assertEqual(made["sequences"], 1)

    def test_a_model_that_training_cannot_start_from_is_refused(self):
        model, _ = self.make_teacher()
        start = self.top / "start.kvc"
        made = json.loads(self.run_program("train", "start", "-m", model, "-o", start, "--layers", "0,2", "--json").stdout)
        self.assertEqual(made["layers"], 2)
        self.refused("start", "-m", model, "-o", start, "--layers", "0,3", says="teacher.gguf: has no layer 3, only 0 to 2$")
        other = self.top / "qwen.gguf"
        subprocess.run([os.environ["MAKE_MODEL"], "-o", other, "--arch", "qwen3", "--layers", "1", "--dim", "64", "--ffn", "96",
                        "--heads", "2", "--vocab", "512"], check=True, timeout=120)
        self.refused("start", "-m", other, "-o", start, says="its architecture is qwen3; kvick-train starts from")

    @needs_trainer
    def test_a_draft_model_learns_from_a_model_and_drafts_for_it(self):
        model, prompts = self.make_teacher()
        start, answers, folder = self.top / "start.kvc", self.top / "a.answers", self.top / "draft"
        self.run_program("train", "start", "-m", model, "-o", start, "--layers", "0,2")
        self.run_program("train", "answers", "-m", model, "-f", prompts, "-o", answers, "-n", "12")
        draft = ("train", "draft", "--data", answers, "-o", folder)
        self.refused(*draft[1:], says="^kvick train: --start FILE is missing")
        self.refused(*draft[1:], "--start", start, "--layers", "3", says="--start decides the shape of the model, .* --layers$")
        done = self.run_program(*draft, "--start", start, "--batch", "2", "--steps", "3", "--warmup", "1", "--json")
        self.assertEqual(json.loads(done.stdout)["steps"], 3)
        run = ("run", "-m", model, "--raw", "-p", "def f", "-n", "24", "--temp", "0", "--json")
        plain = json.loads(self.run_program(*run).stdout)
        guessed = json.loads(self.run_program(*run, "--spec", f"draft:model={folder}/model.gguf,gain=off").stdout)
        self.assertEqual(guessed["text"], plain["text"])
        self.assertGreater(guessed["drafted"], 0)
        spoilt = self.with_other_first_word(folder / "model.gguf", 512)
        done = self.run_program(*run, "--spec", f"draft:model={spoilt}", status=2)
        self.assertRegex(done.stderr, "spoilt.gguf: kvick.draft.words has 512, which is no token's number$")

    def with_other_first_word(self, model, token):
        """A copy of the model with another first entry in its list of words. In the file the key is followed by its type, the type of
        the elements and their number."""
        data, key = bytearray(model.read_bytes()), b"kvick.draft.words"
        at = data.index(key) + len(key) + 4 + 4 + 8
        data[at:at + 4] = token.to_bytes(4, "little")
        spoilt = self.top / "spoilt.gguf"
        spoilt.write_bytes(data)
        return spoilt

    @needs_trainer
    def test_a_model_and_its_predictor_are_trained_together(self):
        model, _ = self.make_teacher()
        predictor, start, folder, tuned = (self.top / name for name in ("a.kvp", "start.kvc", "maple", "tuned.kvp"))
        window = ("--window", "64")
        self.run_program("train", "distil", "-m", model, "-f", self.text, "-o", predictor, *window)
        self.run_program("train", "start", "-m", model, "-o", start, "--predictor", predictor)
        self.run_program("train", "tokens", "-f", self.text, "-o", self.tokens, "--tokenizer", model)
        maple = ("train", "maple", "--data", self.tokens, "-o", folder, "--ctx", "48", "--held-out-targets", "48")
        self.refused("lm", "--start", start, "--data", self.tokens, "-o", folder, says="which only kvick train maple trains$")
        self.refused(*maple[1:], says="--start FILE is missing")
        self.refused(*maple[1:], "--start", start, "--budget", "1.5", says="--budget is 1.5, but must be a share of the rows")
        done = self.run_program(*maple, "--start", start, "--budget", "0.5", "--least", "8", "--recent", "4", "--json")
        self.assertGreater(json.loads(done.stdout)["steps"], 3)  # one epoch
        own = ("-m", folder / "model.gguf", "-f", self.text)
        made = json.loads(self.run_program("train", "predictor", folder / "checkpoint.kvc", *own, "-o", tuned, *window,
                                           "--json").stdout)
        self.assertEqual(len(made["layers"]), 3)
        self.run_program("ppl", *own, "--ctx", "96", "--kv-select", f"maple:budget=0.5,least=8,recent=4,file={tuned}")
        done = self.run_program("ppl", *own, "--ctx", "96", "--kv-select", f"maple:budget=0.5,file={predictor}", status=2)
        self.assertRegex(done.stderr, "for other weights than this model's")

    @needs_trainer
    def test_wrong_options_of_the_trainer_are_refused(self):
        self.make_tokens()
        self.refused("lm", "--data", self.tokens, says="^kvick train: -o FOLDER is missing")
        self.refused("bct", "--data", self.tokens, "-o", self.top / "x", "--dmi", "3", says="there is no option --dmi")
        self.refused("lm", "-o", self.top / "x", says="--task text needs --data FILE")


if __name__ == "__main__":
    unittest.main()
