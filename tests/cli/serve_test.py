#!/usr/bin/env python3
"""`kvick serve` over HTTP: answers, errors, API keys, caches chosen by requests, and prefix cache files that survive kills and damage."""

import concurrent.futures
import json
import os
import random
import re
import signal
import socket
import threading
import time
import unittest

from made_model import make_model
from server_process import SECONDS, ServedTest

# Long enough that a stream still runs when it is interrupted.
MODEL = ("--layers", "2", "--dim", "64", "--ffn", "96", "--heads", "2", "--vocab", "512", "--context", "2048", "--type", "Q8_0")
GREEDY = {"temperature": 0, "ignore_eos": True}
PROMPT = "All happy families are alike; each unhappy family is unhappy in its own way."
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 120},
                                           "name": {"type": "string", "maxLength": 6}},
          "required": ["age", "name"], "additionalProperties": False}
MESSAGES = [{"role": "user", "content": "Who are you?"}]


class ServeTest(ServedTest):
    MODEL = MODEL

    def complete(self, server, prompt=PROMPT, **body):
        status, answer = server.post("/v1/completions", prompt=prompt, **{"max_tokens": 24, **GREEDY, **body})
        self.assertEqual(status, 200, answer)
        return answer

    def text(self, server, prompt=PROMPT, **body):
        return self.complete(server, prompt, **body)["choices"][0]["text"]

    def cached(self, server, prompt=PROMPT, **body):
        return self.complete(server, prompt, **body)["usage"]["prompt_tokens_details"]["cached_tokens"]

    def wait_for(self, what, condition):
        until = time.monotonic() + SECONDS
        while not condition():
            self.assertLess(time.monotonic(), until, f"timeout: waited until {what}")
            time.sleep(0.01)


