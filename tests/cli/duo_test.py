#!/usr/bin/env python3
"""`kvick train duo`: it writes a file that says which KV heads keep all rows, and refuses wrong options."""

import unittest

from made_model import SMALL, make_model
from trained_file import TrainedFileTest


class DuoTest(TrainedFileTest):
    COMMAND, POLICY, NAME = "train duo", "duo", "heads.kvp"
    QUICK = ("--window", "64", "--sinks", "2", "--recent", "16")

    def test_the_default_window_is_at_most_the_context(self):
        self.text.write_text(self.text.read_text() * 4)
        made = self.train(quick=False)
        self.assertEqual((made["window"], made["sinks"], made["recent"]), (256, 16, 64))
        self.refused_training("--window", 2048, says="context of 256")

    def test_it_scores_each_head(self):
        made = self.train()
        self.assertEqual(len(made["layers"]), 2)
        self.assertEqual(made["tokens"], 56 * made["sequences"])
        self.assertGreaterEqual(made["sequences"], 2)
        scores = [score for layer in made["layers"] for score in layer]
        self.assertGreater(min(scores), 0)
        self.assertLessEqual(max(scores), 1)
        self.assertLess(min(scores), max(scores))
        some = self.train("--tokens", 130)
        self.assertEqual(some["sequences"], 2)
        self.assertEqual(self.table()[0], "layer    mean  lowest highest")

    def test_heads_keep_all_rows_or_few(self):
        self.train()
        self.check_forgetting("budget=24,sinks=2,recent=4,drop=4")

    def test_the_planner_knows_its_memory(self):
        self.check_plan("budget=24,sinks=2,recent=4,drop=4")

    def test_wrong_options_are_refused(self):
        self.train()
        refused = self.refused_policy
        refused("duo", says="duo needs the scores of KV heads: file=NAME.kvp, which kvick train duo makes")
        refused(f"maple:file={self.file}", says="maple: the file is duo's")
        refused(f"loki:file={self.file}", says="loki: the file is duo's")
        refused(f"kvzap:file={self.file}", says="kvzap: the file is a predictor for another policy")
        refused(f"duo:file={self.file},budget=12", says="sinks=16 and drop=16 together are more than a budget of 12 rows")
        refused(f"duo:file={self.text}", says="a predictor is a file that kvick train distil, pca, kvzap, duo or kvzip makes")
        refused(f"duo:file={self.file}", "--kv-tier", "ram:fast=12KiB,size=16MiB", says="leave --kv-tier out")
        other = str(self.top / "other.gguf")
        make_model(other, "--layers", "3", *SMALL[2:], "--type", "Q8_0")
        refused(f"duo:file={self.file}", says="heads.kvp is for another model: 2 layers .* make its own with kvick train duo", model=other)
        self.file.write_bytes(self.file.read_bytes().replace(b"text.txt", b"Text.txt", 1))
        refused(f"duo:file={self.file}", says="its checksum is wrong: it is damaged; copy the file again, or train it again")

    def test_a_text_or_window_that_measures_nothing_is_refused(self):
        refused = self.refused_training
        refused("--window", 64, "--sinks", 2,
                says="windows of 64 tokens are too short: the copies of a passage are 48 tokens apart, which 64 newest rows would cover")
        refused("--window", 64, "--recent", 16,
                says="16 sinks would cover more than half of a passage of 8 tokens: .* at most --sinks 4")
        refused(*self.QUICK, "--tokens", 100, says="needs two windows of 64")
        refused("--window", 64, "--sinks", 2, "--recent", 0, says="--recent")
        self.assertFalse(self.file.exists())


if __name__ == "__main__":
    unittest.main()
