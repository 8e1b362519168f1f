#!/usr/bin/env python3
"""`kvick bench`: sweeps, the roofline, and the calibration file.

The tests check that speeds are reported, but not how high they are.
"""

import json
import unittest

from made_model import SMALL, CommandTest, make_model

QUICK = ("-r", "1")


class BenchTest(CommandTest):
    COMMAND = "bench"

    def calibration_files(self):
        return sorted((self.cache / "kvick").glob("calibration*"))

    def calibrated(self):
        """Puts a calibration of this machine in the cache. It is measured once for all tests."""
        if not hasattr(BenchTest, "calibration"):
            self.json_of("-p", 4, "-n", 0, *QUICK)
            [file] = self.calibration_files()
            # Marked as measured on an idle machine, because otherwise a run at a quieter moment would measure again.
            made = json.loads(file.read_text()) | {"others_share": 0.0}
            BenchTest.calibration = (file.name, json.dumps(made))
        name, text = BenchTest.calibration
        (self.cache / "kvick").mkdir(parents=True, exist_ok=True)
        path = self.cache / "kvick" / name
        path.write_text(text)
        return path


class Sweeps(BenchTest):
    def setUp(self):
        super().setUp()
        self.calibrated()

    def test_one_measurement_of_each_phase(self):
        result = self.json_of("-p", 16, "-n", 4, "-d", 8, "-b", 2, "-r", 2)
        self.assertEqual([result[key] for key in ("prompt", "decode", "depth", "parallel", "repeats")], [16, 4, 8, 2, 2])
        self.assertEqual(len(result["results"]), 2)
        prefill, decode = result["results"]
        self.assertEqual((prefill["phase"], prefill["tokens"], prefill["depth"], prefill["parallel"]), ("prefill", 16, 8, 1))
        self.assertEqual((decode["phase"], decode["tokens"], decode["depth"], decode["parallel"]), ("decode", 4, 8, 2))
        self.assertGreater(result["prefill_tok_s"], 0)
        self.assertEqual(result["prefill_tok_s"], prefill["tok_s"])
        self.assertEqual(result["decode_tok_s"], decode["tok_s"])
        self.assertEqual(result["spread"], {"prefill": prefill["spread"], "decode": decode["spread"]})
        self.assertEqual(result["kv"], {"strategy": "virtual", **decode["kv"]})
        # 2 layers x keys and values x 2 heads x 16 values x 2 bytes (f16) = 256 bytes per token.
        self.assertEqual(decode["kv"]["used_bytes"], 2 * 12 * 256)
        self.assertEqual(prefill["kv"]["used_bytes"], 24 * 256)
        self.assertEqual((prefill["kv"]["fallbacks"], decode["kv"]["fallbacks"]), (0, 0))
        self.assertGreater(result["peak_rss_bytes"], result["weight_bytes"])

    def test_a_model_with_memory_slots_takes_the_same_bytes_at_any_depth(self):
        bct = str(self.top / "bct.gguf")
        make_model(bct, *SMALL, "--arch", "bct", "--slots", "48", "--head-dim", "32")
        result = self.json_of("-p", 16, "-n", 4, "-d", "0,100", "-b", 2, *QUICK, model=bct)
        self.assertEqual((result["kv"]["strategy"], result["kv_type"]), ("bounded", "f32"))
        memory = 2 * 2 * 48 * 32 * 4  # layers, KV heads, slots, head_dim, bytes of a float
        self.assertEqual([r["kv"]["used_bytes"] for r in result["results"]], [memory, memory, 2 * memory, 2 * memory])
        self.assertTrue(all(0 < r["roofline"]["fraction"] for r in result["results"]))

    def test_lists_give_every_combination(self):
        result = self.json_of("-p", "4,8", "-n", "2,3", "-d", "0,16", "-b", "1,3", *QUICK)
        cases = [(r["phase"], r["tokens"], r["depth"], r["parallel"]) for r in result["results"]]
        self.assertEqual(cases, [("prefill", p, d, 1) for p in (4, 8) for d in (0, 16)] +
                         [("decode", n, d, b) for n in (2, 3) for b in (1, 3) for d in (0, 16)])
        self.assertEqual([result[key] for key in ("prompt", "decode", "depth", "parallel")], [4, 2, 0, 1])
        self.assertEqual(result["decode_tok_s"], result["results"][4]["tok_s"])

    def test_zero_switches_a_phase_off(self):
        result = self.json_of("-p", 0, "-n", 2, *QUICK)
        self.assertEqual([r["phase"] for r in result["results"]], ["decode"])
        self.assertEqual((result["prefill_tok_s"], result["spread"]["prefill"]), (0, 0))
        result = self.json_of("-p", 2, "-n", 0, *QUICK)
        self.assertEqual([r["phase"] for r in result["results"]], ["prefill"])
        self.assertEqual(result["decode_tok_s"], 0)
        self.assertEqual(result["kv"]["used_bytes"], 2 * 256)

    def test_the_table_has_a_row_for_each_measurement(self):
        done = self.kvick("-p", "4,8", "-n", 2, "-d", "0,16", *QUICK)
        rows = [line.split() for line in done.stdout.splitlines() if line.startswith(("prefill", "decode"))]
        self.assertEqual([row[:4] for row in rows],
                         [["prefill", "4", "0", "1"], ["prefill", "4", "16", "1"], ["prefill", "8", "0", "1"],
                          ["prefill", "8", "16", "1"], ["decode", "2", "0", "1"], ["decode", "2", "16", "1"]])
        for row in rows:
            self.assertIn(row[8], ("GB/s", "GOP/s"), row)
            self.assertEqual(row[-1], "%", row)
        self.assertIn("peak memory", done.stdout)

    def test_rank_activations_needs_ranks(self):
        self.refused("-p", 4, "-n", 0, "--rank-activations", "bf16", says="--rank-activations is the type of what --ranks send each other")

    def test_wrong_lists_are_refused(self):
        for arguments, says in ((("-p", "4,x"), "-p '4,x': 'x' is no number"), (("-n", "4,,8"), "-n '4,,8'"),
                                (("-d", "0,-1"), "-d"), (("-b", "0"), "-b '0': 0 is not from 1 to 4096"),
                                (("-b", "1,5000"), "5000"), (("-p", "0,4"), "0 means none"), (("-d", "4,4"), "twice"),
                                (("-n", ",".join(map(str, range(1, 70)))), "more than 64"),
                                (("-p", "99999999999"), "99999999999"), (("-p", "0", "-n", "0"), "nothing to measure"),
                                (("-p", "4,300"), "prefill of 300 tokens at depth 0 does not fit a context of 256"),
                                (("-p", "0", "-n", "100", "-d", "0,200"), "decode of 100 tokens at depth 200 does not fit"), (("-r", "0"), "0"),
                                (("-n", ",".join(map(str, range(1, 60))), "-d", ",".join(map(str, range(1, 60)))),
                                 "at most 1000")):
            with self.subTest(arguments=arguments):
                self.refused(*arguments, says=says)


