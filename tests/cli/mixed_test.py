"""Models with different kinds of layers, in every command: all caches give equal answers, plans list groups of layers, and impossible
options are refused with one line."""

import json
import time
import unittest

from made_model import SENTENCE, SMALL, CommandTest, make_model
from server_process import Server

# Every other layer has a window of 24 tokens and wider heads. The last two layers share the rows of the first two.
MIXED = ("--layers", "4", *SMALL[2:], "--window", "24", "--window-period", "2", "--window-head-dim", "32",
         "--shared-layers", "2", "--type", "F32")
TEXT = SENTENCE * 12
PROMPT = TEXT[:90]


class Mixed(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        make_model(cls.model, *MIXED)

    def setUp(self):
        super().setUp()
        self.env["XDG_CACHE_HOME"] = self.models.name  # the machine is calibrated once for all tests
        self.text = self.top / "text"
        self.text.write_text(TEXT)

    def command(self, name, *arguments):
        return self.as_command(name).json_of("--quiet", *arguments)

    def answer(self, *arguments):
        return self.command("run", "--raw", "-p", PROMPT, "-n", 30, "--temp", 0, "--ignore-eos", *arguments)

    def test_run_and_serve_give_the_same_answers(self):
        plain = self.answer()
        self.assertEqual(len(plain["tokens"]), 30)
        for arguments in (("--kv", "paged:block=8"), ("--kv", "bmc:r=auto"), ("--spec", "lookup:gain=off"),
                          ("--kv-tier", "ram:size=16MiB,unit=8")):
            self.assertEqual(self.answer(*arguments)["tokens"], plain["tokens"], arguments)
        server = Server(self.top, self.env, self.model, "--kv-dir", self.top / "kv")
        self.addCleanup(server.kill)
        for _ in range(2):
            status, answer = server.post("/v1/completions", prompt=PROMPT, max_tokens=30, temperature=0, ignore_eos=True, n=2)
            self.assertEqual(status, 200, answer)
            self.assertEqual([choice["text"] for choice in answer["choices"]], 2 * [plain["text"]])

    def wait_for_files(self, folder):
        """Waits until there are files of rows and no more come: they are written while the answer goes on."""
        names, until = None, time.monotonic() + 20
        while time.monotonic() < until:
            before, names = names, sorted(folder.glob("*.kv"))
            if names and names == before:
                return
            time.sleep(0.3)
        self.fail(f"no files of rows in {folder}")

    def test_prompts_survive_a_kill_but_only_with_paged(self):
        def ask(*options):
            server = Server(self.top, self.env, self.model, "--kv-dir", self.top / "kv", *options)
            self.addCleanup(server.kill)
            status, answer = server.post("/v1/completions", prompt=TEXT[:400], max_tokens=30, temperature=0, ignore_eos=True)
            self.assertEqual(status, 200, answer)
            if not options:
                self.wait_for_files(self.top / "kv")
            server.kill()
            return answer["choices"][0]["text"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        first, cached = ask()
        self.assertEqual(cached, 0)
        again, cached = ask()
        self.assertEqual(again, first)
        self.assertGreaterEqual(cached, 128)
        self.assertNotIn("no files of rows", (self.top / "serve.log").read_text())
        self.assertEqual(ask("--kv", "virtual"), (first, 0))
        self.assertIn("--kv-dir: no files of rows are read or written: 1 of 2 layers keep a window or a state, which can be moved "
                      "with --kv paged alone", (self.top / "serve.log").read_text())

    def test_a_plan_has_a_row_for_each_group(self):
        plan = self.command("plan", "--ctx", 200, "--kv", "paged:block=8")
        windows, full = plan["groups"]
        self.assertEqual((windows["layers"], windows["window"], windows["k_dim"]), ([0], 24, 32))
        self.assertEqual((full["layers"], full["window"], full["k_dim"]), ([1], 0, 16))
        self.assertEqual(full["token_bytes"], 2 * 2 * 16 * 2)
        self.assertEqual(full["kv_bytes"], 200 * full["token_bytes"])
        self.assertEqual(plan["kv_bytes"], windows["kv_bytes"] + full["kv_bytes"])
        # Layers that share the rows of other layers count as reads, too.
        self.assertEqual(full["read_bytes_per_token"], 2 * 200 * full["token_bytes"])
        self.assertEqual(windows["read_bytes_per_token"], 2 * 24 * windows["token_bytes"])
        self.assertGreater(plan["predicted_decode_tok_s"], 0)
        self.assertGreater(plan["predicted_prefill_s"], 0)
        text = self.kvick("--quiet", "--ctx", 200).stdout
        for words in ("rows, window 24", "KV heads", "strategy", "last token"):
            self.assertIn(words, text)

    def test_memory_is_what_bench_counts_to_the_byte(self):
        for kv in ("virtual", "bmc:r=24", "upfront", "iterative", "paged:block=16"):
            cache = ("--kv", kv, "--ctx", 200)
            planned = self.command("plan", *cache, "-b", 3)
            counted = self.command("bench", *cache, "-b", 3, "-p", 0, "-d", 136, "-n", 64, "-r", 1)["kv"]
            self.assertEqual(planned["kv_bytes"], counted["allocated_bytes"], kv)

    def test_all_caches_give_the_same_perplexity(self):
        whole = self.command("ppl", "-f", self.text, "--ctx", 64)
        for kv in ("paged:block=8", "bmc:r=16"):
            other = self.command("ppl", "-f", self.text, "--ctx", 64, "--kv", kv, "--against", "virtual")
            self.assertEqual((other["perplexity"], other["top1_agreement"]), (whole["perplexity"], 1))

    def test_a_policy_reports_the_layers_that_it_does_not_apply_to(self):
        self.COMMAND = "ppl"
        done = self.kvick("-f", self.text, "--ctx", 64, "--kv-select", "quest:budget=0.25,dense_layers=0,least=16")
        self.assertIn("quest chooses among the rows of 2 of 4 layers; the others see at most 24 tokens, and read them all",
                      done.stderr)
        advice = self.command("plan", "--ctx", 64, "--kv-select", "quest")["advice"]
        self.assertIn("quest chooses among the rows of 2 of 4 layers", advice[0])

    def test_options_that_need_equal_layers_are_refused(self):
        for command in ("run", "plan"):
            self.COMMAND = command
            prompt = ("-p", "a") if command == "run" else ()
            self.refused(*prompt, "--kv-select", "maple:file=x.kvp", says="maple needs layers that are all alike")
            self.refused(*prompt, "--kv-select", "loki:file=x.kvp", says="loki needs layers that are all alike")
            self.refused(*prompt, "--kv-type", "static8:x.kvr", says="STATIC8 needs layers that are all alike")
        for task in ("distil", "pca", "ranges"):
            self.COMMAND = f"train {task}"
            self.refused("-f", self.text, "-o", self.top / "x", "--window", 32, says="layers that are all alike, and this model's")

    def test_inspect_shows_the_file(self):
        import subprocess

        from made_model import KVICK
        done = subprocess.run([KVICK, "inspect", self.model, "--json"], capture_output=True, text=True, timeout=60, check=True)
        self.assertIn("shared_kv_layers", json.dumps(json.loads(done.stdout)))


if __name__ == "__main__":
    unittest.main()
