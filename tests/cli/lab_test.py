"""`kvick lab` on a small trace, and `kvick bench --attn bmm`."""

import json
import os
import shlex
import unittest

from made_model import SMALL, CommandTest, make_model


class Lab(CommandTest):
    COMMAND = "lab"

    def test_waste_writes_its_results_and_reuses_them(self):
        trace = self.top / "trace.csv"
        trace.write_text("TIME,PROMPT,ANSWER\n" + "".join(f"{i},{100 + 7 * i},{20 + i}\n" for i in range(9)))
        arguments = ("waste", "--file", trace, "-o", self.top / "out")
        first = self.json_of("--quiet", *arguments)
        self.assertEqual(first["experiment"], "waste")
        self.assertLess(first["summary"]["paged:block=8"], first["summary"]["upfront"])
        self.assertEqual({path.name for path in (self.top / "out").iterdir()}, {"waste.json"})
        self.assertEqual(json.loads((self.top / "out" / "waste.json").read_text()), first)
        again = self.kvick("--quiet", *arguments)
        self.assertIn("wasted %", again.stdout)
        self.assertEqual(json.loads((self.top / "out" / "waste.json").read_text())["cells"], first["cells"])
        odd = trace.rename(self.top / os.fsdecode(b"trace\xff.csv"))
        named = self.json_of("--quiet", "waste", "--file", odd, "-o", self.top / "odd")
        self.assertIn("trace\ufffd.csv", named["command"])
        self.assertEqual(json.loads((self.top / "odd" / "waste.json").read_text(encoding="utf-8")), named)

    def test_the_recorded_command_can_be_run(self):
        trace = self.top / "one day's trace.csv"
        trace.write_text("TIME,PROMPT,ANSWER\n" + "".join(f"{i},{100 + 7 * i},{20 + i}\n" for i in range(9)))
        report = self.json_of("--quiet", "waste", "--file", trace, "-o", self.top / "the results")
        words = shlex.split(report["command"])
        self.assertEqual(words[words.index("--file") + 1], str(trace))
        self.assertEqual(words[words.index("-o") + 1], str(self.top / "the results"))

    def test_quick_gives_small_sizes_where_no_option_does(self):
        report = self.json_of("--quiet", "allocators", "--quick", "--ctx", 64, "-o", self.top / "quick")
        self.assertIn("--ctx 64 --batch 4 --rounds 1", report["command"])
        self.assertEqual({(one["what"]["batch"], len(one["runs"])) for one in report["cells"]}, {(4, 1)})
        trace = self.top / "trace.csv"
        trace.write_text("TIME,PROMPT,ANSWER\n" + "".join(f"{i},{100 + 7 * i},{20 + i}\n" for i in range(9)))
        some = self.json_of("--quiet", "waste", "--file", trace, "--prompts", 3, "-o", self.top / "some")
        self.assertEqual({one["what"]["requests"] for one in some["cells"]}, {3})
        jobs = self.json_of("--quiet", "preemption", "--quick", "--answer", 8, "-o", self.top / "jobs")
        self.assertIn("--prompts 8 --prompt 32 --answer 8", jobs["command"])
        self.assertEqual({(one["what"]["jobs"], one["what"]["prompt"], one["what"]["answer"]) for one in jobs["cells"]}, {(8, 32, 8)})

    def test_allocators_accepts_a_context_and_a_batch(self):
        arguments = ("allocators", "--ctx", 64, "-b", 2, "--rounds", 1, "-o", self.top / "whole")
        report = self.json_of("--quiet", *arguments)
        self.assertEqual((report["summary"]["tokens"], report["summary"]["batch"]), (64, 2))
        self.assertEqual(len(report["summary"]["ways"]), 9)
        self.assertIn("--ctx 64 --batch 2 --rounds 1", report["command"])
        self.assertEqual({one["what"]["batch"] for one in report["cells"]}, {2})

    def text(self, words=300):
        path = self.top / "text.txt"
        path.write_text(". ".join(f"w{i * i % 97} and so on" for i in range(words)))
        return path

    def test_budget_measures_policies_and_budgets_and_reuses_results(self):
        arguments = ("budget", "--file", self.text(), "--ctx", 64, "--tokens", 128, "--prompt", 16,
                     "--kv-select", "h2o", "--kv-select", "quest:least=8,page=4", "--budget", 0.5, "-o", self.top / "budget")
        first = self.json_of("--quiet", *arguments)
        self.assertEqual([case["policy"] for case in first["summary"]["cases"]], ["h2o", "quest least=8 page=4"])
        self.assertTrue(first["summary"]["bytes_equal"])
        self.assertIn("--kv-select h2o --kv-select quest:least=8,page=4 --budget 0.5", first["command"])
        self.assertIn("--prompt 16 --tokens 128", first["command"])
        more = self.json_of("--quiet", *arguments, "--budget", 0.25)
        self.assertEqual(len(more["cells"]), 4)
        self.assertEqual(more["cells"][0], first["cells"][0])
        self.assertIn("budget-kl", [chart["name"] for chart in more["charts"]])

    def test_needle_tier_and_table1_have_charts(self):
        text, out = self.text(), self.top / "out"
        one = ("--kv-select", "streaming", "-o", out)
        needle = self.json_of("--quiet", "needle", "--file", text, "--ctx", 256, "--prompts", 1, *one)
        self.assertEqual([row["policy"] for row in needle["summary"]["policies"]], ["full", "streaming 25 %"])
        tier = self.json_of("--quiet", "tier", "--ctx", 128, "--bandwidth", "1GB/s", "--kv-select", "quest:least=16", "-o", out)
        self.assertEqual({case["bandwidth"] for case in tier["summary"]["cases"]}, {"1GB/s", "in memory"})
        table = self.json_of("--quiet", "table1", "--shape", "l13", "-o", out)
        self.assertEqual(table["summary"][0]["footprint_bytes"], 800 * 2**30)
        charts = [chart["name"] for report in (needle, tier, table) for chart in report["charts"]]
        self.assertEqual({"needle", "tier-1", "table1-l13"} - set(charts), set())

    def test_bounded_compares_memory_slots_with_rows(self):
        rows, memory = str(self.top / "rows.gguf"), str(self.top / "memory.gguf")
        for path, arch in ((rows, ()), (memory, ("--arch", "bct", "--slots", 48, "--head-dim", 32))):
            make_model(path, *SMALL[:-1], "512", *map(str, arch))
        summary = self.top / "summary.json"
        summary.write_text('{"arch": "bct", "task": "mqar", "update": "step", "slots": 16, "pairs": 8, "accuracy": 0.5}\n')
        arguments = ("bounded", "--bounded", memory, "--recall", summary, "--trained", 128, "--rounds", 1)
        report = self.json_of("--quiet", *arguments, "--file", self.text(), "-o", self.top / "out", model=rows)
        self.assertEqual({case["context"] for case in report["summary"]["perplexity"]}, {32, 64, 128, 256, 512})
        self.assertEqual([case["model"] for case in report["summary"]["decode"]], ["rows", "memory"])
        self.assertEqual(report["summary"]["decode"][1]["bytes_per_1024_tokens"], 0)
        self.assertIn(f"--bounded {memory} --recall {summary} --trained 128", report["command"])
        charts = {chart["name"] for chart in report["charts"]}
        self.assertEqual(charts, {f"bounded-{name}" for name in ("perplexity", "time", "bytes", "recall-mqar")})
        out = ("-o", self.top / "no")
        self.refused("bounded", *out, says="bounded needs models with a memory of slots, --bounded FILE")
        self.refused("bounded", "--bounded", rows, *out, model=rows, says="rows keeps rows of keys and values")
        self.refused("bounded", "--bounded", memory, *out, model=memory, says="give it with --bounded")
        self.refused("bounded", "--recall", self.text(), *out, says=r"text.txt:1: is no summary of kvick train")

    def test_spec_measures_each_row_type(self):
        prompts = self.top / "prompts.jsonl"
        prompts.write_text('{"prompt": "a b a b a b a b"}\n{"prompt": "x y z"}\n')
        arguments = ("spec", "--file", prompts, "--kv-type", "f32", "--kv-type", "bf16", "--spec", "lookup:gain=off", "--answer", 8,
                     "-b", 2, "--rounds", 2, "-o", self.top / "types")
        report = self.json_of("--quiet", *arguments)
        self.assertIn("--kv-type f32 --kv-type bf16 --spec lookup:gain=off", report["command"])
        self.assertEqual([case["type"] for case in report["summary"]["cases"]], ["f32", "f32", "bf16", "bf16"])
        self.assertEqual(report["summary"]["different_answers"], 0)
        self.assertEqual([len(case["speedups"]) for case in report["summary"]["cases"]], [1, 2, 1, 2])
        self.refused(*arguments[:3], "--kv-type", "q9", "-o", self.top / "none", says="q9")

    def test_wrong_policies_are_refused(self):
        out, text = ("-o", self.top / "out"), ("--file", self.text())
        self.refused("budget", *out, says="budget needs a text: --file TEXT")
        self.refused("budget", *out, *text, "--ctx", 64, "--kv-select", "nothing", says="unknown policy")
        self.refused("budget", *out, *text, "--ctx", 64, "--budget", "1.5", says="budget='1.5'")
        self.refused("budget", *out, *text, "--ctx", 64, "--predictor", "/nowhere.kvp", says="/nowhere.kvp")
        self.refused("needle", *out, *text, "--kv-select", "maple", says="maple needs a file: --predictor FILE.kvp")
        self.refused("tier", *out, "--bandwidth", "fast", says="bandwidth='fast'")
        self.refused("table1", *out, "--budget", "much", says="budget='much'")

    def test_wrong_options_are_refused(self):
        out = ("-o", self.top / "out")
        self.refused("nothing", *out, says="no experiment nothing; there are allocators, bmc-sweep")
        self.refused("allocators", *out, says="a context of 2048 tokens was asked for, but the model has 256")
        self.refused("allocators", "--ctx", 8, *out, says="--ctx")
        self.refused("waste", *out, says="a trace of requests is needed")
        self.refused("waste", "--file", "/nowhere.csv", *out, says="cannot read /nowhere.csv")
        for experiment in ("quant", "budget"):
            self.refused(experiment, "--file", self.top, *out, says="cannot read .*: it is a folder")
        self.refused("bmc-sweep", "--shape", "xl", *out, says="no shape xl; there are s")
        self.refused("bmc-sweep", "--ctx", 256, *out, says="bmc-sweep measures contexts of 512 tokens and more")
        self.refused("waste", says="--out is required")
        self.refused("waste", "--kv", "paged", *out,
                     says="waste does not read --kv: leave it out; of the options .* it reads --file --prompts")
        self.refused("tier", "--kv-tier", "ram", *out, says="tier does not read --kv-tier")


class Bmm(CommandTest):
    COMMAND = "bench"

    def test_bench_reports_how_attention_was_computed(self):
        cases = ("-p", 40, "-n", 20, "-d", 0, "-r", 1, "--kv-type", "f32")
        fused = self.json_of("--quiet", *cases)
        bmm = self.json_of("--quiet", *cases, "--attn", "bmm", "--kv", "bmc:r=auto")
        self.assertEqual(fused["attention"], {"kind": "fused"})
        self.assertEqual(bmm["attention"]["kind"], "bmm")
        self.assertGreater(bmm["attention"]["compiled_shapes"], 0)

    def test_rows_that_bmm_cannot_read_are_refused(self):
        cases = ("-p", 40, "-n", 20, "--attn", "bmm")
        self.refused(*cases, says="multiplies rows of float32 only: add --kv-type f32")
        self.refused(*cases, "--kv-type", "f32", "--kv", "paged", says="needs rows in one piece, which paged")
        self.refused("--attn", "fast", says="--attn")


if __name__ == "__main__":
    unittest.main()
