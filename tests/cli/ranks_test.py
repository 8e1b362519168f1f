"""A model split over several processes, started by mpirun: it answers as one process does, with every strategy, and ends when a rank
exits or stalls."""

import concurrent.futures
import http.client
import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

from made_model import KVICK, SENTENCE, CommandTest, make_model
from server_process import SECONDS, Server

MODEL = ("--layers", "3", "--dim", "256", "--ffn", "512", "--heads", "8", "--kv-heads", "4", "--vocab", "512", "--context", "256",
         "--type", "F32")
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np")
TEXT = SENTENCE * 4


class RankServer(Server):
    """A server with several ranks. `process` is mpirun."""

    def __init__(self, ranks, *arguments):
        self.launcher = (*MPIRUN, str(ranks))
        super().__init__(*arguments)

    def start(self, command, **options):
        return subprocess.Popen([*self.launcher, *command], **options)

    def ranks(self):
        """{rank: process id}"""
        found = {}
        for name in os.listdir("/proc"):
            try:
                environment = pathlib.Path(f"/proc/{name}/environ").read_bytes().split(b"\0") if name.isdigit() else []
                parent = int(pathlib.Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()[1]) if environment else 0
            except OSError:
                continue
            if parent == self.process.pid:
                rank = next((v for v in environment if v.startswith(b"OMPI_COMM_WORLD_RANK=")), None)
                if rank:
                    found[int(rank.split(b"=")[1])] = int(name)
        return found


