#!/usr/bin/env python3
"""`kvick quantize` and `kvick train imatrix`: the files work, their error is measured, and wrong options are refused."""

import json
import os
import pathlib
import subprocess
import unittest

from made_model import KVICK, CommandTest, make_model

# Rows of 256 weights, because the K types have blocks of 256.
WIDE = ("--layers", "2", "--dim", "256", "--ffn", "256", "--heads", "4", "--vocab", "512", "--context", "256")


class QuantizeTest(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = str(pathlib.Path(cls.models.name) / "folder")
        make_model(cls.folder, *WIDE, "--format", "hf", "--type", "BF16")
        cls.wide = str(pathlib.Path(cls.models.name) / "wide.gguf")
        make_model(cls.wide, *WIDE, "--type", "BF16")

    def setUp(self):
        super().setUp()
        self.text = self.write_text()
        self.out = self.top / "out.gguf"

    def kvick_says(self, *arguments, status=0):
        done = subprocess.run([KVICK, *map(str, arguments)], env=self.env, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=240)
        self.assertEqual(done.returncode, status, done)
        return done

    def quantize(self, *arguments):
        return json.loads(self.kvick_says("quantize", "--json", "--quiet", *arguments).stdout)

    def refused_line(self, *arguments, says):
        done = self.kvick_says("--quiet", *arguments, status=2)
        lines = done.stderr.splitlines()
        self.assertEqual((len(lines), done.stdout), (1, ""), done)
        self.assertRegex(lines[0], says)

    def test_json_is_valid_if_a_name_is_not_utf_8(self):
        out = self.top / os.fsdecode(b"out\xff.gguf")
        self.assertTrue(self.quantize(self.wide, "-o", out, "--type", "Q8_0")["output"].endswith("out\ufffd.gguf"))
        self.assertTrue(out.exists())

    def test_a_folder_becomes_a_small_file_that_runs(self):
        result = self.quantize(self.folder, "-o", self.out, "--check", self.text)
        self.assertEqual(result["bytes"] // 1000, sum(t["bytes"] for t in result["types"]) // 1000)
        self.assertLess(result["bits_per_weight"], 7)
        self.assertLess(result["check"]["kl_mean"], 1)  # high because the weights are random; a trained model has a tenth of this
        self.assertGreater(result["check"]["kl_mean"], 0)
        self.assertTrue(self.kvick_says("run", "-m", self.out, "-p", "one two", "--quiet", "-n", "4").stdout)

    def test_more_bits_have_a_smaller_error(self):
        errors = [self.quantize(self.wide, "-o", self.out, "--type", name, "--check", self.text)["check"]["kl_mean"]
                  for name in ("Q8_0", "Q5_K_M", "Q3_K_S")]
        self.assertEqual(errors, sorted(errors))

    def test_a_quantised_file_can_be_converted_to_floats(self):
        self.quantize(self.model, "-o", self.out, "--type", "F16")
        shown = json.loads(self.kvick_says("inspect", "--json", self.out).stdout)
        self.assertEqual(sorted(shown["dtypes"]), ["F16", "F32"])
        note = self.kvick_says("quantize", self.model, "-o", self.out, "--type", "Q4_0").stderr
        self.assertIn("are quantised already", note)

    def test_importance_is_measured_and_used(self):
        importance = self.top / "importance.gguf"
        done = json.loads(self.kvick_says("train", "imatrix", "-m", self.wide, "-f", self.text, "-o", importance, "--json",
                                          "--quiet").stdout)
        self.assertEqual(done["tensors"], 2 * 7 + 1)
        plain = self.quantize(self.wide, "-o", self.out, "--type", "Q4_0")
        before = self.out.read_bytes()
        weighted = self.quantize(self.wide, "-o", self.out, "--type", "Q4_0", "--importance", importance)
        self.assertEqual((plain["tensors_with_importance"], weighted["tensors_with_importance"]), (0, 2 * 7 + 1))
        self.assertNotEqual(self.out.read_bytes(), before)
        self.refused_line("quantize", self.wide, "-o", self.out, "--importance", self.wide, says="not an importance file")
        self.refused_line("quantize", self.wide, "-o", self.out, "--importance", self.text, says="not an importance file")
        self.refused_line("quantize", self.wide, "-o", self.out, "--importance", self.top, says="is not a regular file")
        make_model(str(self.top / "opt"), "--arch", "opt", "--format", "hf", "--layers", "1")
        self.kvick_says("train", "imatrix", "-m", self.model, "-f", self.text, "-o", importance, "--quiet")

    def test_some_tensors_may_have_other_types(self):
        self.quantize(self.wide, "-o", self.out, "--tensor-type", "blk.0.*=Q8_0", "--tensor-type", "output.weight=IQ4_XS")
        shown = json.loads(self.kvick_says("inspect", "--json", self.out).stdout)
        types = {t["name"]: t["dtype"] for t in shown["tensors"]}
        self.assertEqual((types["blk.0.ffn_up.weight"], types["blk.1.ffn_up.weight"], types["output.weight"]),
                         ("Q8_0", "Q4_K", "IQ4_XS"))

    def test_a_dry_run_writes_nothing(self):
        shown = self.kvick_says("quantize", self.wide, "--dry-run").stdout
        self.assertIn("would write Q4_K_M", shown)
        self.assertFalse(self.out.exists())

    def test_wrong_options_are_refused(self):
        refused = lambda *arguments, says: self.refused_line("quantize", *arguments, says=says)
        refused(self.wide, says="-o is missing")
        refused(self.wide, "-o", self.out, "--type", "Q4_K_X", says="no such type of file; kvick writes F32")
        refused(self.wide, "-o", self.wide, says="input and output are the same file; give another file with -o")
        refused(self.wide, "-o", self.top, says="is a folder; name a file")
        refused(self.wide, "-o", self.out, "--tensor-type", "blk.0", says="must be NAME=TYPE")
        refused(self.wide, "-o", self.out, "--tensor-type", "a=NVFP4", says="with a type that kvick writes")
        refused(self.wide, "-o", self.out, "--type", "IQ2_XS", says="only with an importance file: kvick train imatrix")
        refused(self.wide, "-o", self.out, "--tensor-type", "nothing=Q8_0", says="no tensor of that name")
        refused(self.wide, "-o", self.out, "--check", self.top / "none.txt", says="cannot read")
        refused(self.wide, "-o", self.out, "--check", self.top, says="cannot read .*: it is a folder")
        refused(self.wide, "-o", self.out, "--check", self.text, "--check-tokens", 1, says="text.txt: tokens to compare on: 1; at least 2 are needed")
        encoder = self.top / "encoder.gguf"
        make_model(str(encoder), *WIDE, "--family", "bert")
        refused(encoder, "-o", self.out, "--check", self.text, says="is an encoder, which predicts no text: leave --check out")
        refused(self.wide, "-o", self.top / "none" / "out.gguf", says="cannot write")
        refused(self.top / "none.gguf", "-o", self.out, says="none.gguf")
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    unittest.main(verbosity=1)
