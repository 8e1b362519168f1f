#!/usr/bin/env python3
"""Tests compare.py with fake engines of a few lines of shell, and the tables that it makes."""

import json
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cases  # noqa: E402
import kept  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402

DECODE, BATCH, DEEP, DEEP_Q8 = (case for name in ("decode", "batch8", "deep16k", "deep16k-q8") for case in cases.named(name))
SETTING = peers.Setting(threads=2, timeout=20, scratch=pathlib.Path(tempfile.gettempdir()))


def measured(rates, peer="other", case="decode", configuration=""):
    return [{"file": "f", "case": case, "peer": peer, "round": i, "configuration": configuration, "tok_s": rate}
            for i, rate in enumerate(rates)]


class Cases(unittest.TestCase):
    def test_a_case_says_what_it_is(self):
        self.assertEqual(DECODE.title, "decode 128 at 0")
        self.assertEqual(BATCH.title, "decode 8 x 64 at 128")
        self.assertEqual(DEEP_Q8.title, "decode 64 at 16384, KV q8")
        self.assertEqual(cases.named("prefill8k")[0].title, "prefill 8192")

    def test_an_unknown_case_is_an_error_that_lists_the_known(self):
        with self.assertRaisesRegex(ValueError, "no case nothing; the cases are decode, prefill"):
            cases.named("decode,nothing")


class Commands(unittest.TestCase):
    def of(self, kind, case):
        return peers.configurations(peers.Peer("x", kind, "/p/x"), "/m/f.gguf", case, SETTING)

    def test_llama_cpp_runs_with_all_that_a_case_allows(self):
        self.assertEqual(sorted(self.of("llama-cpp", DECODE)), ["flash off", "flash on"])
        self.assertEqual(len(self.of("llama-cpp", BATCH)), 4)
        self.assertEqual(sorted(self.of("llama-cpp", DEEP_Q8)), ["flash on"])

    def test_only_deep_caches_are_kept_and_each_configuration_has_its_own(self):
        states = [command[command.index("--state") + 1] for command in self.of("llama-cpp", DEEP).values()]
        self.assertEqual(len(set(states)), 2)
        self.assertNotIn("--state", self.of("llama-cpp", DECODE)["flash on"])

    def test_ik_llama_has_a_program_for_each_kind_of_work(self):
        self.assertIn("/p/x/llama-bench", self.of("ik", DEEP)["repacked"])
        self.assertIn("16384,64", self.of("ik", DEEP)["repacked"])
        self.assertIn("/p/x/llama-batched-bench", self.of("ik", BATCH)["repacked"])
        self.assertIn("q8_0", self.of("ik", DEEP_Q8)["repacked"])

    def test_kvick_gets_huge_pages_where_the_cache_is_long(self):
        self.assertEqual(list(self.of("kvick", BATCH)), [""])
        self.assertEqual(list(self.of("kvick", DEEP)), ["", "huge pages"])

    def test_kvick_gets_no_more_context_than_it_needs(self):
        command = self.of("kvick", DEEP_Q8)[""]
        self.assertEqual(command[command.index("--ctx") + 1], str(16384 + 64))
        self.assertEqual(command[command.index("--kv-type") + 1], "q8")


class Figures(unittest.TestCase):
    def test_of_ik_llamas_benches(self):
        text = ("|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |\n"
                "|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|\n"
                "|   128 |     64 |    8 |   1536 |    1.000 |  1024.00 |    1.600 |   320.00 |    2.600 |   590.77 |\n"
                "|   128 |     64 |    8 |   1536 |    1.000 |  1024.00 |    1.500 |   341.33 |    2.500 |   614.40 |\n")
        figure = peers.KINDS["ik"][1]
        self.assertEqual(figure(types.SimpleNamespace(stdout="", stderr=text), BATCH), {"tok_s": 341.33})
        self.assertEqual(figure(types.SimpleNamespace(stdout='[{"samples_ts": [10.5, 11.5]}]', stderr=""), DECODE),
                         {"tok_s": 11.5})

    def test_of_kvicks_bench_with_its_share_of_the_roofline(self):
        figure = peers.KINDS["kvick"][1]
        text = ('{"decode_tok_s": 10.5, "results": [{"phase": "prefill", "roofline": {"fraction": 0.1}}, '
                '{"phase": "decode", "roofline": {"fraction": 0.81234}}]}')
        self.assertEqual(figure(types.SimpleNamespace(stdout=text), DECODE), {"tok_s": 10.5, "roofline": 0.812})
        text = '{"decode_tok_s": 10.5, "results": [{"phase": "decode", "roofline": null}]}'
        self.assertEqual(figure(types.SimpleNamespace(stdout=text), DECODE), {"tok_s": 10.5})

    def refusal(self, *command):
        with self.assertRaises(peers.Refused) as caught:
            peers.measure(peers.Peer("x", "kvick", "x"), command, DECODE, SETTING)
        return str(caught.exception)

    def test_a_refusal_is_the_last_line_without_places(self):
        self.assertEqual(self.refusal("sh", "-c", "echo no; echo kvick: /a/b/c.gguf: bad >&2; exit 2"), "kvick: c.gguf: bad")
        self.assertEqual(self.refusal("sh", "-c", "exit 3"), "exit status 3")
        self.assertIn("printed no figure", self.refusal("sh", "-c", "echo '{}'"))
        self.assertIn("No such file", self.refusal("/no/such/program"))

    def test_what_takes_too_long_is_refused(self):
        short = peers.Setting(threads=1, timeout=1, scratch=SETTING.scratch)
        with self.assertRaisesRegex(peers.Refused, "more than 1 s"):
            peers.measure(peers.Peer("x", "kvick", "x"), ["sleep", "9"], DECODE, short)


