#!/usr/bin/env python3
"""Tests compare.py with fake engines of a few lines of shell, and the tables that it makes."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cases  # noqa: E402
import compare  # noqa: E402
import kept  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402

DECODE, PREFILL, BATCH, DEEP, DEEP_Q8 = (case for name in ("decode", "prefill", "batch8", "deep16k", "deep16k-q8") for case in cases.named(name))
SETTING = peers.Setting(threads=2, timeout=20, scratch=pathlib.Path(tempfile.gettempdir()), folders={"f.gguf": "/m/f-hf"})


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

    def test_vllm_gets_the_folder_of_the_file(self):
        command = self.of("vllm", BATCH)["bf16 folder"]
        self.assertEqual(command[0], "/p/x")
        self.assertEqual(command[command.index("-m") + 1], "/m/f-hf")
        self.assertEqual(command[command.index("-b") + 1], "8")


# What vllm_bench.py uses of vLLM. Writes what it is given to calls.json. By its own clock generate() takes 0.25 s, and by its statistics
# the tokens of a sequence come 0.5 s apart, from 10 s on.
FAKE_VLLM = """
import json, os, time, types

__version__ = "0.0"
calls = []
clock = [0.0]
time.perf_counter = lambda: clock[0]


def record(**call):
    calls.append(call)
    open("calls.json", "w").write(json.dumps(calls))


class SamplingParams:
    def __init__(self, **settings):
        self.settings = settings


class LLM:
    def __init__(self, **settings):
        record(settings=settings, environment=dict(os.environ))
        if os.environ.get("FAKE") == "small":
            raise ValueError("1 validation error\\n  no room for the cache\\n    see https://example.org")
        self.llm_engine = types.SimpleNamespace(model_config=types.SimpleNamespace(get_vocab_size=lambda: 300))

    def generate(self, prompts, params, use_tqdm):
        record(prompts=[prompt["prompt_token_ids"] for prompt in prompts], **params.settings)
        clock[0] += 0.25
        late = os.environ.get("FAKE") == "late"
        spans = [(10 + late * i, 10 + late * i + 0.5 * (params.settings["max_tokens"] - 1)) for i in range(len(prompts))]
        return [types.SimpleNamespace(metrics=types.SimpleNamespace(first_token_ts=a, last_token_ts=b)) for a, b in spans]
