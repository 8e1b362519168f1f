#!/usr/bin/env python3
"""The command line: help, suggestions for mistyped words, and prompts without -p."""

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
        """Checks that kvick exits with status 2, with one line on stderr and nothing on stdout."""
        done = self.run_kvick(*arguments, status=2)
        self.assertEqual((done.stdout, len(done.stderr.splitlines())), ("", 1), done)
        self.assertTrue(done.stderr.startswith("kvick: "), done.stderr)
        self.assertIn(says, done.stderr)

    def answer(self, *arguments):
        return json.loads(self.run_kvick("run", "-m", self.model, "--json", "--temp", "0", "--raw", *arguments).stdout)

    def test_a_mistyped_word_suggests_a_similar_one(self):
        self.wrong("rnu", says="there is no command 'rnu'; did you mean 'run'?")
        self.wrong("pul", says="there is no command 'pul'; did you mean 'pull'?")
        self.wrong("train", "distl", says="train has no command 'distl'; did you mean 'distil'?")
        self.wrong("run", "--promt", "x", says="run has no option --promt; did you mean '--prompt'?")
        self.wrong("serve", "--prt=80", says="serve has no option --prt; did you mean '--port'?")
        self.wrong("run", "--qiet", "x", says="did you mean '--quiet'?")  # a global option

    def test_a_complaint_shows_no_control_characters_of_a_word(self):
        self.wrong("run", "--pro\x1b[2Jmt", "x", says="run has no option --pro?[2Jmt")

    def test_a_shape_too_wide_to_measure_is_refused(self):
        self.wrong("plan", "--quiet", "--threads", "2", "--ctx", "64", "--shape",
                   "layers=2,heads=4,kv_heads=2,head_dim=32,dim=16777216,ffn=16777216", says="bytes of memory to measure, but only")

    def test_an_empty_model_name_is_refused(self):
        for command in (("run", "-m", "", "x"), ("ppl", "-m", "", "-f", "text.txt"),
                        ("ppl", "-m", self.model, "--reference", "", "-f", "text.txt")):
            self.wrong(*command, says="the name of the model is empty: give one, or leave it out")

    def test_help_explains_0_as_a_default(self):
        shown = " ".join(self.run_kvick("run", "--help").stdout.split())
        for what in ("0, the default: the model's context", "0, the default: what is free", "0, the default: a quarter of the disk's"):
            self.assertIn(what, shown)

    def test_an_unknown_command_lists_the_commands(self):
        self.wrong("frobnicate", says="there are run, chat, serve,")
        self.wrong(says="a command is missing: one of run, chat, serve,")
        self.wrong("serve", "smollm2", says="serve takes no argument 'smollm2'")

    def test_invalid_values_are_refused(self):
        self.wrong("run", "--attn", "foo", "x", says="--attn: 'foo' is none of fused, bmm (")
        self.wrong("run", "-n", "many", "x", says="--max-tokens: 'many' is not a whole number")
        self.wrong("run", "--threads", "0", "x", says="--threads: 0 is not from 1 to 1024")
        self.wrong("run", "-n", "5000000000", "x", says="--max-tokens: '5000000000' is too large")
        self.wrong("run", "--temp", "hot", "x", says="--temp: 'hot' is not a number")
        self.wrong("run", "--kv-memory", "3Q", "x", says="--kv-memory: '3Q' is not an amount of memory, such as 512MB")
        self.wrong("run", "-p", says="--prompt needs a value")
        self.wrong("inspect", says="model is required")
        self.wrong("run", "--temp", "1", "-m", "a", "--temp", "0", "x", says="--temp was given 2 times: give it once")
        self.wrong("bench", "-m", "a", "-m", "b", says="--model was given 2 times: give it once")
        self.wrong("plan", "--memory", "1GB", "--memory", "2GB", says="--memory was given 2 times: give it once")

    def test_failing_to_write_the_output_is_an_error(self):
        for words in (["list"], ["pull"], ["--help"], ["man", "list"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([KVICK, *words], env=self.env, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
                                      text=True, timeout=120)
            self.assertEqual(done.returncode, 1, done)
            self.assertRegex(done.stderr, r"\Akvick: cannot write [^\n]*\n\Z")

    def test_options_that_exclude_each_other_are_refused(self):
        self.wrong("run", "-p", "x", "-f", "y", says="cannot be given together")
        self.wrong("run", "x", "-f", "y", says="PROMPT and --file cannot be given together")

    def test_help_names_the_values_of_a_choice(self):
        shown = self.run_kvick("run", "--help").stdout
        self.assertIn("--attn fused|bmm", shown)
        self.assertNotIn("ENUM", shown)
        self.assertNotRegex(shown, r"->\d")
        self.assertRegex(shown, r"\(default: what the model's file says,\s+or 0.8\)")
        for line in shown.splitlines():
            self.assertLessEqual(len(line), 120)
        for command in ("run", "chat", "serve", "lab", "train", "list", "inspect", "rm", "help"):
            self.assertIn(f"\n  {command} ", self.run_kvick("--help").stdout)

    def commands(self):
        listed = self.run_kvick("--help").stdout.split("Subcommands:")[1]
        return [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and not line.startswith("   ")]

    def test_the_help_command_shows_the_same_as_the_option(self):
        self.assertIn("rm", self.commands())
        for command in set(self.commands()) - {"help", "train"}:
            shown = self.run_kvick("help", command).stdout
            self.assertEqual(shown, self.run_kvick(command, "--help").stdout)
            self.assertNotRegex(shown, r"->\w+[,}]", command)
            self.assertNotIn("ENUM", shown)
        self.assertEqual(self.run_kvick("help", "train", "distil").stdout, self.run_kvick("train", "distil", "--help").stdout)
        self.assertEqual(self.run_kvick("help").stdout, self.run_kvick("--help").stdout)
        self.wrong("help", "rnu", says="there is no command 'rnu'; did you mean 'run'?")

    def test_help_names_the_options_of_caches_and_policies_with_their_defaults(self):
        for command in ("run", "serve", "plan"):
            shown = " ".join(self.run_kvick(command, "--help").stdout.split())
            self.assertIn("options: block=32, prefix=on, evict=lru, hugepages=auto", shown)
            self.assertIn("options: budget=0.25, sinks=4, recent=32, dense_layers=2, page=16, candidates=0, spread=0.3, least=128, loss=0", shown)
            self.assertRegex(shown, r"options: budget=0.25, [^:]*\bfile=\.\.\.")

    def test_common_options_come_first(self):
        shown = self.run_kvick("run", "--help").stdout
        first = shown[shown.index("Options:"):shown.index("\nSampling:")]
        for option in ("--model", "--prompt", "--file", "--max-tokens", "--system", "--temp", "--seed", "--kv", "--ctx", "--threads"):
            self.assertRegex(first, rf"\n  (-\w,)?{option} ")
        for option in ("--kv-tier", "--packed", "--ranks", "--attn", "--top-k"):
            self.assertNotRegex(first, rf"\n  (-\w,)?{option} ")
            self.assertRegex(shown, rf"\n  (-\w,)?{option} ")

    def test_a_prompt_needs_no_p(self):
        same = self.answer("-p", "one two", "-n", "4")["tokens"]
        self.assertEqual(self.answer("one two", "-n", "4")["tokens"], same)
        self.assertEqual(self.answer("-n", "4", "one", "two")["tokens"], same)
        # --stop takes only one value, so the words after it are the prompt.
        self.assertEqual(self.answer("--stop", "zzzz", "one", "two", "-n", "4")["tokens"], same)

    def test_a_model_may_precede_the_prompt(self):
        run = ("run", "--json", "--temp", "0", "--raw", "-n", "4")
        same = self.answer("-p", "one two", "-n", "4")["tokens"]
        for words in ((self.model, "one two"), (self.model, "one", "two"), (self.model, "-p", "one two")):
            self.assertEqual(json.loads(self.run_kvick(*run, *words).stdout)["tokens"], same)
        self.wrong(*run, self.model, "one", "-p", "two", says="PROMPT and --prompt cannot be given together")

    def test_a_mistyped_model_suggests_a_similar_one(self):
        self.wrong("run", "smolm2", says="there is no model 'smolm2'; did you mean 'smollm2'? (if it is the prompt: -p smolm2)")
        self.wrong("run", "none.gguf", "hello", says="there is no file or model 'none.gguf'")

    def test_a_model_without_a_prompt_starts_a_chat(self):
        done = self.run_kvick("run", self.model, "-n", "2", "--temp", "0", "--ignore-eos", stdin="one\ntwo\n")
        self.assertGreaterEqual(done.stdout.count("\n"), 2, done)

    def test_an_answer_that_repeats_itself_ends(self):
        run = ("run", "-m", self.model, "--temp", "0", "--raw", "--logit-bias", "300:1000", "-n", "120", "one two")
        done = self.run_kvick(*run, "--json")
        answer = json.loads(done.stdout)
        self.assertEqual((answer["tokens"], answer["finish_reason"], answer["repeats_itself"]), ([300] * 96, "stop", True))
        self.assertIn("stopped: the answer repeats itself", done.stderr)
        self.assertIn("stopped: the answer repeats itself", self.run_kvick(*run).stderr)
        for option in ("--allow-loops", "--ignore-eos"):
            answer = json.loads(self.run_kvick(*run, "--json", option).stdout)
            self.assertEqual((len(answer["tokens"]), answer["finish_reason"], answer["repeats_itself"]), (120, "length", False))

    def test_an_answer_without_n_ends_with_the_context(self):
        roomy = self.top / "roomy.gguf"
        make_model(roomy, "--layers", "1", "--dim", "64", "--ffn", "96", "--heads", "4", "--vocab", "512", "--context", "1024")
        run = ("run", "-m", roomy, "--temp", "0", "--raw", "--ignore-eos", "one two")
        answer = json.loads(self.run_kvick(*run, "--json").stdout)
        self.assertGreater(len(answer["tokens"]), 900)
        self.assertEqual(answer["finish_reason"], "length")
        self.assertIn("ended by length: the context is full", self.run_kvick(*run).stderr)
        self.assertIn("ended by length: the limit of -n 5 is reached", self.run_kvick(*run, "-n", "5").stderr)
        endless = json.loads(self.run_kvick(*run, "--json", "-n", "0").stdout)
        self.assertEqual(endless["tokens"], answer["tokens"])


if __name__ == "__main__":
    unittest.main()
