#!/usr/bin/env python3
"""`kvick train kvtypes`, and `--kv-type auto`, which chooses types from the file that it writes."""

import json
import subprocess
import unittest

from made_model import KVICK, SMALL, CommandTest, make_model

MEASURE = ("--window", 64, "--tokens", 128)


class Types(CommandTest):
    COMMAND = "train kvtypes"

    def setUp(self):
        super().setUp()
        self.text = self.write_text()
        # Each test has its own model, because the file is written next to the model.
        self.model, self.file = str(self.top / "own.gguf"), self.top / "own.kvt"
        make_model(self.model, *SMALL, "--head-dim", "64", "--type", "Q8_0")

    def test_auto_chooses_the_smallest_type_within_the_bound(self):
        told = self.json_of("-f", self.text, *MEASURE, "--kl", 100)
        measured = json.loads(self.file.read_text())
        self.assertEqual(told["types"], measured["types"])
        self.assertEqual((told["file"], measured["text"]), (str(self.file), "text.txt"))
        self.assertEqual([one["kl_mean"] for one in measured["types"] if one["type"] == "f16"], [0])
        by_size = sorted(measured["types"], key=lambda one: (one["bytes_per_token"], one["kl_mean"]))
        self.assertEqual(told["recommended"], by_size[0]["type"])
        ppl = self.as_command("ppl")
        asked = ("-f", self.text, "--ctx", 64)
        for bound, smallest in ((100, by_size[0]["type"]), (0, "f16")):
            chosen = ppl.json_of(*asked, "--kv-type", f"auto:kl={bound}")
            named = ppl.json_of(*asked, "--kv-type", smallest)
            self.assertEqual(chosen["perplexity"], named["perplexity"])
        said = self.as_command("plan").kvick("--kv-type", "auto:kl=100").stdout
        self.assertIn(f"--kv-type auto chose {by_size[0]['type']}: ", said)

    def test_only_types_that_fit_the_model_are_measured(self):
        narrow = str(self.top / "narrow.gguf")
        make_model(narrow, *SMALL, "--type", "Q8_0")
        told = self.json_of("-f", self.text, *MEASURE, model=narrow)
        self.assertEqual([one["type"] for one in told["types"]], ["f16"])
        self.refused("-f", self.text, *MEASURE, "--kv-type", "q8", model=narrow, says="cannot be kept as Q8")

    def test_the_window_is_at_most_the_context(self):
        self.assertEqual(self.json_of("-f", self.text, "--kv-type", "f16")["window"], 256)

    def test_another_file_may_be_given(self):
        other = self.top / "elsewhere.kvt"
        done = self.kvick("-f", self.text, *MEASURE, "--kv-type", "q8", "--kl", 9, "-o", other)
        self.assertIn(f"written to {other}; --kv-type auto:kl=9 chooses by it with file={other}", done.stdout)
        self.assertFalse(self.file.exists())
        bench = self.as_command("bench").json_of("-p", 8, "-n", 2, "-r", 1, "--ctx", 64, "--kv-type", f"auto:kl=9,file={other}")
        named = self.as_command("bench").json_of("-p", 8, "-n", 2, "-r", 1, "--ctx", 64, "--kv-type", "q8")
        self.assertEqual(bench["kv"]["used_bytes"], named["kv"]["used_bytes"])

    def test_types_measured_before_are_kept(self):
        def names():
            return {one["type"] for one in json.loads(self.file.read_text())["types"]}

        self.json_of("-f", self.text, *MEASURE, "--kv-type", "f16", "--kv-type", "q4")
        self.json_of("-f", self.text, *MEASURE, "--kv-type", "q8")
        self.assertEqual(names(), {"f16", "q8", "q4"})
        # The mistake is reported before anything is measured, because measuring all types of a real model takes minutes.
        self.refused("-f", self.text, "--window", 32, "--kv-type", "q3",
                     says="own.kvt has types of another measurement, which would be lost: .*give another file with -o")
        other = self.top / "other.txt"
        other.write_text(self.text.read_text())
        self.refused("-f", other, *MEASURE, "--kv-type", "q3", says="would be lost: 126 tokens of text.txt in windows of 64")
        self.assertEqual(names(), {"f16", "q8", "q4"})
        self.json_of("-f", other, *MEASURE)
        self.assertGreater(len(names()), 8)

    def test_wrong_options_are_refused(self):
        self.refused("-f", self.top / "none.txt", says="none.txt")
        self.refused("-f", self.text, "-o", self.top / "no" / "a.kvt", says="cannot write .*a.kvt: .*-o names another file")
        self.refused("-f", self.text, "--kv-type", "q5", says='type "q5" do not exist')
        self.assertFalse(self.file.exists())
        run = self.as_command("run")
        run.refused("-p", "hello", "--kv-type", "auto", says="have not been measured: .*kvick train kvtypes -m MODEL -f TEXT")
        run.refused("-p", "hello", "--kv-type", "auto:kl=x", says="kl='x'")
        self.file.write_text("{}")
        run.refused("-p", "hello", "--kv-type", "auto", says="own.kvt: it is no file of measured types")
        done = subprocess.run([KVICK, "plan", "--shape", "layers=2,heads=2,kv_heads=2,head_dim=64", "--kv-type", "auto"],
                              env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done)
        self.assertIn("a --shape has none: name a type", done.stderr)


if __name__ == "__main__":
    unittest.main()
