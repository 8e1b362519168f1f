#!/usr/bin/env python3
"""`kvick train ranges` and the row types that need its file; a cache whose sequences may grow beyond the context."""

import json
import unittest

from made_model import SMALL, CommandTest, make_model


class StaticTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.text = self.write_text()
        self.ranges = self.top / "ranges.kvr"


class Ranges(StaticTest):
    COMMAND = "train ranges"

    def test_it_writes_a_file_for_the_static_types(self):
        result = self.json_of("-f", self.text, "-o", self.ranges, "--margin", 0.25)
        made = json.loads(self.ranges.read_text())
        self.assertEqual((result["layers"], result["kv_heads"], result["margin"]), (2, 2, 0.25))
        self.assertEqual(len(made["k"]), 4)
        self.assertAlmostEqual(max(made["v"]), result["largest_value"], 5)
        ppl = self.as_command("ppl")
        rates = {kind: ppl.json_of("-f", self.text, "--ctx", 64, "--kv-type", kind)["perplexity"]
                 for kind in ("f32", f"static8:{self.ranges}", f"static16:{self.ranges}", f"k=static8:{self.ranges},v=bf16")}
        exact, *others = rates.values()
        for rate in others:
            self.assertNotEqual(rate, exact)
            self.assertAlmostEqual(rate / exact, 1, 2, rates)
        bench = self.as_command("bench").json_of("-p", 8, "-n", 2, "-r", 1, "--kv-type", f"static8:{self.ranges}",
                                                 "--kv", "sliding:reserve=1.5", "--ctx", 64)
        # 2 layers x keys and values x 2 heads x 16 values x 1 byte = 128 bytes per token; 94.5 rows are rounded up to 95.
        self.assertEqual((bench["kv"]["used_bytes"], bench["kv"]["allocated_bytes"]), (2 * 128, 95 * 128))
        plan = self.as_command("plan").json_of("--kv-type", f"static8:{self.ranges}", "--kv", "sliding:reserve=1.5", "--ctx", 64)
        self.assertEqual(plan["kv_bytes"], 95 * 128)
        self.assertGreater(plan["predicted_decode_tok_s"], 0)

    def test_it_prints_how_to_use_the_file(self):
        done = self.kvick("-f", self.text, "-o", self.ranges)
        self.assertRegex(done.stdout, "ranges of 2 layers of 2 KV heads over [0-9]+ tokens")
        self.assertIn(f"--kv-type static8:{self.ranges}", done.stdout)

    def test_wrong_options_are_refused(self):
        self.refused("-f", self.top / "none.txt", "-o", self.ranges, says="none.txt")
        self.refused("-f", self.text, "-o", self.top / "no" / "folder.kvr", says="cannot write .*folder.kvr")
        self.refused("-f", self.text, "-o", self.ranges, "--margin", -1, says="a margin of -1")
        (self.top / "empty.txt").write_text("")
        self.refused("-f", self.top / "empty.txt", "-o", self.ranges, says="no tokens")
        self.assertFalse(self.ranges.exists())
        self.kvick("-f", self.text, "-o", self.ranges)
        other = str(self.top / "other.gguf")
        make_model(other, *SMALL, "--type", "F32")
        ppl = self.as_command("ppl")
        ppl.refused("-f", self.text, "--ctx", 64, "--kv-type", f"static8:{self.ranges}", says="other weights", model=other)
        ppl.refused("-f", self.text, "--ctx", 64, "--kv-type", "static8", says="static8:FILE.kvr")
        ppl.refused("-f", self.text, "--ctx", 64, "--kv-type", f"static16:{self.text}", says="no file of ranges")


class Endless(StaticTest):
    COMMAND = "bench"

    def test_bench_exceeds_the_context(self):
        result = self.json_of("-p", 0, "-n", 4, "-d", 700, "-r", 1, "--ctx", 64, "--kv", "sliding")
        # 2 layers x keys and values x 2 heads x 16 values x 2 bytes (f16) = 256 bytes per token.
        self.assertEqual((result["kv"]["used_bytes"], result["kv"]["allocated_bytes"]), (63 * 256, 126 * 256))
        self.refused("-p", 0, "-n", 4, "-d", 700, "--ctx", 64, says="does not fit a context of 64")

    def test_run_exceeds_the_context(self):
        run = self.as_command("run")
        result = run.json_of("--raw", "-p", "once", "-n", 500, "--ignore-eos", "--ctx", 32, "--kv", "sliding:reserve=1")
        self.assertEqual(len(result["tokens"]), 500)

    def test_ppl_accepts_windows_longer_than_the_context(self):
        ppl = self.as_command("ppl")
        windows = ("-f", self.text, "--ctx", 32, "--window", 300)
        result = ppl.json_of(*windows, "--kv", "sliding")
        self.assertEqual((result["kv_bytes"], result["kv_read_bytes_per_token"]), (62 * 256, 32 * 256))
        ppl.refused(*windows, says="--window 300 is longer than --ctx 32, the longest sequence of virtual: raise --ctx")

    def test_streaming_exceeds_the_context_with_a_budget_in_rows(self):
        policy = ("--kv-select", "streaming:budget=24")
        result = self.json_of("-p", 0, "-n", 4, "-d", 700, "-r", 1, "--ctx", 64, *policy)
        self.assertEqual(result["kv"]["used_bytes"], 24 * 256)
        run = self.as_command("run")
        result = run.json_of("--raw", "-p", "once", "-n", 500, "--ignore-eos", "--ctx", 32, *policy)
        self.assertEqual(len(result["tokens"]), 500)
        ppl = self.as_command("ppl")
        windows = ("-f", self.text, "--ctx", 32, "--window", 300)
        self.assertEqual(ppl.json_of(*windows, *policy)["kv_read_bytes_per_token"], 25 * 256)
        for ends in ("streaming:budget=0.25", "streaming:budget=33", "h2o:budget=24"):
            ppl.refused(*windows, "--kv-select", ends, says="--window 300 is longer than --ctx 32")


if __name__ == "__main__":
    unittest.main(verbosity=1)