class Tables(unittest.TestCase):
    def row(self, measurements):
        return report.table(measurements, "f", [DECODE], ["kvick", "a", "b"]).splitlines()[2]

    def test_a_round_is_compared_with_the_best_configuration_of_that_round(self):
        cells = report.Cells(measured([10, 40], "kvick") + measured([5, 10], "a", configuration="x")
                             + measured([4, 20], "a", configuration="y"), "f", "decode")
        self.assertEqual(cells.rates("a"), {0: 5, 1: 20})
        self.assertEqual(cells.ratios("kvick", ["a"]), [2, 2])

    def test_the_last_column_is_against_the_fastest_of_each_round(self):
        row = self.row(measured([10, 20, 30], "kvick") + measured([5, 5, 5], "a") + measured([1, 10, 10], "b"))
        self.assertTrue(row.endswith("| **2.00 (2.00 to 3.00)** |"), row)

    def test_a_refusal_is_a_cell_and_a_note(self):
        refused = [{"file": "f", "case": "decode", "peer": "a", "round": 0, "configuration": "", "refused": "too long"}]
        text = report.table(measured([10], "kvick") + refused, "f", [DECODE], ["kvick", "a"])
        self.assertIn("| refused [1] | – |", text)
        self.assertIn("[1] a: too long", text)

    def test_kvicks_own_refusal_leaves_the_others_figures(self):
        refused = [{"file": "f", "case": "decode", "peer": "kvick", "round": 0, "configuration": "", "refused": "no q8"}]
        row = self.row(refused + measured([5.0], "a"))
        self.assertEqual(row, "| decode 128 at 0 | refused [1] | 5.0 | – | – |")


class ByFile(unittest.TestCase):
    def test_a_row_has_rate_share_and_ratios(self):
        ours = [m | {"roofline": share} for m, share in zip(measured([10, 20, 30], "kvick"), (0.5, 0.7, 0.8))]
        measurements = ours + measured([5, 5, 5], "a") + measured([40, 40, 40], "b")
        text = report.by_file(measurements, ["f", "g"], [DECODE, BATCH], ["kvick", "a", "b", "c"])
        self.assertEqual(text.splitlines()[0], "| tokens/s | decode 128 at 0 |")
        self.assertEqual(text.splitlines()[2:], ["| f | 20.0, 70%, **4.00 / 0.50 / –** |", "| g | – |"])

    def test_the_share_is_that_of_the_rounds_best_configuration(self):
        slow = [m | {"roofline": 0.9} for m in measured([1], "kvick", configuration="x")]
        fast = [m | {"roofline": 0.2} for m in measured([2], "kvick", configuration="y")]
        for both in slow + fast, fast + slow:
            self.assertEqual(report.Cells(both, "f", "decode").roofline("kvick"), 0.2)


class WholeRun(unittest.TestCase):
    def test_engines_alternate_and_slow_configurations_run_once(self):
        with tempfile.TemporaryDirectory() as folder:
            fakes = {"ours": "100", "theirs": '$(case "$*" in *--flash*) echo 50;; *) echo 10;; esac)'}
            for name, rate in fakes.items():
                path = pathlib.Path(folder, name)
                path.write_text(f"""#!/bin/sh\nprintf '{{"decode_tok_s": %s}}' {rate}\n""")
                path.chmod(0o755)
            pathlib.Path(folder, "m.gguf").touch()
            done = subprocess.run([sys.executable, HERE / "compare.py", f"{folder}/m.gguf", "--kvick", f"{folder}/ours", "--llama-cpp",
                                   f"{folder}/theirs", "--cases", "decode", "--rounds", "3"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| decode 128 at 0 | 100.0 (100.0 to 100.0) | 50.0 (50.0 to 50.0), flash on; **2.00", done.stdout)
        order = [(entry["peer"], entry["configuration"]) for entry in map(json.loads, done.stderr.splitlines())]
        ours = [("kvick", "")]  # huge pages only at depth
        self.assertEqual(order, [*ours, ("llama.cpp", "flash on"), ("llama.cpp", "flash off"),
                                 ("llama.cpp", "flash on"), *ours, *ours, ("llama.cpp", "flash on")])
        self.assertNotIn(folder, done.stdout)

    def test_a_name_without_its_machine_is_refused_before_anything_runs(self):
        for place in ("name", "some/long/place", "/name"):
            done = subprocess.run([sys.executable, HERE / "compare.py", "m.gguf", "-o", place], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{place}: give MACHINE/NAME", done.stderr)

    def test_a_file_that_does_not_exist_is_refused_before_anything_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "m.gguf").touch()
            done = subprocess.run([sys.executable, HERE / "compare.py", f"{folder}/m.gguf", f"{folder}/none.gguf", "--kvick",
                                   "/bin/false", "--rounds", "1"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn(f"{folder}/none.gguf: no such file", done.stderr)
        self.assertNotIn("refused", done.stderr)

    def test_what_is_kept_says_where_it_comes_from(self):
        with tempfile.TemporaryDirectory() as folder:
            path = kept.keep("xeon/name", {"command": "tools/compare/compare.py a=/home/me/m.gguf ../b 3/4", "rounds": 2}, pathlib.Path(folder))
            provenance = json.loads(path.read_text())["provenance"]
            self.assertEqual(path.relative_to(folder).as_posix(), f"xeon/{provenance['date']}/name.json")
        self.assertEqual(provenance["machine"], "xeon")
        self.assertEqual(provenance["command"], "tools/compare/compare.py a=m.gguf ../b 3/4")
        self.assertIn("2 rounds", provenance["spread"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