class Answers(ServeTest):
    def setUp(self):
        super().setUp()
        self.server = self.serve("--name", "made", "--client-kv", "any")

    def test_a_stream_gives_the_same_text_as_a_whole_answer(self):
        whole = self.text(self.server)
        pieces = list(self.server.events("/v1/completions", prompt=PROMPT, max_tokens=24, **GREEDY))
        self.assertEqual("".join(piece["choices"][0]["text"] for piece in pieces), whole)
        self.assertEqual(pieces[-1]["choices"][0]["finish_reason"], "length")
        status, chat = self.server.post("/v1/chat/completions", messages=MESSAGES, max_tokens=24, **GREEDY)
        self.assertEqual((status, chat["model"], chat["object"]), (200, "made", "chat.completion"), chat)
        *pieces, usage = self.server.events("/v1/chat/completions", messages=MESSAGES, max_tokens=24,
                                            stream_options={"include_usage": True}, **GREEDY)
        self.assertEqual("".join(piece["choices"][0]["delta"].get("content", "") for piece in pieces),
                         chat["choices"][0]["message"]["content"])
        self.assertEqual((usage["usage"]["completion_tokens"], usage["usage"]["prompt_tokens"]),
                         (24, chat["usage"]["prompt_tokens"]))

    def test_several_answers_are_reproducible_with_a_seed(self):
        body = {"n": 4, "temperature": 1, "max_tokens": 16}
        texts = [choice["text"] for choice in self.complete(self.server, seed=7, **body)["choices"]]
        self.assertEqual(len(set(texts)), 4)
        self.assertEqual([choice["text"] for choice in self.complete(self.server, seed=7, **body)["choices"]], texts)
        self.assertNotEqual([choice["text"] for choice in self.complete(self.server, seed=8, **body)["choices"]], texts)

    def test_each_prompt_of_a_request_gets_its_own_answer(self):
        body = {"temperature": 1, "max_tokens": 16, "seed": 7}
        texts = [choice["text"] for choice in self.complete(self.server, [PROMPT] * 4, n=2, **body)["choices"]]
        self.assertEqual(len(set(texts)), 8)
        self.assertEqual(texts[0], self.text(self.server, **body))
        self.assertEqual([choice["text"] for choice in self.complete(self.server, [PROMPT] * 4, n=2, **body)["choices"]], texts)

    def test_a_call_cut_off_by_max_tokens_is_not_content(self):
        call = {"messages": MESSAGES, "tool_choice": "required", "temperature": 0, "tools": [{
            "type": "function", "function": {"name": "f", "parameters": {"type": "object", "required": ["x"], "properties": {
                "x": {"type": "string", "minLength": 200}}}}}]}
        for most in (1, 40):
            status, answer = self.server.post("/v1/chat/completions", max_tokens=most, **call)
            self.assertEqual(status, 200, answer)
            choice = answer["choices"][0]
            self.assertEqual((choice["finish_reason"], answer["usage"]["completion_tokens"]), ("length", most))
            self.assertFalse(choice["message"]["content"])
            *events, usage = self.server.events("/v1/chat/completions", max_tokens=most,
                                                stream_options={"include_usage": True}, **call)
            deltas = [event["choices"][0]["delta"] for event in events]
            self.assertFalse("".join(delta.get("content") or "" for delta in deltas))
            calls = [made for delta in deltas for made in delta.get("tool_calls", ())]
            self.assertEqual([made["function"] for made in calls],
                             [made["function"] for made in choice["message"].get("tool_calls", ())])
            self.assertEqual((events[-1]["choices"][0]["finish_reason"], usage["usage"]["completion_tokens"]), ("length", most))
        self.assertEqual(calls[0]["function"]["name"], "f")

    def test_a_loop_ends_an_answer_if_requested(self):
        body = {"ignore_eos": False, "logit_bias": {"300": 100}, "max_tokens": 120}
        choice = self.complete(self.server, **body)["choices"][0]
        self.assertEqual((choice["finish_reason"], choice.get("kvick_finish")), ("length", None))
        answer = self.complete(self.server, **body, stop_loops=True)
        self.assertEqual((answer["choices"][0]["finish_reason"], answer["choices"][0]["kvick_finish"]), ("stop", "loop"))
        self.assertEqual(answer["usage"]["completion_tokens"], 96)
        willing = self.serve("--stop-loops")
        self.assertEqual(self.complete(willing, **body)["choices"][0]["kvick_finish"], "loop")
        self.assertEqual(self.complete(willing, **body, stop_loops=False)["choices"][0]["finish_reason"], "length")

    def test_a_stop_string_ends_the_answer_before_it(self):
        whole = self.text(self.server)
        stop = re.findall("[a-z]{2}", whole)[-1]
        choice = self.complete(self.server, stop=[stop])["choices"][0]
        self.assertEqual((choice["text"], choice["finish_reason"]), (whole[:whole.index(stop)], "stop"))

    def test_logprobs_are_of_the_tokens_chosen(self):
        logprobs = self.complete(self.server, logprobs=3)["choices"][0]["logprobs"]
        self.assertEqual(len(logprobs["tokens"]), 24)
        for token, logprob, top in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"]):
            if len(top) == 3:  # with fewer, several tokens have the same text
                self.assertEqual(logprob, max(top.values()), token)  # greedy: the likeliest

    def test_the_logprobs_of_a_prompt_are_those_of_its_echo(self):
        echoed = self.complete(self.server, echo=True, logprobs=2, max_tokens=1)["choices"][0]["logprobs"]["token_logprobs"]
        choice = self.complete(self.server, prompt_logprobs=2, return_token_ids=True, max_tokens=1)["choices"][0]
        self.assertEqual(len(choice["prompt_logprobs"]), len(choice["prompt_token_ids"]))
        apart = [chances and chances[str(token)]["logprob"]
                 for token, chances in zip(choice["prompt_token_ids"], choice["prompt_logprobs"])]
        self.assertEqual(apart, echoed[:-1])  # the last one is the answer's
        self.assertIsNone(choice["logprobs"])

    def test_an_answer_has_only_the_allowed_tokens(self):
        body = {"ignore_eos": False, "temperature": 1, "return_token_ids": True, "allowed_token_ids": [300, 301]}
        choice = self.complete(self.server, **body)["choices"][0]
        self.assertEqual((choice["finish_reason"], len(choice["token_ids"])), ("length", 24))
        self.assertLessEqual(set(choice["token_ids"]), {300, 301})

    def test_clients_of_llama_server_learn_the_limits(self):
        (model,) = self.server.ask("GET", "/v1/models")[1]["data"]
        status, props = self.server.ask("GET", "/props")
        self.assertEqual((status, props["model_alias"], props["total_slots"]), (200, "made", 64))
        self.assertEqual(props["default_generation_settings"]["n_ctx"], model["max_model_len"])
        self.assertEqual(self.server.ask("GET", "/slots")[0], 404)

    def test_an_answer_follows_its_schema(self):
        for seed in range(3):
            status, answer = self.server.post(
                "/v1/chat/completions", messages=MESSAGES, temperature=1, seed=seed,
                response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}})
            self.assertEqual(status, 200, answer)
            value = json.loads(answer["choices"][0]["message"]["content"])
            self.assertEqual(set(value), {"age", "name"})
            self.assertIn(value["age"], range(121))

    def test_each_request_chooses_its_cache_and_exact_ones_agree(self):
        """Sends all requests at once to one server."""
        exact = [{"strategy": one} for one in ("virtual", "bmc:r=16", "upfront", "iterative", "paged:block=16")]
        q8 = [{"strategy": one, "type": "q8"} for one in ("bmc", "paged")]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            texts = list(pool.map(lambda kv: self.text(self.server, max_tokens=100, kv=kv), exact + q8))
        self.assertEqual(set(texts[:5]), {self.text(self.server, max_tokens=100)})
        self.assertEqual(texts[5], texts[6])
        self.assertEqual(len(self.server.ask("GET", "/kv")[1]["stores"]), 8)
        self.wait_for("no row is left", lambda: self.server.metric('kv_bytes{what="used"}') == 0)

    def test_a_tier_needs_no_strategy(self):
        server = self.serve("--kv-tier", "ram:size=16MiB")
        self.assertEqual([store["strategy"] for store in server.ask("GET", "/kv")[1]["stores"]], ["tiered"])
        self.assertEqual(self.text(server), self.text(self.server))

    def test_prompts_with_different_salts_share_no_rows(self):
        self.assertEqual(self.cached(self.server, cache_salt="a"), 0)
        self.assertGreater(self.cached(self.server, cache_salt="a"), 0)
        self.assertEqual(self.cached(self.server, cache_salt="b"), 0)
        self.assertEqual(self.cached(self.server), 0)

    def test_a_client_that_disconnects_is_cancelled(self):
        events = self.server.events("/v1/completions", prompt=PROMPT, max_tokens=1900, n=8, **GREEDY)
        next(events)
        events.close()
        self.wait_for("it is cancelled", lambda: self.server.metric('jobs_total{end="cancelled"}') == 1)
        self.assertEqual(self.server.metric("kv_sequences"), 0)
        self.assertEqual(self.server.metric('kv_bytes{what="used"}'), 0)


