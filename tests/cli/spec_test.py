#!/usr/bin/env python3
"""`kvick run --spec`: guesses that change nothing but the time."""

import unittest

from made_model import CommandTest, SMALL, make_model

PROMPT = "one two three four one two three four one two three four one two"


class SpecTest(CommandTest):
    COMMAND = "run"

    def answer(self, *arguments, temperature=0):
        return self.json_of("-p", PROMPT, "--raw", "--ignore-eos", "-n", 60, "--temp", temperature, "--seed", 5, *arguments)

    def test_every_way_gives_the_same_answer(self):
        draft = str(self.top / "draft.gguf")
        make_model(draft, *SMALL, "--type", "Q8_0")
        for temperature in (0, 0.8):
            plain = self.answer(temperature=temperature)
            self.assertEqual((plain["drafted"], plain["accepted"]), (0, 0))
            for spec in ("lookup", "suffix", "auto", "skip:layers=1", f"draft:model={draft},most=3"):
                guessed = self.answer("--spec", spec, temperature=temperature)
                self.assertEqual(guessed["tokens"], plain["tokens"], spec)
                self.assertEqual(guessed["text"], plain["text"], spec)
                self.assertLessEqual(guessed["accepted"], guessed["drafted"])
                if spec.startswith("draft"):
                    self.assertEqual(guessed["accepted"], guessed["drafted"], "the same model")
                    self.assertGreater(guessed["accepted"], 20)

    def test_every_store_takes_guesses(self):
        for kv in ("virtual", "bmc:r=8", "iterative", "upfront", "paged", "sliding"):
            plain, guessed = self.answer("--kv", kv), self.answer("--kv", kv, "--spec", "lookup")
            self.assertEqual(guessed["tokens"], plain["tokens"], kv)

    def test_mistakes_are_one_line(self):
        self.refused("-p", PROMPT, "--spec", "lokup", says="no way to speculate; there are none, auto, lookup")
        self.refused("-p", PROMPT, "--spec", "lookup:n=3", says="lookup has no option")
        self.refused("-p", PROMPT, "--spec", "draft", says="draft needs model=")
        self.refused("-p", PROMPT, "--spec", "draft:model=/none.gguf", says="/none.gguf")
        self.refused("-p", PROMPT, "--spec", "skip:layers=7", says="layer 7 cannot be left out")
        other = str(self.top / "other.gguf")
        make_model(other, *SMALL[:-4], "--vocab", "600", "--context", "256", "--type", "Q8_0")
        self.refused("-p", PROMPT, "--spec", f"draft:model={other}", says="the same")


if __name__ == "__main__":
    unittest.main(verbosity=1)