"""


class VllmBench(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "vllm.py").write_text(FAKE_VLLM)
        self.config({"max_position_embeddings": 8192})

    def config(self, values):
        (self.folder / "config.json").write_text(json.dumps(values))

    def run_it(self, case, fake=""):
        command = [sys.executable, HERE / "vllm_bench.py", "-m", ".", *peers.shape(case), "--kv-type", case.kv, "--threads", "3"]
        return subprocess.run(command, cwd=self.folder, env=os.environ | {"PYTHONPATH": str(self.folder), "FAKE": fake},
                              capture_output=True, text=True)

    def calls(self):
        return json.loads((self.folder / "calls.json").read_text())

    def refusal(self, case, fake=""):
        done = self.run_it(case, fake)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        return done.stderr.splitlines()[-1]

    def test_decode_is_timed_from_the_first_token_to_the_last(self):
        done = self.run_it(BATCH)
        self.assertEqual(json.loads(done.stdout), {"version": "0.0", "decode_tok_s": 8 / 0.5}, done.stderr)
        timed = self.calls()[-1]
        self.assertEqual([len(prompt) for prompt in timed["prompts"]], [128] * 8)
        self.assertEqual(len({tuple(prompt) for prompt in timed["prompts"]}), 8)  # no two can share a prefix
        self.assertTrue(all(0 <= token < 300 for prompt in timed["prompts"] for token in prompt))
        self.assertEqual((timed["max_tokens"], timed["ignore_eos"], timed["temperature"]), (64 + 1, True, 0.0))

    def test_prefill_is_the_time_of_one_token_and_the_warm_up_does_not_count(self):
        done = self.run_it(PREFILL)
        self.assertEqual(json.loads(done.stdout), {"version": "0.0", "prefill_tok_s": 512 / 0.25}, done.stderr)
        _, warm_up, timed = self.calls()
        self.assertEqual((len(timed["prompts"][0]), timed["max_tokens"]), (512, 1))
        self.assertGreater(warm_up["max_tokens"], 1)  # so that the shapes of decode are prepared too

    def test_vllm_runs_in_one_process_with_the_threads_and_types_of_the_comparison(self):
        self.run_it(DECODE)
        settings, environment = self.calls()[0]["settings"], self.calls()[0]["environment"]
        self.assertEqual((settings["dtype"], settings["enable_prefix_caching"], settings["max_num_seqs"]), ("bfloat16", False, 1))
        self.assertEqual((environment["OMP_NUM_THREADS"], environment["VLLM_ENABLE_V1_MULTIPROCESSING"]), ("3", "0"))
        self.assertEqual((environment["VLLM_CPU_OMP_THREADS_BIND"], environment["VLLM_CPU_KVCACHE_SPACE"]), ("nobind", "4"))

    def test_one_prompt_is_processed_in_pieces_and_those_of_a_batch_at_once(self):
        self.run_it(DEEP)
        self.assertEqual(self.calls()[0]["settings"]["max_num_batched_tokens"], 512)
        self.run_it(BATCH)
        self.assertEqual(self.calls()[0]["settings"]["max_num_batched_tokens"], 8 * 128)

    def test_the_context_is_made_longer_only_where_a_case_needs_it(self):
        self.run_it(DECODE)
        self.assertEqual(self.calls()[0]["settings"]["hf_overrides"], {})
        self.run_it(DEEP)
        settings = self.calls()[0]["settings"]
        self.assertGreater(settings["max_model_len"], 16384 + 64)
        self.assertEqual(settings["hf_overrides"], {"max_position_embeddings": settings["max_model_len"]})

    def test_what_it_does_not_measure_is_refused_before_the_model_is_loaded(self):
        self.assertIn("has fp8, but no q8", self.refusal(DEEP_Q8))
        self.assertIn("only at depth 0", self.refusal(cases.Case("x", prompt=8, depth=8)))
        self.config({"quantization_config": {}})
        self.assertIn("quantised weights", self.refusal(DECODE))
        (self.folder / "config.json").unlink()
        self.assertIn("no Hugging Face folder", self.refusal(DECODE))
        self.assertFalse((self.folder / "calls.json").exists())

    def test_an_error_of_vllm_becomes_one_line(self):
        self.assertEqual(self.refusal(DECODE, "small"), "vLLM: 1 validation error no room for the cache see https://example.org")

    def test_sequences_that_do_not_decode_together_are_an_error(self):
        self.assertIn("did not decode together", self.refusal(BATCH, "late"))


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

    def vllm_run(self, *options):
        """compare.py on a.gguf and b.gguf with a fake kvick and a fake vLLM."""
        with tempfile.TemporaryDirectory() as folder:
            for name, rate in (("ours", 100), ("theirs", 50)):
                path = pathlib.Path(folder, name)
                path.write_text(f"""#!/bin/sh\necho "$*" | grep -q refuse && exit 1\necho '{{"decode_tok_s": {rate}}}'\n""")
                path.chmod(0o755)
            for name in ("a.gguf", "b.gguf"):
                pathlib.Path(folder, name).touch()
            for name in ("one-hf", "refuse-hf"):
                pathlib.Path(folder, name).mkdir()
                pathlib.Path(folder, name, "config.json").write_text("{}")
            return subprocess.run([sys.executable, HERE / "compare.py", "a.gguf", "b.gguf", "--kvick", "ours", "--cases", "decode", "--quick",
                                   *options], cwd=folder, capture_output=True, text=True)

    def test_vllm_is_compared_by_its_folders_and_the_page_says_what_it_computes_in(self):
        done = self.vllm_run("--vllm", "theirs", "--hf", "b.gguf=refuse-hf", "--hf", "one-hf")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("vLLM bf16 computes in bfloat16", done.stdout)
        self.assertIn("--vllm 'vLLM bf16'=PYTHON --hf a.gguf=one-hf --hf b.gguf=refuse-hf --cases", done.stdout)
        rows = [line for line in done.stdout.splitlines() if line.startswith("| decode")]
        self.assertEqual(rows, ["| decode 128 at 0 | 100.0 | 50.0, bf16 folder; **2.00** | **2.00** |", "| decode 128 at 0 | 100.0 | refused [1] | – |"])
        self.assertNotIn("bfloat16", self.vllm_run().stdout)

    def test_vllm_is_called_bf16_under_any_name(self):
        self.assertIn("# kvick, new bf16\n", self.vllm_run("--vllm", "new=theirs", "--hf", "one-hf").stdout)
        self.assertIn("# kvick, in bf16, new\n", self.vllm_run("--vllm", "in bf16, new=theirs", "--hf", "one-hf").stdout)

    def test_quick_is_one_round_of_one_case_of_each_kind_unless_other_cases_or_rounds_are_given(self):
        quick = ["decode", "prefill", "batch8", "deep4k", "deep4k-q8"]
        everything = [case.name for case in cases.CASES]
        for options, rounds, names in (((), 5, everything), (("--quick",), 1, quick), (("--quick", "--cases", "prefill"), 1, ["prefill"]),
                                       (("--quick", "--cases", "all"), 1, everything), (("--quick", "--rounds", "2"), 2, quick),
                                       (("--rounds", "2", "--cases", "decode"), 2, ["decode"])):
            args, chosen, _ = compare.parsed([__file__, *options])
            self.assertEqual((args.rounds, [case.name for case in chosen]), (rounds, names), options)
            self.assertIn(f"--cases {args.cases} --rounds {rounds} ", compare.command_of(args, []))

    def test_less_than_one_round_is_refused(self):
        done = self.vllm_run("--rounds", "0")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--rounds 0: must be at least 1", done.stderr)

    def test_vllm_needs_one_folder_for_each_file(self):
        for options, words in ((("--vllm", "theirs"), "add --hf a.gguf=FOLDER"),
                               (("--vllm", "theirs", "--hf", "a.gguf=one-hf"), "add --hf b.gguf=FOLDER"),
                               (("--vllm", "theirs", "--hf", "c.gguf=one-hf"), "none of the files is 'c.gguf'; the files are a.gguf, b.gguf"),
                               (("--vllm", "theirs", "--hf", "one-hf", "--hf", "refuse-hf"), "a second folder for all files"),
                               (("--vllm", "theirs", "--hf", "none"), "no config.json in none"),
                               (("--hf", "one-hf"), "add --vllm PYTHON")):
            done = self.vllm_run(*options)
            self.assertEqual((done.returncode, done.stdout), (2, ""), options)
            self.assertIn(words, done.stderr)

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
