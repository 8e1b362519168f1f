#!/usr/bin/env python3
"""`kvick train kvzap`: it writes a file that scores which rows are forgotten, and refuses wrong options."""

import unittest

from trained_file import TrainedFileTest


class KvzapTest(TrainedFileTest):
    COMMAND, POLICY, NAME = "train kvzap", "kvzap", "scores.kvp"
    QUICK = ("--window", "64", "--ahead", "8")

    def test_the_default_window_is_at_most_the_context(self):
        self.text.write_text(self.text.read_text() * 4)
        self.assertEqual(self.train("--ahead", "8", quick=False)["held_out"], 256)
        self.refused_training("--window", 2048, "--ahead", 8, says="context of 256")

    def test_it_reports_how_well_scores_predict_attention(self):
        made = self.train()
        self.assertEqual((made["ahead"], made["held_out"], len(made["layers"])), (8, 64, 2))
        self.assertGreater(made["layers"][0]["explained"], 0)
        self.assertLessEqual(made["mean"]["mass"], 1)
        self.table()

    def test_rows_are_forgotten_by_their_scores(self):
        self.train()
        self.check_forgetting(*(f"budget=24,sinks=2,drop=4,shared={shared}" for shared in ("model", "layer", "head")))

    def test_the_planner_knows_its_memory(self):
        self.check_plan("budget=24")

    def test_wrong_options_are_refused(self):
        self.train()
        self.refused_policy("kvzap", says="kvzap needs a predictor: file=NAME.kvp, which kvick train kvzap makes")
        self.refused_policy(f"maple:file={self.file}", says="maple: the file is kvzap's")
        self.refused_policy(f"loki:file={self.file}", says="loki: the file is a predictor for kvzap")
        self.refused_policy(f"kvzap:file={self.file},shared=all", says="shared='all' is none of model, layer, head")
        self.refused_policy(f"kvzap:file={self.file},budget=12", says="drop=16 and sinks=4 together are more than a budget of 12 rows")
        self.refused_policy(f"kvzap:file={self.file}", "--kv-tier", "ram:fast=12KiB,size=16MiB", says="leave --kv-tier out")
        self.refused_training("--window", "64", says="windows of 64 tokens are too short")

    def test_an_output_that_cannot_be_written_is_an_error_before_the_training(self):
        # Windows that are too short are an error of the training.
        self.file = self.top / "no" / "scores.kvp"
        self.refused_training("--window", "64", says="cannot write .*scores.kvp: No such file or directory; -o names another file")
        self.file = self.top
        self.refused_training("--window", "64", says="cannot write .*: it is a folder; -o names a file")


if __name__ == "__main__":
    unittest.main()
