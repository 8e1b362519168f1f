#!/usr/bin/env python3
"""Tests servers.py with a fake kvick program of a few lines."""

import json
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import servers  # noqa: E402
from fake_server import ToolTest  # noqa: E402


class WholeRun(ToolTest):
    TOOL = "servers.py"

    def test_every_server_has_every_load_once_a_round(self):
        done = self.run_it("--kvick", "one=a.gguf", "--kvick", "two=b.gguf", "--rounds", "2", "--requests", "3", "--streams",
                           "2", "--prompt", "5", "--answer", "4")
        self.assertEqual(done.returncode, 0, done.stderr)
        runs = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
        self.assertEqual([(run["round"], run["temperature"], run["server"]) for run in runs],
                         [(0, 1, "kvick one"), (0, 1, "kvick two"), (0, 0, "kvick one"), (0, 0, "kvick two"),
                          (1, 1, "kvick two"), (1, 1, "kvick one"), (1, 0, "kvick two"), (1, 0, "kvick one")])
        self.assertIn("| kvick one | 1 |", done.stdout)
        # 3 x (5 / 2000 + 4 / 1000) s for 12 tokens.
        self.assertIn("allows 615 output tokens/s", done.stdout)
        asked = [json.loads(line) for line in (self.folder / "asked").read_text().splitlines()]
        self.assertEqual(len(asked), 2 * 2 * 2 * (3 + 1), "the requests and one warm-up request for each load")
        self.assertEqual(len({json.dumps(prompt) for _, prompt in asked}), 2 * 2 * 3, "a load repeats another's prompts")

    def test_llama_server_is_loaded_too(self):
        done = self.run_it("--kvick", "one=a.gguf", "--llama-server", "two=b.gguf", "--llama-program", self.program, "--rounds",
                           "1", "--temperature", "0", "--requests", "3", "--streams", "2", "--prompt", "5", "--answer", "4")
        self.assertEqual(done.returncode, 0, done.stderr)
        runs = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
        self.assertEqual([run["server"] for run in runs], ["kvick one", "llama-server two"])
        self.assertRegex(done.stdout, r"\| kvick one \| 0 \|.*%")
        self.assertRegex(done.stdout, r"\| llama-server two \| 0 \|.*– \|")

    def test_a_server_that_does_not_start_is_named(self):
        self.program.write_text("#!/bin/sh\nexit 3\n")
        done = self.run_it("--kvick", "one=a.gguf", "--no-allowed")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "kvick one exited before it listened; see .*log")

    def test_what_is_missing_is_said(self):
        self.assertIn("give at least one server", self.run_it().stderr)
        self.assertIn("--client vllm needs", self.run_it("--kvick", "a=b", "--client", "vllm").stderr)


class Tables(unittest.TestCase):
    def test_a_cell_is_the_median_and_the_range(self):
        self.assertEqual(servers.spread([3.0, 1.0, 2.0]), "2.00 (1.00 to 3.00)")
        self.assertEqual(servers.spread([512.4]), "512")

    def test_the_share_is_of_what_the_bench_allows(self):
        run = {"round": 0, "server": "kvick a", "temperature": 1.0, **dict.fromkeys(servers.FIGURES, 50.0)}
        table = servers.table({"runs": [run, {**run, "server": "vLLM"}], "allowed": {"kvick a": {"output_tok_s": 100.0}}})
        self.assertTrue(table.splitlines()[2].endswith("| 50% |"), table)
        self.assertTrue(table.splitlines()[3].endswith("| – |"), table)


if __name__ == "__main__":
    unittest.main()
