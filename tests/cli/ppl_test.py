#!/usr/bin/env python3
"""`kvick ppl --reference`: compares a quantised model with its float weights, and refuses models that cannot be compared."""

import pathlib
import subprocess
import unittest

from made_model import KVICK, SMALL, CommandTest, make_model


class PplTest(CommandTest):
    COMMAND = "ppl"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.floats = str(pathlib.Path(cls.models.name) / "floats.gguf")
        subprocess.run([KVICK, "quantize", cls.model, "-o", cls.floats, "--type", "F32", "--quiet"], check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=120)

    def setUp(self):
        super().setUp()
        self.text = self.write_text()

    def ppl(self, *arguments):
        return self.json_of("-f", self.text, "--ctx", 64, *arguments)

    def test_a_model_is_compared_with_its_float_weights(self):
        result = self.ppl("--reference", self.floats)
        floats = self.json_of("-f", self.text, "--ctx", 64, model=self.floats)
        self.assertAlmostEqual(result["reference_perplexity"] / floats["perplexity"], 1)
        self.assertEqual(result["perplexity_ratio"], result["perplexity"] / result["reference_perplexity"])
        self.assertGreater(result["kl_mean"], 0, "activations of 8 bits are not float32")
        self.assertLess(result["kl_mean"], 0.1)
        self.assertGreaterEqual(result["kl_p99"], result["kl_mean"])
        self.assertGreater(result["top1_agreement"], 0.5)
        self.assertLessEqual(result["top1_agreement"], 1)

    def test_a_model_equals_itself(self):
        result = self.ppl("--reference", self.model)
        self.assertAlmostEqual(result["perplexity_ratio"], 1)
        self.assertEqual(result["top1_agreement"], 1)
        self.assertLess(result["kl_p99"], 1e-9)

    def test_against_is_the_cache_of_the_reference(self):
        result = self.ppl("--reference", self.floats, "--against", "bmc")
        self.assertEqual(result["reference_perplexity"], self.ppl("--reference", self.floats)["reference_perplexity"])

    def test_a_policy_reads_fewer_rows_and_is_compared_with_all_rows(self):
        exact = self.ppl()
        for policy in ("quest:dense_layers=0,page=4", "sparq:r=8", "streaming", "h2o", "scissorhands:drop=4",
                       "snapkv:drop=4,window=4", "expected:drop=4"):
            some = self.ppl("--kv-select", f"{policy}{',' if ':' in policy else ':'}budget=12,sinks=2"
                            + ("" if policy.startswith(("streaming", "snapkv")) else ",recent=4"), "--against", "virtual")
            self.assertLess(some["kv_read_bytes_per_token"], exact["kv_read_bytes_per_token"], policy)
            self.assertGreater(some["kl_mean"], 0, policy)
            self.assertAlmostEqual(some["reference_perplexity"] / exact["perplexity"], 1, 5, policy)
            all_rows = self.ppl("--kv-select", f"{policy.split(':')[0]}:budget=1.0")
            self.assertAlmostEqual(all_rows["perplexity"] / exact["perplexity"], 1, 5, policy)

    def test_unknown_and_unsuitable_policies_are_refused(self):
        refused = lambda *arguments, says: self.refused("-f", self.text, "--ctx", 64, *arguments, says=says)
        refused("--kv-select", "qest", says='unknown policy "qest"; there are none, quest')
        refused("--kv-select", "quest:budget=0", says="quest: budget='0' is not a whole number")
        refused("--kv-select", "quest:budget=20,least=4", says="quest: least= is for a budget that is a share")
        refused("--kv-select", "quest", "--kv", "sliding", says="sliding does not keep rows that quest could choose from")
        refused("--kv-select", "h2o", "--kv", "paged", says="leave --kv out, or give virtual")
        groups = str(pathlib.Path(self.models.name) / "groups.gguf")
        make_model(groups, *SMALL, "--head-dim", "32", "--type", "Q8_0")
        self.refused("-f", self.text, "--ctx", 64, "--kv-select", "quest", "--kv-type", "mixed",
                     says="quest reads rows of one type", model=groups)

    def test_the_default_window_is_at_most_the_context(self):
        self.assertEqual(self.json_of("-f", self.text), self.json_of("-f", self.text, "--ctx", 256))
        self.refused("-f", self.text, "--ctx", 257, says="a window of 257 tokens, but it must be 2 to the model's context of 256")

    def test_without_a_reference_there_is_no_ratio(self):
        result = self.ppl()
        self.assertNotIn("reference_perplexity", result)
        self.assertEqual((result["kl_mean"], result["top1_agreement"]), (0, 1))

    def test_the_comparison_is_printed(self):
        done = self.kvick("-f", self.text, "--ctx", 64, "--reference", self.floats)
        self.assertRegex(done.stdout, "against .*floats.gguf: perplexity [0-9.]+, ratio [0-9.]+")
        self.assertRegex(done.stdout, "KL mean [0-9.]+, 99th percentile")

    def test_models_that_cannot_be_compared_are_refused(self):
        other = str(self.top / "other.gguf")
        make_model(other, *SMALL[:-4], "--vocab", "600", "--context", "256")
        self.refused("-f", self.text, "--ctx", 64, "--reference", other, says="vocabulary of 512 .* one of 600")
        make_model(other, *SMALL, "--vocabulary", "llama")
        self.refused("-f", self.text, "--ctx", 64, "--reference", other, says="different vocabularies, from token")
        make_model(other, *SMALL[:-2], "--context", "32")
        self.refused("-f", self.text, "--ctx", 64, "--reference", other, says="the reference's context of 32")
        self.refused("-f", self.text, "--reference", str(self.top / "none.gguf"), says="none.gguf")


if __name__ == "__main__":
    unittest.main(verbosity=1)
