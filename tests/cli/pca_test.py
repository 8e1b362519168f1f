#!/usr/bin/env python3
"""`kvick train pca`: it writes a file of components for the policy loki, which works in memory and with a slower tier; wrong options
are refused."""

import unittest

from trained_file import TrainedFileTest


class PcaTest(TrainedFileTest):
    COMMAND, POLICY, NAME = "train pca", "loki", "components.kvp"
    QUICK = ("--window", "64")

    def test_the_default_window_is_at_most_the_context(self):
        self.text.write_text(self.text.read_text() * 4)
        self.assertEqual(self.train(quick=False)["held_out"], 256)
        self.refused_training("--window", 2048, says="context of 256")

    def test_it_reports_how_much_the_components_explain(self):
        few, most = self.train("--rank", "2"), self.train("--rank", "16", "--keys", "plain")
        self.assertEqual((few["components"], few["keys"], len(few["layers"])), (2, "rotated", 2))
        self.assertLess(few["mean"]["explained"], 1)
        self.assertEqual((most["components"], most["keys"]), (16, "plain"))
        self.assertAlmostEqual(most["mean"]["explained"], 1, 6)
        self.table()

    def test_loki_uses_the_components_in_memory_and_with_a_tier(self):
        self.train()
        exact = self.ppl()
        policy = ("--kv-select", f"loki:file={self.file},budget=12,sinks=2,recent=4")
        some = self.ppl(*policy, "--against", "virtual")
        self.assertLess(some["kv_read_bytes_per_token"], exact["kv_read_bytes_per_token"])
        self.assertGreater(some["kl_mean"], 0)
        tiered = self.ppl(*policy, "--kv-tier", "ram:fast=12KiB,size=16MiB,unit=4")
        self.assertEqual(tiered["perplexity"], some["perplexity"])
        self.assertGreater(tiered["slow_read_bytes_per_token"], 0)

    def test_wrong_options_are_refused(self):
        self.train()
        self.refused_policy("loki", says="loki needs the components of keys: file=NAME.kvp, which kvick train pca makes")
        self.refused_policy(f"loki:file={self.file},d=9", says="loki: d is 9, but the file has 4 components")
        self.refused_policy(f"maple:file={self.file}", says="maple: the file has loki's components")
        self.refused_training(*self.QUICK, "--rank", "99", says="99 components, but keys have 16")


if __name__ == "__main__":
    unittest.main()
