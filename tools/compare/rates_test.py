#!/usr/bin/env python3
"""Tests rates.py with a fake server that streams one token every few milliseconds."""

import json
import pathlib
import statistics
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import rates  # noqa: E402
from fake_server import ToolTest  # noqa: E402


class Lengths(unittest.TestCase):
    def test_means_are_those_of_the_paper_before_the_cut(self):
        for work, (prompt, answer) in (("sharegpt", (161, 338)), ("alpaca", (19, 58))):
            requests = rates.arrivals(work, 200, 100, 1 << 20, 1)
            self.assertAlmostEqual(statistics.fmean(r[1] for r in requests) / prompt, 1, delta=0.05)
            self.assertAlmostEqual(statistics.fmean(r[2] for r in requests) / answer, 1, delta=0.05)

    def test_a_request_fits_into_the_context(self):
        for work in rates.MEANS:
            requests = rates.arrivals(work, 100, 20, 512, 2)
            self.assertTrue(all(prompt >= 1 and answer >= 1 and prompt + answer <= 512 for _, prompt, answer in requests))
            self.assertTrue(any(prompt + answer == 512 for _, prompt, answer in requests) or work == "alpaca")

    def test_a_chat_s_history_is_cut_to_its_last_tokens(self):
        prompts = [prompt for _, prompt, _ in rates.arrivals("chat", 100, 20, 1 << 20, 3)]
        self.assertEqual(max(prompts), rates.CHAT_HISTORY)
        self.assertGreater(statistics.fmean(prompts), 700)

    def test_the_rate_is_the_one_asked_for(self):
        requests = rates.arrivals("sharegpt", 20, 200, 2048, 4)
        self.assertAlmostEqual(len(requests) / 200, 20, delta=1.5)
        self.assertTrue(all(0 <= at < 200 for at, *_ in requests))

    def test_a_trace_keeps_its_bursts_and_has_the_rate(self):
        rows = [(10 * (i // 4), 100 + i, 20) for i in range(400)]  # four requests at a time
        requests = rates.arrivals("trace", 2, 10, 2048, 5, rows)
        self.assertEqual(len(requests), 20)
        times = [at for at, *_ in requests]
        self.assertEqual(times, sorted(times))
        self.assertAlmostEqual(times[-1], 10)
        self.assertLessEqual(len(set(times)), 6)


class Figures(unittest.TestCase):
    def test_latency_counts_from_when_a_request_was_due(self):
        done, refused, waiting, failed = (rates.Answer(10) for _ in range(4))
        done.first, done.last = 0.5, 2.0
        refused.refused = True
        failed.error = "status 500"
        got = rates.figures([(0, 5, 10), (1, 5, 10), (2, 5, 10), (3, 5, 10)], [done, refused, waiting, failed], 12.0)
        self.assertAlmostEqual(got["s_per_token"], (0.2 + 1.0) / 2)
        self.assertEqual((got["answered"], got["refused"], got["unanswered"], got["errors"]), (1, 1, 1, 1))
        self.assertAlmostEqual(got["output_tok_s"], 10 / 12)


class WholeRun(ToolTest):
    TOOL = "rates.py"

    def test_servers_get_the_same_requests_and_a_saturated_one_no_higher_rate(self):
        done = self.run_it("--kvick", "quick=quick.gguf", "--kvick", "slow=slow.gguf --kv paged", "--work", "alpaca", "--rates", "10,5",
                           "--seconds", "1", "--patience", "2", "--context", "32")
        self.assertEqual(done.returncode, 0, done.stderr)
        runs = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
        self.assertEqual([(run["server"], run["rate"]) for run in runs], [("kvick quick", 5), ("kvick slow", 5), ("kvick quick", 10)])
        self.assertEqual(runs[0]["requests"], runs[1]["requests"])
        self.assertEqual(runs[0]["answered"], runs[0]["requests"])
        self.assertGreater(runs[0]["s_per_token"], 0.002)
        self.assertGreater(runs[1]["unanswered"], 0)
        self.assertIn("| kvick slow | 5 |", done.stdout)

    def test_refusals_and_errors_are_counted(self):
        done = self.run_it("--kvick", "full=full.gguf", "--kvick", "broken=broken.gguf", "--work", "alpaca", "--rates", "5", "--seconds", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        full, broken = (json.loads(line) for line in done.stderr.splitlines() if line.startswith("{"))
        self.assertEqual(full["refused"], full["requests"])
        self.assertIsNone(full["s_per_token"])
        self.assertEqual(broken["errors"], broken["requests"])
        self.assertIn("status 500", broken["error"])

    def test_bad_options_are_refused(self):
        for options, word in ((("--kvick", "no-file"), "LABEL=FILE"), (("--kvick", "a=b", "--rates", "0"), "positive"),
                              (("--kvick", "a=b", "--work", "none.csv"), "none.csv"), ((), "at least one server"),
                              (("--vllm", "folder"), "together")):
            done = self.run_it(*options)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()
