#!/usr/bin/env python3
"""`kvick train kvzap`: it writes a file that scores which rows are forgotten, and refuses wrong options."""

import unittest

from made_model import CommandTest

QUICK = ("--window", "64", "--ahead", "8")


class KvzapTest(CommandTest):
    COMMAND = "train kvzap"

    def setUp(self):
        super().setUp()
        self.text = self.top / "text.txt"
        self.text.write_text("All happy families are alike; each unhappy family is unhappy in its own way. " * 8)
        self.file = self.top / "scores.kvp"

    def train(self, *arguments):
        self.COMMAND = "train kvzap"
        return self.json_of("-f", self.text, "-o", self.file, *QUICK, *arguments)

    def ppl(self, *arguments):
        self.COMMAND = "ppl"
        return self.json_of("-f", self.text, "--ctx", 64, *arguments)

    def test_the_default_window_is_at_most_the_context(self):
        self.text.write_text(self.text.read_text() * 4)
        made = self.json_of("-f", self.text, "-o", self.file, "--ahead", "8")
        self.assertEqual(made["held_out"], 256)
        self.refused("-f", self.text, "-o", self.file, "--window", 2048, "--ahead", 8, says="context of 256")

    def test_it_reports_how_well_scores_predict_attention(self):
        made = self.train()
        self.assertEqual((made["ahead"], made["held_out"], len(made["layers"])), (8, 64, 2))
        self.assertGreater(made["layers"][0]["explained"], 0)
        self.assertLessEqual(made["mean"]["mass"], 1)
        table = self.kvick("--quiet", "-f", self.text, "-o", self.file, *QUICK).stdout.splitlines()
        self.assertRegex(table[-1], r"^use: --kv-select kvzap:file=.*scores.kvp$")

    def test_rows_are_forgotten_by_their_scores(self):
        self.train()
        exact = self.ppl()
        for shared in ("model", "layer", "head"):
            policy = f"kvzap:file={self.file},budget=24,sinks=2,drop=4,shared={shared}"
            some = self.ppl("--kv-select", policy, "--against", "virtual")
            self.assertLess(some["kv_read_bytes_per_token"], exact["kv_read_bytes_per_token"])
            self.assertGreater(some["kl_mean"], 0)
        all_rows = self.ppl("--kv-select", f"kvzap:file={self.file},budget=1.0")
        self.assertAlmostEqual(all_rows["perplexity"], exact["perplexity"], 3)

    def test_the_planner_knows_its_memory(self):
        self.COMMAND = "plan"
        plan = lambda *select: self.json_of("--ctx", 64, *select)
        some = plan("--kv-select", "kvzap:budget=24")
        self.assertLess(some["kv_bytes"], plan()["kv_bytes"])
        said = self.kvick("--ctx", 64, "--kv-select", "kvzap:budget=24").stdout
        self.assertIn("no speed is predicted: only a few layers are measured, but a file of kvzap covers all layers of a model", said)

    def test_wrong_options_are_refused(self):
        self.train()
        self.COMMAND = "ppl"
        refused = lambda select, says: self.refused("-f", self.text, "--ctx", 64, "--kv-select", select, says=says)
        refused("kvzap", "kvzap needs a predictor: file=NAME.kvp, which kvick train kvzap makes")
        refused(f"maple:file={self.file}", "maple: the file is kvzap's")
        refused(f"loki:file={self.file}", "loki: the file is a predictor for kvzap")
        refused(f"kvzap:file={self.file},shared=all", "shared='all' is none of model, layer, head")
        refused(f"kvzap:file={self.file},budget=12", "drop=16 and sinks=4 together are more than a budget of 12 rows")
        self.refused("-f", self.text, "--ctx", 64, "--kv-select", f"kvzap:file={self.file}", "--kv-tier", "ram:fast=12KiB,size=16MiB",
                     says="leave --kv-tier out")
        self.COMMAND = "train kvzap"
        self.refused("-f", self.text, "-o", self.file, "--window", "64", says="windows of 64 tokens are too short")


if __name__ == "__main__":
    unittest.main()