class Ranks(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        make_model(cls.model, *MODEL)

    def setUp(self):
        super().setUp()
        # Open MPI leaks memory. Leaks of kvick itself are found by the other tests.
        self.env["ASAN_OPTIONS"] = "detect_leaks=0"

    def run_ranks(self, ranks, command, *arguments, status=0):
        done = subprocess.run([*MPIRUN, str(ranks), KVICK, "--json", "--quiet", command, "-m", self.model, *map(str, arguments)],
                              env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, status, done)
        return done

    def answer(self, ranks, *arguments, prompt=TEXT[:90], tokens=24):
        words = ("--raw", "-p", prompt, "-n", tokens, "--temp", 0, "--ignore-eos", *arguments)
        if ranks == 0:
            self.COMMAND = "run"
            return self.json_of("--quiet", *words)
        lines = self.run_ranks(ranks, "run", "--ranks", *words).stdout.splitlines()
        self.assertEqual(len(lines), 1, lines)  # only rank 0 prints
        return json.loads(lines[0])

    def test_ranks_give_the_answer_of_one_process(self):
        plain = self.answer(0)
        for ranks in (1, 2, 4):
            self.assertEqual(self.answer(ranks)["tokens"], plain["tokens"], ranks)
        for arguments in (("--kv", "paged:block=8"), ("--kv", "bmc"), ("--kv-tier", "ram:size=16MiB,unit=8"), ("--spec", "lookup:gain=off"),
                          ("--kv-select", "quest:budget=0.9")):
            self.assertEqual(self.answer(2, *arguments)["tokens"], self.answer(0, *arguments)["tokens"], arguments)

    def test_a_pipeline_gives_the_bits_of_one_process(self):
        plain = self.answer(0)["tokens"]
        for arguments in ((), ("--kv", "paged:block=8"), ("--kv", "bmc"), ("--kv-tier", "ram:size=16MiB,unit=8"),
                          ("--spec", "lookup:gain=off"), ("--spec", "skip:layers=1,gain=off")):
            for ranks in (2, 3):
                self.assertEqual(self.answer(ranks, "--pipeline", *arguments)["tokens"], plain, arguments)
        text = self.top / "text"
        text.write_text(TEXT * 3)
        for more in ((), ("--kv-select", "quest:budget=0.5,page=8"), ("--kv-select", "streaming:budget=0.5")):
            arguments = ("-f", text, "--ctx", 200, *more)
            self.COMMAND = "ppl"
            alone = self.json_of("--quiet", *arguments)["perplexity"]
            ranked = json.loads(self.run_ranks(3, "ppl", "--ranks", "--pipeline", *arguments).stdout)["perplexity"]
            self.assertEqual(ranked, alone, more)

    def test_perplexity_is_that_of_one_process(self):
        text = self.top / "text"
        text.write_text(TEXT * 3)
        for more in ((), ("--kv-type", "q8"), ("--kv-select", "quest:budget=0.5,page=8")):
            arguments = ("-f", text, "--ctx", 200, *more)
            self.COMMAND = "ppl"
            plain = self.json_of("--quiet", *arguments)["perplexity"]
            ranked = json.loads(self.run_ranks(3, "ppl", "--ranks", *arguments).stdout)["perplexity"]
            self.assertAlmostEqual(ranked / plain, 1, delta=2e-3, msg=more)

    def test_files_for_heads_and_layers_are_divided_among_ranks(self):
        text = self.top / "text"
        text.write_text(TEXT * 4)

        def train(what, *arguments):
            self.COMMAND = f"train {what}"
            file = self.top / f"{what}.file"
            self.json_of("--quiet", "-f", text, "-o", file, *arguments)
            return file
        scores = train("kvzap", "--window", "64", "--ahead", "8")
        # So few rows that all heads keep the first and the newest ones: otherwise the heads of a process compete among themselves.
        heads = train("duo", "--window", "64", "--sinks", "2", "--recent", "16")
        for more in (("--kv-type", f"static8:{train('ranges')}"),
                     ("--kv-select", f"loki:file={train('pca', '--rank', 8, '--window', 128)},budget=0.4,dense_layers=1"),
                     ("--kv-select", f"duo:file={heads},budget=0.1,least=12,sinks=4"),
                     ("--kv-select", f"kvzap:file={scores},budget=0.4,shared=head")):
            arguments = ("-f", text, "--ctx", 200, *more)
            self.COMMAND = "ppl"
            plain = self.json_of("--quiet", *arguments)["perplexity"]
            for split in ((), ("--pipeline",)):
                ranked = json.loads(self.run_ranks(3, "ppl", "--ranks", *split, *arguments).stdout)["perplexity"]
                self.assertAlmostEqual(ranked / plain, 1, delta=1e-9 if split else 2e-3, msg=more)

    def test_embeddings_equal_those_of_one_process_and_a_pipeline_refuses_them(self):
        self.COMMAND = "embed"
        plain = self.json_of("--quiet", "--pooling", "mean", TEXT[:90])["embedding"]
        ranked = json.loads(self.run_ranks(2, "embed", "--ranks", "--pooling", "mean", TEXT[:90]).stdout)["embedding"]
        for a, b in zip(plain, ranked, strict=True):
            self.assertAlmostEqual(a, b, places=4)
        done = self.run_ranks(2, "embed", "--ranks", "--pipeline", TEXT[:90], status=2)
        self.assertIn("text 1: embeddings need the model's last layer, which another process of --pipeline has", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_rank_0_reports_a_wrong_option_once(self):
        for ranks, arguments, says in (
                (2, (), "mpirun has started 2 processes: add --ranks"),
                (5, ("--ranks",), "5 ranks were started, but layer 0 has 4 KV heads, and each rank needs one: start at most 4"),
                (4, ("--ranks", "--pipeline"), "4 ranks were started, but llama has 3 layers: start at most 3"),
                (2, ("--ranks", "--pipeline", "--rank-activations", "bf16"), "rounds the sums of ranks, and --pipeline has no such sums"),
                (2, ("--ranks", "--kv-type", "static8:none.kvr"), "none.kvr"),
                (2, ("--ranks", "--kv-select", "maple:file=none.kvp"), "none.kvp")):
            done = self.run_ranks(ranks, "run", "-p", "x", *arguments, status=2)
            lines = [line for line in done.stderr.splitlines() if line.startswith("kvick: ")]
            self.assertTrue(all(says in line for line in lines) and lines, done.stderr)
            self.assertEqual(len(lines), ranks if not arguments else 1, done.stderr)

    def test_the_network_between_ranks_is_measured(self):
        def run(ranks):
            return subprocess.run([*MPIRUN, str(ranks), KVICK, "--json", "network"], env=self.env, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=120)
        done = run(2)
        self.assertEqual(done.returncode, 0, done)
        network = json.loads(done.stdout)
        self.assertGreater(network["bits_s"], 0)
        self.assertGreater(network["latency_s"], 0)
        self.assertIn("kvick network needs at least two processes", run(1).stderr)

    def serve(self, ranks, *arguments):
        server = RankServer(ranks, self.top, self.env, self.model, "--ranks", *arguments)
        self.addCleanup(server.kill)
        return server

    def ask(self, server, prompt=TEXT[:90], tokens=24, **more):
        return server.post("/v1/completions", prompt=prompt, max_tokens=tokens, temperature=0, ignore_eos=True, **more)

    def test_a_server_of_ranks_shares_prompts_forks_and_exits(self):
        for arguments in ((), ("--pipeline",)):
            self.check_server(arguments)

    def check_server(self, arguments):
        plain = self.answer(0)["text"]
        server = self.serve(2, *arguments)
        for choices in (1, 3, 1):
            status, answer = self.ask(server, n=choices)
            self.assertEqual(status, 200, answer)
            self.assertEqual([choice["text"] for choice in answer["choices"]], choices * [plain])
        self.assertGreater(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertEqual(len(server.ranks()), 2)
        os.kill(server.ranks()[0], signal.SIGTERM)
        self.assertEqual(server.process.wait(SECONDS), 0, (self.top / "serve.log").read_text())

    def test_prompts_in_a_folder_survive_a_restart(self):
        prompt = [3 + i * i % 400 for i in range(150)]  # a little more than one block of 128 tokens
        texts = set()

        def cached(folder, ranks, *arguments):
            # A busy machine may take longer than the usual 2 seconds.
            arguments = ("--kv-dir", self.top / folder, "--kv-dir-seconds", "60", *arguments)
            server = self.serve(ranks, *arguments) if ranks else Server(self.top, self.env, self.model, *arguments)
            self.addCleanup(server.kill)
            status, answer = self.ask(server, prompt)
            self.assertEqual(status, 200, answer)
            texts.add(answer["choices"][0]["text"])
            log = (self.top / "serve.log").read_text()
            self.assertNotIn("no files of rows", log)
            os.kill(server.ranks()[0] if ranks else server.process.pid, signal.SIGTERM)
            self.assertEqual(server.process.wait(SECONDS), 0, log)
            return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

        # With tensor parallelism, sums are rounded differently for each number of ranks, so files are shared only by runs with the same
        # number. With --pipeline, values are those of one process.
        self.assertEqual([cached("tensor", ranks) for ranks in (2, 2, 4, 0, 4, 2)], [0, 128, 0, 0, 128, 128])
        self.assertEqual([cached("pipeline", ranks, *split) for ranks, split in
                          ((2, ("--pipeline",)), (3, ("--pipeline",)), (0, ()), (2, ()))], [0, 128, 128, 0])
        self.assertEqual(len(texts), 1, texts)

    def test_a_pipeline_continues_from_stored_states_after_a_restart(self):
        model = self.top / "states.gguf"
        make_model(model, "--family", "qwen35", "--context", "256")
        prompt = [3 + i * i % 80 for i in range(150)]
        texts = []
        for ranks, cached in ((0, 0), (2, 0), (2, 149)):
            folder = ("--kv-dir", self.top / f"states{min(ranks, 1)}", "--kv-dir-seconds", "60")
            server = RankServer(ranks, self.top, self.env, model, "--ranks", "--pipeline", *folder) if ranks else Server(
                self.top, self.env, model, *folder)
            self.addCleanup(server.kill)
            turns = [self.ask(server, prompt + more)[1] for more in ([], [5] * 20)]
            texts.append([turn["choices"][0]["text"] for turn in turns])
            self.assertEqual(turns[0]["usage"]["prompt_tokens_details"]["cached_tokens"], cached)
            self.assertGreaterEqual(turns[1]["usage"]["prompt_tokens_details"]["cached_tokens"], 149)
            os.kill(server.ranks()[0] if ranks else server.process.pid, signal.SIGTERM)
            self.assertEqual(server.process.wait(SECONDS), 0)
        self.assertEqual(texts[1:], 2 * texts[:1])

    def test_preempted_requests_get_the_same_answers(self):
        for split in ((), ("--pipeline",)):
            self.check_preemption(self.serve(2, "--kv", "paged:block=8", "--kv-memory", "200kB", "--max-seqs", "8", *split))

    def check_preemption(self, server):
        with concurrent.futures.ThreadPoolExecutor(6) as clients:
            answers = list(clients.map(lambda client: self.ask(server, TEXT[:10], 120, cache_salt=str(client)), range(6)))
        alone = self.answer(0, prompt=TEXT[:10], tokens=120)["text"]
        for status, answer in answers:
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["choices"][0]["text"], alone)
        self.assertGreater(server.metric('preemptions_total{how="recompute"}'), 0)

    def assert_ends(self, server, number, rank):
        """Checks that all ranks end within a limited time, and that the reason is printed, after one rank gets a signal."""
        began = time.monotonic()
        os.kill(server.ranks()[rank], number)
        try:
            status, answer = self.ask(server)
            self.assertEqual(status, 503, answer)
        except (OSError, http.client.HTTPException):  # mpirun ended the server before it could answer
            self.assertNotEqual(number, signal.SIGSTOP)
        self.assertNotEqual(server.process.wait(SECONDS), 0)
        self.assertLess(time.monotonic() - began, 20)
        log = (self.top / "serve.log").read_text()
        self.assertRegex(log, "rank [0-9] .*has ended|has not answered|noticed that process rank [0-9]", log)

    def test_the_death_of_any_rank_ends_all_ranks(self):
        for split in ((), ("--pipeline",)):
            for rank in (0, 1, 2):
                self.assert_ends(self.serve(3, *split), signal.SIGKILL, rank)

    def test_a_stalled_rank_ends_all_ranks_and_requests_get_an_error(self):
        server = self.serve(2, "--rank-seconds", "1")
        stalled = server.ranks()[1]
        self.addCleanup(lambda: os.path.exists(f"/proc/{stalled}") and os.kill(stalled, signal.SIGKILL))
        self.assert_ends(server, signal.SIGSTOP, 1)


if __name__ == "__main__":
    unittest.main()
