#!/usr/bin/env python3
"""`kvick run --spec`: speculative decoding does not change answers. Also `kvick bench` with it, and with adapters."""

import unittest

from made_model import CommandTest, SMALL, make_adapter, make_model

PROMPT = "one two three four one two three four one two three four one two"


class SpecTest(CommandTest):
    COMMAND = "run"

    def answer(self, *arguments, temperature=0):
        return self.json_of("-p", PROMPT, "--raw", "--ignore-eos", "-n", 60, "--temp", temperature, "--seed", 5, *arguments)

    def test_every_method_gives_the_same_answer(self):
        draft = str(self.top / "draft.gguf")
        make_model(draft, *SMALL, "--type", "Q8_0")
        for temperature in (0, 0.8):
            plain = self.answer(temperature=temperature)
            self.assertEqual((plain["drafted"], plain["accepted"]), (0, 0))
            for spec in ("lookup", "lookup:gain=off", "suffix:gain=off", "auto", f"auto:model={draft}", "skip:layers=1,gain=off",
                         f"draft:model={draft},most=3", f"draft:model={draft},most=3,gain=off"):
                guessed = self.answer("--spec", spec, temperature=temperature)
                self.assertEqual(guessed["tokens"], plain["tokens"], spec)
                self.assertEqual(guessed["text"], plain["text"], spec)
                self.assertLessEqual(guessed["accepted"], guessed["drafted"])
                if spec.startswith("draft") and "gain=off" in spec:
                    # A draft model always processes prompts with exact arithmetic. If the model does too and is the same one, all
                    # draft tokens are accepted.
                    exact = self.answer("--spec", spec, "--prompt-arithmetic", "exact", temperature=temperature)
                    self.assertEqual(exact["accepted"], exact["drafted"], "the same model")
                    self.assertGreater(exact["accepted"], 20)

    def test_every_store_accepts_draft_tokens(self):
        for kv in ("virtual", "bmc:r=8", "iterative", "upfront", "paged", "sliding"):
            plain, guessed = self.answer("--kv", kv), self.answer("--kv", kv, "--spec", "lookup:gain=off")
            self.assertEqual(guessed["tokens"], plain["tokens"], kv)

    def test_wrong_options_are_refused(self):
        self.refused("-p", PROMPT, "--spec", "lokup", says="no way to draft tokens; there are none, auto, lookup")
        self.refused("-p", PROMPT, "--spec", "lookup:n=3", says="lookup has no option")
        self.refused("-p", PROMPT, "--spec", "draft", says="draft needs model=")
        self.refused("-p", PROMPT, "--spec", "draft:model=/none.gguf", says="/none.gguf")
        self.refused("-p", PROMPT, "--spec", "skip:layers=7", says="layer 7 cannot be left out")
        other = str(self.top / "other.gguf")
        make_model(other, *SMALL[:-4], "--vocab", "600", "--context", "256", "--type", "Q8_0")
        self.refused("-p", PROMPT, "--spec", f"draft:model={other}", says="the same")


class BenchSpecTest(CommandTest):
    COMMAND = "bench"
    CASE = ("-p", 40, "-n", 30, "-r", 1)

    def test_draft_tokens_are_counted_and_change_no_answer(self):
        for arguments in (("-b", 1), ("-b", 3), ("--kv", "paged")):
            result = self.json_of("--spec", "lookup:gain=off", *self.CASE, *arguments)
            plain, guessed = result["ways"]
            self.assertTrue(result["same_answers"])
            self.assertEqual((plain["spec"], plain["drafted"], plain["tokens_per_pass"], plain["speedup"]), ("none", 0, 1, 1))
            self.assertEqual(guessed["spec"], "lookup:gain=off")
            self.assertGreater(guessed["drafted"], 0)
            self.assertGreaterEqual(guessed["tokens_per_pass"], 1)
            self.assertGreater(guessed["tok_s"], 0)

    def test_a_text_is_split_into_prompts(self):
        text = self.top / "text.txt"
        text.write_text("one two three four " * 100)
        result = self.json_of("--spec", "auto", "-f", text, *self.CASE)
        self.assertEqual((result["prompts"], result["prompt"], result["text"]), (4, 40, str(text)))
        table = self.kvick("--spec", "auto", "-f", text, *self.CASE).stdout
        self.assertIn("4 prompts of 40 tokens of " + str(text), table)
        self.assertIn("the answers are the same", table)

    def test_wrong_options_are_refused(self):
        self.refused("--spec", "lokup", *self.CASE, says="no way to draft tokens")
        self.refused("--spec", "auto", "-f", "/nowhere.txt", *self.CASE, says="cannot read /nowhere.txt")
        self.refused("--spec", "auto", "-f", self.top, *self.CASE, says="cannot read .*: it is a folder")
        self.refused("--spec", "auto", "--calibrate", *self.CASE, says="leave --calibrate out")
        self.refused("--spec", "auto", "-p", "4,8", says="one number each")
        self.refused("--spec", "auto", "-p", 0, says="-p must be at least 1")
        self.refused("--spec", "auto", "-d", 9, says="leave -d out")
        self.refused("--spec", "auto", "-p", 250, "-n", 30, says="do not fit a context of 256")
        self.refused("-f", "x.txt", says="-f gives the text for --spec or --lora")
        empty = self.top / "empty.txt"
        empty.write_text("")
        self.refused("--spec", "auto", "-f", empty, *self.CASE, says="is empty; give a file with text")


class BenchLoraTest(CommandTest):
    COMMAND = "bench"
    CASE = ("-p", 40, "-n", 12, "-r", 1)

    def test_adapters_are_compared_with_the_bare_model(self):
        for name in "one", "two":
            make_adapter(self.top / name)
        for count, parallel in (1, 1), (2, 4):
            adapters = [argument for name in ("one", "two")[:count] for argument in ("--lora", self.top / name)]
            result = self.json_of(*adapters, "-b", parallel, *self.CASE)
            plain, adapted = result["ways"]
            self.assertEqual((plain["adapters"], plain["speedup"], adapted["adapters"]), (0, 1, count))
            self.assertGreater(adapted["tok_s"], 0)
            self.assertFalse(result["same_answers"])
        table = self.kvick(*adapters, "-b", 2, *self.CASE).stdout
        self.assertIn("2 adapters", table)

    def test_an_adapter_of_scale_0_changes_no_answer(self):
        make_adapter(self.top / "one")
        self.assertTrue(self.json_of("--lora", f"{self.top / 'one'}:0", *self.CASE)["same_answers"])

    def test_wrong_options_are_refused(self):
        make_adapter(self.top / "one")
        self.refused("--lora", self.top / "none", *self.CASE, says="there is no such adapter")
        self.refused("--lora", self.top / "one", "--spec", "auto", *self.CASE, says="one at a time")
        self.refused("--lora", self.top / "one", "-b", "1,2", says="with --lora, -p, -n and -b take one number each")


if __name__ == "__main__":
    unittest.main(verbosity=1)
