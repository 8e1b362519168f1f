"""kvick lab on a small trace, and attention by bmm in bench."""

import json
import unittest

from made_model import CommandTest


class Lab(CommandTest):
    COMMAND = "lab"

    def test_waste_writes_its_results_and_does_not_measure_them_again(self):
        trace = self.top / "trace.csv"
        trace.write_text("TIME,PROMPT,ANSWER\n" + "".join(f"{i},{100 + 7 * i},{20 + i}\n" for i in range(9)))
        arguments = ("waste", "--file", trace, "-o", self.top / "out")
        first = self.json_of("--quiet", *arguments)
        self.assertEqual(first["experiment"], "waste")
        self.assertLess(first["summary"]["paged:block=8"], first["summary"]["upfront"])
        self.assertEqual({path.name for path in (self.top / "out").iterdir()}, {"waste.json", "waste.svg", "waste.html"})
        self.assertEqual(json.loads((self.top / "out" / "waste.json").read_text()), first)
        again = self.kvick("--quiet", *arguments)
        self.assertIn("wasted %", again.stdout)
        self.assertEqual(json.loads((self.top / "out" / "waste.json").read_text())["cells"], first["cells"])

    def test_allocators_takes_a_context_and_a_batch(self):
        arguments = ("allocators", "--ctx", 64, "-b", 2, "--rounds", 1, "-o", self.top / "whole")
        report = self.json_of("--quiet", *arguments)
        self.assertEqual((report["summary"]["tokens"], report["summary"]["batch"]), (64, 2))
        self.assertEqual(len(report["summary"]["ways"]), 9)
        self.assertIn("--ctx 64 --batch 2 --rounds 1", report["command"])
        self.assertEqual({one["what"]["batch"] for one in report["cells"]}, {2})

    def test_mistakes_are_one_line(self):
        out = ("-o", self.top / "out")
        self.refused("nothing", *out, says="no experiment nothing; there are allocators, bmc-sweep")
        self.refused("allocators", *out, says="a context of 2048 tokens was asked for, but the model has 256")
        self.refused("allocators", "--ctx", 8, *out, says="--ctx")
        self.refused("waste", *out, says="a trace of requests is needed")
        self.refused("waste", "--file", "/nowhere.csv", *out, says="cannot read /nowhere.csv")
        self.refused("bmc-sweep", "--shape", "xl", *out, says="no shape xl; there are s")
        self.refused("waste", says="--out is required")


class Bmm(CommandTest):
    COMMAND = "bench"

    def test_bench_says_how_attention_was_computed(self):
        cases = ("-p", 40, "-n", 20, "-d", 0, "-r", 1, "--kv-type", "f32")
        fused = self.json_of("--quiet", *cases)
        bmm = self.json_of("--quiet", *cases, "--attn", "bmm", "--kv", "bmc:r=auto")
        self.assertEqual(fused["attention"], {"kind": "fused"})
        self.assertEqual(bmm["attention"]["kind"], "bmm")
        self.assertGreater(bmm["attention"]["compiled_shapes"], 0)

    def test_what_bmm_cannot_read_is_refused(self):
        cases = ("-p", 40, "-n", 20, "--attn", "bmm")
        self.refused(*cases, says="multiplies rows of float32 only: add --kv-type f32")
        self.refused(*cases, "--kv-type", "f32", "--kv", "paged", says="needs rows in one piece, which paged")
        self.refused("--attn", "fast", says="--attn")


if __name__ == "__main__":
    unittest.main()