class Roofline(BenchTest):
    def test_each_measurement_has_its_roofline(self):
        path = self.calibrated()
        result = self.json_of("-p", 16, "-n", 4, "-b", "1,2", *QUICK)
        limits = json.loads(path.read_text())  # read after the run, because a fast run may raise the limits
        self.assertEqual(result["calibration"], limits)
        read = limits["read"][0]["bytes_s"]  # the model is smaller than the smallest measured size
        for one in result["results"]:
            roof = one["roofline"]
            tokens = one["tokens"] * one["parallel"]
            self.assertAlmostEqual(roof["measured_s"] * one["tok_s"] / tokens, 1)
            self.assertAlmostEqual(roof["bytes_s"] * roof["measured_s"] / roof["bytes"], 1)
            self.assertAlmostEqual(roof["ops_s"] * roof["measured_s"] / roof["ops"], 1)
            self.assertAlmostEqual(roof["memory_s"] * read / roof["bytes"], 1)
            bound = max(roof["memory_s"], roof["compute_s"])
            self.assertAlmostEqual(roof["fraction"] * roof["measured_s"] / bound, 1)
            self.assertEqual(roof["bound_by"], "memory" if bound == roof["memory_s"] else "compute")
        # Each of 4 decode steps reads the weights, one embedding row (64 values of Q8_0, 68 bytes) and 1 to 4 cached tokens of 256 bytes.
        self.assertEqual(result["results"][1]["roofline"]["bytes"],
                         4 * (result["weight_bytes"] + 68) + (1 + 2 + 3 + 4) * 256)