class Errors(ServeTest):
    def test_errors_name_the_field_and_the_reason(self):
        server = self.serve("--name", "made", "--ctx", 1024, "--client-kv", "any")
        cases = (
            ("{", 400, None, "not valid JSON at byte 2"),
            ('{"prompt": "a", "prompt": "b"} x', 400, None, "JSON"),
            ([], 400, None, "must be a JSON object"),
            ({}, 400, "prompt", "prompt is missing"),
            ({"prompt": ""}, 400, "prompt", "prompt is empty"),
            ({"prompt": "a", "temperature": "hot"}, 400, "temperature", "a number from 0 to 100"),
            ({"prompt": [5] * 2100}, 400, "prompt", "2100 tokens, but the context holds 1024"),
            ({"prompt": [512]}, 400, "prompt", "the vocabulary ends at 511"),
            ({"prompt": "a", "n": 65}, 400, "n", "from 1 to 64"),
            ({"prompt": "a", "model": "other"}, 404, "model", 'this server has "made"'),
            ({"prompt": "a", "kv": {"strategy": "none"}}, 400, "kv", '"none".*there are virtual'),
            ({"prompt": "a", "kv": {"strategy": "bounded"}}, 400, "kv", "bounded needs a model"),
            ({"prompt": "a", "kv": {"strategy": "bmc:r=x"}}, 400, "kv", "r='x' is not a whole number"),
            ({"prompt": [5] * 1025, "kv": {"strategy": "virtual"}}, 400, "prompt", "the context holds 1024"),
            ({"prompt": "a", "kv": {"type": "static8"}}, 400, "kv", "static8:FILE"),
            ({"prompt": "a", "kv": {"type": "static8:/etc/passwd"}}, 400, "kv", "names a file"),
        )
        for body, status, param, says in cases:
            with self.subTest(body=str(body)[:60]):
                got, answer = server.ask("POST", "/v1/completions", body)
                self.assertEqual((got, answer["error"]["param"]), (status, param), answer)
                self.assertRegex(answer["error"]["message"], says)
        self.assertEqual(server.ask("GET", "/v1/nothing")[0], 404)
        self.assertEqual(server.ask("GET", "/v1/completions")[0], 405)
        self.assertEqual(server.ask("GET", "/health"), (200, {"status": "ok"}))

    def test_a_prompt_that_is_too_long_has_openais_error_code(self):
        server = self.serve("--ctx", 64)
        for path, param, body in (("/v1/completions", "prompt", {"prompt": [5] * 65}),
                                  ("/v1/chat/completions", "messages", {"messages": [{"role": "user", "content": "a b " * 65}]})):
            for stream in (False, True):
                status, answer = server.post(path, stream=stream, **body)
                self.assertEqual((status, answer["error"]["code"], answer["error"]["param"]),
                                 (400, "context_length_exceeded", param), answer)

    def test_unknown_fields_are_reported_or_refused(self):
        body = {"prompt": "a", "max_tokens": 1, "temprature": 1, "kv": {"strange": 2}}
        server = self.serve()
        for stream in (False, True):
            for _ in range(2):
                connection = server.connect()
                self.addCleanup(connection.close)
                response = server.send(connection, "POST", "/v1/completions", {**body, "stream": stream})
                self.assertEqual((response.status, response.headers["X-Kvick-Ignored-Fields"]), (200, "kv.strange, temprature"))
                response.read()
        self.assertEqual(server.stop(), 0)
        lines = (self.top / "serve.log").read_text().splitlines()
        self.assertEqual(["kv.strange" in line for line in lines if "unknown field" in line], [True, False], lines)
        server = self.serve("--strict-fields")
        status, answer = server.post("/v1/completions", prompt="a", temprature=1)
        self.assertEqual((status, answer["error"]["param"]), (400, "temprature"))
        self.assertRegex(answer["error"]["message"], "no field that this server knows")

    def test_a_key_is_required(self):
        keys = self.top / "keys"
        keys.write_text("# of the tests\nkey-one\nkey-two\n")
        server = self.serve("--api-key-file", keys)
        for path in ("/metrics", "/kv", "/v1/models", "/props"):
            self.assertEqual(server.ask("GET", path)[0], 401, path)
        self.assertEqual(server.post("/v1/completions", key="key-three", prompt="a")[0], 401)
        self.assertEqual(server.post("/v1/completions", key="key-two", prompt="a")[0], 200)
        self.assertEqual(server.ask("GET", "/v1/models", key="key-one")[0], 200)
        self.assertEqual(server.ask("GET", "/health")[0], 200)

    def test_wrong_options_are_refused(self):
        (self.top / "spaces").write_text("a key\n")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            for arguments, says in (
                (("--kv", "none"), 'unknown cache strategy "none"|"none" is not a KV strategy'),
                (("--kv-type", "q9"), '"q9" do not exist'),
                (("--kv", "bounded"), "memory of slots"),
                (("--kv-dir", self.model), "cannot be made: Not a directory"),
                (("--api-key-file", self.top / "none"), "cannot read the API keys"),
                (("--api-key-file", self.top / "spaces"), "white space"),
                (("--ctx", 4096), "the model has 2048"),
                (("--kv-memory", 1), "more memory"),
                (("--port", taken.getsockname()[1]), "already in use; choose another with --port"),
                (("--instances", 0), "--instances"),
                (("--router", "nginx"), "--router: 'nginx' is none of sglang, vllm"),
                (("--instances", 64), "64 instances need as many cores|need a thread each"),
                (("--bogus",), "--bogus"),
                (("--allow-host", "http://a.org"), "--allow-host.*without scheme and port"),
                (("--allow-origin", "a.org/"), "--allow-origin.*scheme, name and port"),
                (("--max-body", "2MB", "--max-body-total", "1MB"), "--max-body-total.*less than"),
                (("--max-priority", -1), "--max-priority"),
                (("--client-kv", "paged,pagd"), '--client-kv "pagd"'),
            ):
                with self.subTest(arguments=arguments):
                    self.refused(*arguments, says=says)


