#!/usr/bin/env python3
"""`kvick train distil`: it writes a predictor file, `kvick inspect` shows it, and wrong options are refused."""

import pathlib
import subprocess
import unittest

from made_model import KVICK, SMALL, make_model
from trained_file import TrainedFileTest


class DistilTest(TrainedFileTest):
    COMMAND, POLICY, NAME = "train distil", "maple", "predictor.kvp"
    QUICK = ("--window", "64")

    def test_it_reports_how_well_each_layer_is_predicted(self):
        for form in ("heads", "trained", "random"):
            made = self.train("--form", form)
            self.assertEqual((made["form"], made["rank"], len(made["layers"])), (form, 4, 2))  # a quarter of 16 values
            for quality in (made["mean"], *made["layers"]):
                self.assertGreater(quality["mse"], 0)
                self.assertLessEqual(quality["mass"], quality["best_mass"] + 1e-6)
        plain, turned = (self.train("--form", "random", "--position", position) for position in ("none", "rotary"))
        self.assertEqual(turned, made)  # rotary is the default
        self.assertNotEqual(plain["mean"], turned["mean"])
        self.assertEqual(len(self.table()), 6)

    def test_the_default_window_is_the_context_up_to_4096(self):
        self.text.write_text("a few words")
        self.refused_training(says="learning needs two windows of 256: give a longer text")
        shown = subprocess.run([KVICK, "train", "distil", "--help"], env=self.env, capture_output=True, text=True, timeout=60).stdout
        self.assertIn("(default: 4096, or the model's context if that is less)", " ".join(shown.split()))

    def test_the_same_seed_writes_the_same_file(self):
        self.train("--seed", "5")
        first = self.file.read_bytes()
        self.train("--seed", "5")
        self.assertEqual(self.file.read_bytes(), first)
        self.train("--seed", "6")
        self.assertNotEqual(self.file.read_bytes(), first)

    def test_inspect_shows_the_file(self):
        self.train()
        done = subprocess.run([KVICK, "inspect", str(self.file)], env=self.env, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done)
        shown = done.stdout
        self.assertIn("kvick.predictor.form", shown)
        self.assertIn('"text.txt"', shown)
        self.assertIn("blk.1.predictor_k.weight", shown)

    def test_wrong_options_are_refused(self):
        self.refused("-f", self.top / "none", "-o", self.file, says="cannot read .*none$")
        self.refused_training("--window", "200", says="needs two windows of 200: give a longer")
        self.refused_training("--window", "4096", says="context of 256")
        self.refused_training(*self.QUICK, "--rank", "99", says="a rank of 99, but keys have 16")
        self.refused_training(*self.QUICK, "--position", "rotary", says="not for the form heads, whose keys have it already")
        self.refused("-f", self.text, "-o", self.top / "no" / "x.kvp", *self.QUICK, says="x.kvp")
        bct = str(pathlib.Path(self.models.name) / "bct.gguf")
        make_model(bct, *SMALL, "--arch", "bct", "--slots", "48", "--head-dim", "32", "--type", "Q8_0")
        self.refused_training(*self.QUICK, says="memory of slots", model=bct)


if __name__ == "__main__":
    unittest.main()
