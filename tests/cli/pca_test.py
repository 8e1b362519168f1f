#!/usr/bin/env python3
"""`kvick train pca`: it writes a file of components for the policy loki, which works in memory and with a slower tier; wrong options
are refused."""

import unittest

from made_model import CommandTest

QUICK = ("--window", "64")


class PcaTest(CommandTest):
    COMMAND = "train pca"

    def setUp(self):
        super().setUp()
        self.text = self.top / "text.txt"
        self.text.write_text("All happy families are alike; each unhappy family is unhappy in its own way. " * 8)
        self.file = self.top / "components.kvp"

    def pca(self, *arguments):
        self.COMMAND = "train pca"
        return self.json_of("-f", self.text, "-o", self.file, *QUICK, *arguments)

    def ppl(self, *arguments):
        self.COMMAND = "ppl"
        return self.json_of("-f", self.text, "--ctx", 64, *arguments)

    def test_the_default_window_is_at_most_the_context(self):
        self.text.write_text(self.text.read_text() * 4)
        made = self.json_of("-f", self.text, "-o", self.file)
        self.assertEqual(made["held_out"], 256)
        self.refused("-f", self.text, "-o", self.file, "--window", 2048, says="context of 256")

    def test_it_reports_how_much_the_components_explain(self):
        few, most = self.pca("--rank", "2"), self.pca("--rank", "16", "--keys", "plain")
        self.assertEqual((few["components"], few["keys"], len(few["layers"])), (2, "rotated", 2))
        self.assertLess(few["mean"]["explained"], 1)
        self.assertEqual((most["components"], most["keys"]), (16, "plain"))
        self.assertAlmostEqual(most["mean"]["explained"], 1, 6)
        table = self.kvick("--quiet", "-f", self.text, "-o", self.file, *QUICK).stdout.splitlines()
        self.assertRegex(table[-1], r"^use: --kv-select loki:file=.*components.kvp$")

    def test_loki_uses_the_components_in_memory_and_with_a_tier(self):
        self.pca()
        exact = self.ppl()
        policy = ("--kv-select", f"loki:file={self.file},budget=12,sinks=2,recent=4")
        some = self.ppl(*policy, "--against", "virtual")
        self.assertLess(some["kv_read_bytes_per_token"], exact["kv_read_bytes_per_token"])
        self.assertGreater(some["kl_mean"], 0)
        tiered = self.ppl(*policy, "--kv-tier", "ram:fast=12KiB,size=16MiB,unit=4")
        self.assertEqual(tiered["perplexity"], some["perplexity"])
        self.assertGreater(tiered["slow_read_bytes_per_token"], 0)

    def test_wrong_options_are_refused(self):
        self.pca()
        self.COMMAND = "ppl"
        refused = lambda select, says: self.refused("-f", self.text, "--ctx", 64, "--kv-select", select, says=says)
        refused("loki", "loki needs the components of keys: file=NAME.kvp, which kvick train pca makes")
        refused(f"loki:file={self.file},d=9", "loki: d is 9, but the file has 4 components")
        refused(f"maple:file={self.file}", "maple: the file has loki's components")
        self.COMMAND = "train pca"
        self.refused("-f", self.text, "-o", self.file, *QUICK, "--rank", "99", says="99 components, but keys have 16")


if __name__ == "__main__":
    unittest.main()
