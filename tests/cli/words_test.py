#!/usr/bin/env python3
"""The command line itself: its help, what it says of mistyped words, and a prompt without -p."""

import json
import subprocess
import unittest

from made_model import KVICK, CommandTest, make_model


class WordsTest(CommandTest):
    def run_kvick(self, *arguments, status=0, stdin=None):
        done = subprocess.run([KVICK, *map(str, arguments)], env=self.env, input=stdin or "", capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, status, done)
        return done

    def wrong(self, *arguments, says):
        """One line on stderr, nothing on stdout, exit status 2."""
        done = self.run_kvick(*arguments, status=2)
        self.assertEqual((done.stdout, len(done.stderr.splitlines())), ("", 1), done)
        self.assertTrue(done.stderr.startswith("kvick: "), done.stderr)
        self.assertIn(says, done.stderr)

    def answer(self, *arguments):
        return json.loads(self.run_kvick("run", "-m", self.model, "--json", "--temp", "0", "--raw", *arguments).stdout)

    def test_a_mistyped_word_names_the_one_that_was_meant(self):
        self.wrong("rnu", says="there is no command 'rnu'; did you mean run?")
        self.wrong("train", "distl", says="train has no command 'distl'; did you mean distil?")
        self.wrong("run", "--promt", "x", says="run has no option --promt; did you mean --prompt?")
        self.wrong("serve", "--prt=80", says="serve has no option --prt; did you mean --port?")
        self.wrong("run", "--qiet", "x", says="did you mean --quiet?")  # of the program

    def test_a_word_like_none_lists_what_there_is(self):
        self.wrong("frobnicate", says="there are run, serve,")
        self.wrong(says="a command is missing: one of run, serve,")
        self.wrong("serve", "smollm2", says="serve takes no argument 'smollm2'")

    def test_a_value_that_an_option_does_not_take(self):
        self.wrong("run", "--attn", "foo", "x", says="--attn: 'foo' is none of fused, bmm (")
        self.wrong("run", "-n", "many", "x", says="--max-tokens: 'many' is not a whole number")
        self.wrong("run", "--threads", "0", "x", says="--threads: 0 is not from 1 to 1024")
        self.wrong("run", "-n", "5000000000", "x", says="--max-tokens: '5000000000' is too large")
        self.wrong("run", "--temp", "hot", "x", says="--temp: 'hot' is not a number")
        self.wrong("run", "--kv-memory", "3Q", "x", says="--kv-memory: '3Q' is not an amount of memory, such as 512MB")
        self.wrong("run", "-p", says="--prompt needs a value")
        self.wrong("inspect", says="model is required")

    def test_options_that_exclude_each_other(self):
        self.wrong("run", "-p", "x", "-f", "y", says="cannot be given together")
        self.wrong("run", "x", "-f", "y", says="cannot be given together")

    def test_help_names_the_values_of_a_choice(self):
        shown = self.run_kvick("run", "--help").stdout
        self.assertIn("--attn fused|bmm", shown)
        self.assertNotIn("ENUM", shown)
        self.assertNotRegex(shown, r"->\d")
        self.assertIn("(default: 512)", shown)
        for line in shown.splitlines():
            self.assertLessEqual(len(line), 120)
        for command in ("run", "serve", "lab", "train", "list", "inspect"):
            self.assertIn(f"\n  {command} ", self.run_kvick("--help").stdout)

    def test_a_prompt_without_p(self):
        same = self.answer("-p", "one two", "-n", "4")["tokens"]
        self.assertEqual(self.answer("one two", "-n", "4")["tokens"], same)
        self.assertEqual(self.answer("-n", "4", "one", "two")["tokens"], same)
        self.assertEqual(self.answer("--stop", "zzzz", "one", "two", "-n", "4")["tokens"], same)  # not more texts to stop at

    def test_a_models_name_is_no_prompt(self):
        self.wrong("run", "smollm2", says="'smollm2' is a model: kvick run -m smollm2")
        self.wrong("run", self.model, says="is a model: kvick run -m")

    def test_an_answer_without_n_ends_after_512_tokens(self):
        roomy = self.top / "roomy.gguf"
        make_model(roomy, "--layers", "1", "--dim", "64", "--ffn", "96", "--heads", "4", "--vocab", "512", "--context", "1024")
        run = ("run", "-m", roomy, "--temp", "0", "--raw", "--ignore-eos", "one two")
        answer = json.loads(self.run_kvick(*run, "--json").stdout)
        self.assertEqual((len(answer["tokens"]), answer["finish_reason"]), (512, "length"))
        self.assertIn("ended by length, which -n 512 allows", self.run_kvick(*run).stderr)
        endless = json.loads(self.run_kvick(*run, "--json", "-n", "0").stdout)
        self.assertGreater(len(endless["tokens"]), 900)


if __name__ == "__main__":
    unittest.main()