class Access(ServeTest):
    """Which request options are allowed, and which web origins may send requests."""

    def refused_field(self, server, param, says, **body):
        status, answer = server.post("/v1/completions", prompt="a", max_tokens=1, **body)
        self.assertEqual((status, answer["error"]["param"]), (400, param), answer)
        self.assertRegex(answer["error"]["message"], says)

    def test_requests_may_only_choose_what_the_operator_allows(self):
        server = self.serve()
        self.refused_field(server, "priority", "--max-priority", priority=1)
        self.refused_field(server, "kv", "paged.*--client-kv", kv={"strategy": "iterative"})
        self.refused_field(server, "kv", "f16.*--client-kv", kv={"type": "f32"})
        whole = self.text(server, priority=-1)
        self.assertEqual(self.text(server, kv={"strategy": "paged"}), whole)
        self.text(server, kv={"type": "q8"})
        more = self.serve("--max-priority", 7, "--client-kv", "own,iterative")
        self.assertEqual(self.text(more, priority=7, kv={"strategy": "iterative"}), whole)
        self.refused_field(more, "priority", "at most 7", priority=8)
        self.refused_field(more, "kv", "upfront", kv={"strategy": "upfront"})

    def test_pages_of_other_sites_are_refused_unless_they_are_allowed(self):
        status = lambda server, **headers: server.ask(
            "POST", "/v1/completions", {"prompt": "a", "max_tokens": 1}, headers=headers)[0]
        server = self.serve()
        own = f"http://127.0.0.1:{server.port}"
        self.assertEqual(status(server, Origin=own), 200)
        self.assertEqual(status(server, Origin="http://evil.org"), 403)
        self.assertEqual(status(server, Host="evil.org", Origin="http://evil.org"), 403)
        server = self.serve("--allow-host", "llm.org", "--allow-origin", "https://chat.org")
        self.assertEqual(status(server, Host="llm.org", Origin="https://chat.org"), 200)
        self.assertEqual(status(server, Host="evil.org"), 403)