class Calibration(BenchTest):
    ARGUMENTS = ("-p", 4, "-n", 0, *QUICK)

    def of(self, *arguments):
        return self.json_of(*self.ARGUMENTS, *arguments)["calibration"]

    def test_it_is_measured_once_and_stored(self):
        self.calibrated()
        [path] = self.calibration_files()
        kept = json.loads(path.read_text())
        # Limits that no run exceeds, measured on a machine that was completely idle.
        kept.update(int8_ops_s=1e30, f32_ops_s=1e30, bf16_ops_s=1e30, others_share=0.0)
        kept["read"] = [{"bytes": speed["bytes"], "bytes_s": 1e30} for speed in kept["read"]]
        path.write_text(json.dumps(kept))
        self.assertEqual(self.of(), kept)
        self.assertNotEqual(self.of("--calibrate")["f32_ops_s"], 1e30)
        self.assertNotEqual(json.loads(path.read_text())["f32_ops_s"], 1e30)
        self.assertEqual(self.calibration_files(), [path], "the folder has unexpected files")

    def slow(self, path, **fields):
        """Rewrites the calibration as if it had been measured on a machine that is a million times slower."""
        limits = json.loads(path.read_text())
        for key in ("int8_ops_s", "f32_ops_s", "tile_ops_s"):
            limits[key] /= 1e6
        for speed in limits["read"]:
            speed["bytes_s"] /= 1e6
        limits.update(fields)
        path.write_text(json.dumps(limits))
        return limits

    def test_a_faster_run_raises_its_limits(self):
        path = self.calibrated()
        slow = self.slow(path, others_share=0.0)
        result = self.json_of("-p", "4,16", "-n", 4, "-b", "1,2", "-r", 2)
        for one in result["results"]:
            self.assertLessEqual(one["roofline"]["fraction"], 1, one)
        raised = result["calibration"]
        self.assertEqual(json.loads(path.read_text()), raised)
        self.assertGreater(raised["int8_ops_s"], slow["int8_ops_s"])
        self.assertGreater(raised["read"][0]["bytes_s"], slow["read"][0]["bytes_s"])
        self.assertEqual(raised["measured_at"], slow["measured_at"])
        self.assertIsNone(slow["raised_at"])
        self.assertRegex(raised["raised_at"], r"^20\d\d-\d\d-\d\dT")
        self.assertRegex(self.kvick(*self.ARGUMENTS).stdout, r"measured 20\d\d-.*, raised 20\d\d-.* by a faster run")

    def test_it_is_measured_again_if_other_programs_ran_the_first_time(self):
        path = self.calibrated()
        slow = self.slow(path, others_share=1.0, measured_at="2020-01-02T03:04:05Z")
        done = self.kvick(*self.ARGUMENTS)
        # If other programs use more than half of the cores for the whole run, kvick does not measure again and this test checks
        # nothing; that is unlikely.
        limits = json.loads(path.read_text())
        if limits["measured_at"] != slow["measured_at"]:
            self.assertIn("while other programs used 100 % of the cores", done.stderr)
            self.assertGreater(limits["f32_ops_s"], 10 * slow["f32_ops_s"])
        self.assertRegex(done.stdout, r"\n  measured 20\d\d-\d\d-\d\d \d\d:\d\d")

    def test_it_prints_plausible_values(self):
        limits = self.of()
        self.assertRegex(limits["measured_at"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertLessEqual(limits["others_share"], 1)
        self.assertLessEqual(limits["spread"], 1)
        self.assertGreaterEqual(limits["cores"], 1)
        self.assertEqual(limits["threads"], 2)
        self.assertIn("family", limits["cpu"])
        self.assertEqual(limits["read"], sorted(limits["read"], key=lambda speed: speed["bytes"]))
        for speed in [limits["int8_ops_s"], limits["f32_ops_s"], *(speed["bytes_s"] for speed in limits["read"])]:
            self.assertGreater(speed, 0)
        self.assertEqual(limits["tile_ops_s"] > 0, limits["isa"] == "amx")

    def test_a_damaged_file_is_replaced(self):
        path = self.calibrated()
        path.write_text(path.read_text()[:-20])
        self.of()
        json.loads(path.read_text())

    def test_a_file_that_cannot_be_written_is_a_warning(self):
        (self.cache).mkdir()
        (self.cache / "kvick").write_text("in the way")
        done = self.kvick(*self.ARGUMENTS)
        self.assertRegex(done.stderr, "kvick: warning: .*kvick")
        self.assertEqual(self.kvick("--quiet", *self.ARGUMENTS).stderr, "")


if __name__ == "__main__":
    unittest.main(verbosity=1)
