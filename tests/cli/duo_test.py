#!/usr/bin/env python3
"""`kvick train duo`: it writes a file that says which KV heads keep all rows, and refuses wrong options."""

import unittest

from made_model import SMALL, CommandTest, make_model

QUICK = ("--window", "64", "--sinks", "2", "--recent", "16")


class DuoTest(CommandTest):
    COMMAND = "train duo"

    def setUp(self):
        super().setUp()
        self.text = self.top / "text.txt"
        self.text.write_text("All happy families are alike; each unhappy family is unhappy in its own way. " * 8)
        self.file = self.top / "heads.kvp"

    def train(self, *arguments):
        self.COMMAND = "train duo"
        return self.json_of("-f", self.text, "-o", self.file, *QUICK, *arguments)

    def ppl(self, *arguments):
        self.COMMAND = "ppl"
        return self.json_of("-f", self.text, "--ctx", 64, *arguments)

    def test_the_default_window_is_at_most_the_context(self):
        self.text.write_text(self.text.read_text() * 4)
        made = self.json_of("-f", self.text, "-o", self.file)
        self.assertEqual((made["window"], made["sinks"], made["recent"]), (256, 16, 64))
        self.refused("-f", self.text, "-o", self.file, "--window", 2048, says="context of 256")

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
        table = self.kvick("--quiet", "-f", self.text, "-o", self.file, *QUICK).stdout.splitlines()
        self.assertEqual(table[0], "layer    mean  lowest highest")
        self.assertRegex(table[-1], r"^use: --kv-select duo:file=.*heads.kvp$")

    def test_heads_keep_all_rows_or_few(self):
        self.train()
        exact = self.ppl()
        some = self.ppl("--kv-select", f"duo:file={self.file},budget=24,sinks=2,recent=4,drop=4", "--against", "virtual")
        self.assertLess(some["kv_read_bytes_per_token"], exact["kv_read_bytes_per_token"])
        self.assertGreater(some["kl_mean"], 0)
        all_rows = self.ppl("--kv-select", f"duo:file={self.file},budget=1.0")
        self.assertAlmostEqual(all_rows["perplexity"], exact["perplexity"], 3)

    def test_the_planner_knows_its_memory(self):
        self.COMMAND = "plan"
        plan = lambda *select: self.json_of("--ctx", 64, *select)
        select = ("--kv-select", "duo:budget=24,sinks=2,recent=4,drop=4")
        self.assertLess(plan(*select)["kv_bytes"], plan()["kv_bytes"])
        said = self.kvick("--ctx", 64, *select).stdout
        self.assertIn("no speed is predicted: only a few layers are measured, but a file of duo covers all layers of a model", said)

    def test_wrong_options_are_refused(self):
        self.train()
        self.COMMAND = "ppl"
        refused = lambda select, says, **more: self.refused("-f", self.text, "--ctx", 64, "--kv-select", select, says=says, **more)
        refused("duo", "duo needs the scores of KV heads: file=NAME.kvp, which kvick train duo makes")
        refused(f"maple:file={self.file}", "maple: the file is duo's")
        refused(f"loki:file={self.file}", "loki: the file is duo's")
        refused(f"kvzap:file={self.file}", "kvzap: the file is a predictor for another policy")
        refused(f"duo:file={self.file},budget=12", "sinks=16, recent=64 and drop=16 together are more than a budget of 12 rows")
        refused(f"duo:file={self.text}", "a predictor is a file that kvick train distil, pca, kvzap or duo makes")
        self.refused("-f", self.text, "--ctx", 64, "--kv-select", f"duo:file={self.file}", "--kv-tier", "ram:fast=12KiB,size=16MiB",
                     says="leave --kv-tier out")
        other = str(self.top / "other.gguf")
        make_model(other, "--layers", "3", *SMALL[2:], "--type", "Q8_0")
        refused(f"duo:file={self.file}", "heads.kvp is for another model: 2 layers .* make its own with kvick train duo", model=other)
        self.file.write_bytes(self.file.read_bytes().replace(b"text.txt", b"Text.txt", 1))
        refused(f"duo:file={self.file}", "its checksum is wrong: it is damaged; copy the file again, or train it again")

    def test_a_text_or_window_that_measures_nothing_is_refused(self):
        self.refused("-f", self.text, "-o", self.file, "--window", 64, "--sinks", 2,
                     says="windows of 64 tokens are too short: the copies of a passage are 48 tokens apart, which 64 newest rows would cover")
        self.refused("-f", self.text, "-o", self.file, "--window", 64, "--recent", 16,
                     says="16 sinks would cover more than half of a passage of 8 tokens: .* at most --sinks 4")
        self.refused("-f", self.text, "-o", self.file, *QUICK, "--tokens", 100, says="needs two windows of 64")
        self.refused("-f", self.text, "-o", self.file, "--window", 64, "--sinks", 2, "--recent", 0, says="--recent")
        self.assertFalse(self.file.exists())


if __name__ == "__main__":
    unittest.main()