class Ends(ServeTest):
    def test_sigterm_lets_a_running_stream_finish(self):
        server = self.serve()
        body = {"max_tokens": 1500, **GREEDY}
        whole = self.text(server, **body)
        events = server.events("/v1/completions", prompt=PROMPT, **body)
        text = next(events)["choices"][0]["text"]
        server.process.send_signal(signal.SIGTERM)
        pieces = list(events)
        self.assertEqual(text + "".join(piece["choices"][0]["text"] for piece in pieces), whole)
        self.assertEqual(pieces[-1]["choices"][0]["finish_reason"], "length")
        self.assertEqual(server.process.wait(SECONDS), 0)
        self.assertEqual((self.top / "serve.log").read_text(), "")


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "two instances need two processors")
class Instances(ServeTest):
    """Two instances (--instances) give the same answers as one."""

    def test_they_answer_as_one_and_prefer_the_instance_with_a_cached_prompt(self):
        prompts = [[i + 3] * 200 for i in range(4)]
        one = self.serve()
        right = [self.text(one, prompt) for prompt in prompts]
        two = self.serve("--instances", 2, "--kv-memory", "1MB")
        for _ in range(3):
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                texts = list(pool.map(lambda i: self.text(two, prompts[i % 4]), range(16)))
            self.assertEqual(texts, right * 4)
        # The counters are updated a moment after an answer ends.
        finished = lambda: [two.metric(f'instance_jobs_finished_total{{instance="{i}"}}') for i in range(2)]
        self.wait_for("all have ended", lambda: sum(finished()) == 48)
        self.assertGreater(min(finished()), 0)
        self.assertEqual({store["instance"] for store in two.ask("GET", "/kv")[1]["stores"]}, {0, 1})
        prompt = [99] * 300
        self.cached(two, prompt)
        for _ in range(4):
            self.assertGreater(self.cached(two, prompt), 250)
        self.wait_for("no row is used", lambda: two.metric('kv_bytes{what="used"}') == 0)
        self.assertEqual(two.metric("kv_limit_bytes"), 1 << 20)

    def test_closed_streams_are_cancelled_and_others_finish(self):
        server = self.serve("--instances", 2)
        body = {"max_tokens": 1200, **GREEDY}
        whole = self.text(server, **body)
        streams = [server.events("/v1/completions", prompt=PROMPT, **body) for _ in range(2)]
        texts = [next(stream)["choices"][0]["text"] for stream in streams]
        for _ in range(2):  # so long that they cannot end before the server notices the closed connections
            gone = server.events("/v1/completions", prompt=PROMPT, max_tokens=1900, n=8, **GREEDY)
            next(gone)
            gone.close()
        self.wait_for("they are cancelled", lambda: server.metric('jobs_total{end="cancelled"}') == 2)
        server.process.send_signal(signal.SIGTERM)
        for text, stream in zip(texts, streams):
            self.assertEqual(text + "".join(piece["choices"][0]["text"] for piece in stream), whole)
        self.assertEqual(server.process.wait(SECONDS), 0)


class Files(ServeTest):
    """Prefix cache files (--kv-dir), two for each prompt. The reference answers come from a server without files."""

    def setUp(self):
        super().setUp()
        self.files = self.top / "kv"
        generator = random.Random(1)
        self.prompts = [[generator.randrange(500) for _ in range(300)] for _ in range(6)]
        server = self.serve()
        self.right = [self.text(server, prompt) for prompt in self.prompts]
        self.assertEqual(server.stop(), 0)
        self.assertEqual(len(set(self.right)), len(self.prompts))

    def ask_all(self, server, order):
        for i in order:
            self.assertEqual(self.text(server, self.prompts[i]), self.right[i], f"prompt {i}")

    def fill(self):
        server = self.serve("--kv-dir", self.files)
        self.ask_all(server, range(6))
        self.wait_for("all is written", lambda: server.metric("kv_file_blocks") == 12)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(len(list(self.files.glob("*.kv"))), 12)

    def test_a_restarted_server_reads_prompts_from_files(self):
        self.fill()
        server = self.serve("--kv-dir", self.files)
        answer = self.complete(server, self.prompts[0])
        self.assertEqual(answer["choices"][0]["text"], self.right[0])
        self.assertEqual(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 256)
        self.assertEqual(server.metric('kv_file_events_total{event="hit"}'), 2)
        self.ask_all(server, range(6))

    def test_other_weights_and_salts_do_not_find_them(self):
        self.fill()
        self.assertEqual(self.cached(self.serve("--kv-dir", self.files), self.prompts[0], cache_salt="other"), 0)
        self.model = str(self.top / "other.gguf")
        make_model(self.model, *MODEL, "--seed", "9")
        self.assertEqual(self.cached(self.serve("--kv-dir", self.files), self.prompts[0]), 0)

    def test_a_kill_under_load_changes_no_later_answer(self):
        for instances in (1, min(2, len(os.sched_getaffinity(0))), 1):
            server = self.serve("--kv-dir", self.files, "--kv-memory", "1MB", "--instances", instances)
            answered = threading.Semaphore(0)

            def load(i, server=server, answered=answered):
                try:
                    while True:
                        self.assertEqual(self.text(server, self.prompts[i]), self.right[i])
                        answered.release()
                except (OSError, ValueError):  # the server was killed, possibly in the middle of an answer
                    pass
                except Exception as error:  # http.client has exceptions of its own for this
                    if type(error).__module__ != "http.client":
                        raise

            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                loads = [pool.submit(load, i) for i in range(6)]
                for _ in range(8):
                    self.assertTrue(answered.acquire(timeout=SECONDS))
                self.assertEqual(server.stop(signal.SIGKILL), -signal.SIGKILL)
                for one in loads:
                    one.result(SECONDS)
        self.ask_all(self.serve("--kv-dir", self.files), range(6))

    def damage(self, generator, path):
        data = bytearray(path.read_bytes())
        how = generator.choice(("flip", "truncate", "lengthen", "delete"))
        if how == "delete":
            return path.unlink()
        if not data or how == "lengthen":  # it may have been truncated to nothing before
            data += b"\0"
        elif how == "flip":
            data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        else:
            del data[generator.choice((0, generator.randrange(len(data)))):]
        path.write_bytes(data)

    def test_damaged_files_never_change_an_answer(self):
        self.fill()
        seed = random.randrange(1 << 32)
        print(f"damage with seed {seed}")
        generator, torn = random.Random(seed), 0
        for _ in range(10):
            for path in generator.sample(sorted(self.files.glob("*.kv")), 6):
                self.damage(generator, path)
            server = self.serve("--kv-dir", self.files)
            self.ask_all(server, generator.sample(range(6), 6))
            torn += server.metric('kv_file_events_total{event="torn"}')
            self.wait_for("what was lost is written again", lambda s=server: s.metric("kv_file_blocks") == 12)
            self.assertEqual(server.stop(), 0)
        # Damages every file, so that the first request must read a damaged one.
        for path in self.files.glob("*.kv"):
            path.write_bytes(path.read_bytes()[:-1])
        server = self.serve("--kv-dir", self.files)
        self.ask_all(server, range(6))
        self.assertGreater(torn + server.metric('kv_file_events_total{event="torn"}'), 0)


if __name__ == "__main__":
    unittest.main(verbosity=1)
