#!/usr/bin/env python3
"""Two `kvick serve` behind vLLM's router and behind the SGLang gateway, with each policy of the router. The client is the `openai`
package. The servers run with --strict-fields: they refuse requests with unknown fields.

    KVICK=build/release/kvick KVICK_TEST_MODEL=MODEL.gguf PEERS=build/release/peers tests/peers/router_test.py

PEERS is the folder for packages from PyPI. Without KVICK_TEST_MODEL, or if PyPI cannot be reached, it prints the reason and exits
with status 77.
"""

import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

MODEL = os.environ.get("KVICK_TEST_MODEL", "")
SECONDS = 60  # time limit of each wait


sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from peer_packages import run_with_packages, skip  # noqa: E402

if not MODEL:
    skip("KVICK_TEST_MODEL is not set")
PYTHON = run_with_packages()

import openai  # noqa: E402
from server_process import Server  # noqa: E402

MESSAGES = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}, "old": {"type": "boolean"}},
          "required": ["city", "old"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather in a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 8}}, "required": ["city"],
    "additionalProperties": False}}}


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Router:
    """A router on a free port. Another process may take the port first, so up to three ports are tried."""

    def __init__(self, module, policy, workers, log, key):
        for _ in range(3):
            port, prometheus = free_ports(2)
            self.url, self.key = f"http://127.0.0.1:{port}", key
            self.process = subprocess.Popen(
                [PYTHON, "-m", f"{module}.launch_router", "--host", "127.0.0.1", "--port", str(port), "--policy", policy,
                 "--prometheus-host", "127.0.0.1", "--prometheus-port", str(prometheus), "--disable-retries",
                 "--worker-startup-timeout-secs", "30", "--worker-startup-check-interval", "1",
                 *(("--api-key", key) if key else ()),
                 "--worker-urls", *(f"http://127.0.0.1:{worker.port}" for worker in workers)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self.client = openai.OpenAI(base_url=f"{self.url}/v1", api_key=key or "none", timeout=SECONDS, max_retries=0)
            if self.ready(len(workers)):
                return
            self.end()
        raise AssertionError(f"{module} did not start, see its log: {pathlib.Path(log.name).read_text()[-4000:]}")

    def get(self, path):
        request = urllib.request.Request(f"{self.url}{path}", headers={"Authorization": f"Bearer {self.key}"} if self.key else {})
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.load(answer)

    def loads(self):
        return [one["load"] for one in self.get("/get_loads")["workers"]]

    def ready(self, workers):
        until = time.monotonic() + SECONDS
        while self.process.poll() is None and time.monotonic() < until:
            try:
                if len(self.loads()) == workers and self.get("/v1/models"):
                    return True
            except (OSError, ValueError, http.client.HTTPException):
                pass
            time.sleep(0.1)
        return False

    def end(self):
        self.client.close()
        self.process.kill()
        self.process.wait()


class Routers(unittest.TestCase):
    MODULE = POLICIES = FORM = KEY = PREFIX = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        top = pathlib.Path(folder.name)
        cls.log = open(top / "router.log", "ab")
        cls.addClassCleanup(cls.log.close)
        env = {**os.environ, "XDG_CACHE_HOME": str(top)}
        (top / "keys").write_text(f"{cls.KEY}\n")
        keys = ("--api-key-file", top / "keys") if cls.KEY else ()
        cls.workers = []
        for _ in range(2):
            cls.workers.append(Server(top, env, MODEL, "--name", "served", "--ctx", 512, "--strict-fields", "--router", cls.FORM, *keys))
            cls.addClassCleanup(cls.workers[-1].kill)

    def with_each_policy(self, check):
        for policy in self.POLICIES:
            with self.subTest(policy=policy):
                router = Router(self.MODULE, policy, self.workers, self.log, self.KEY)
                try:
                    check(router)
                finally:
                    router.end()

    def chat(self, router, **more):
        return router.client.chat.completions.create(**{"model": "served", "messages": MESSAGES, "temperature": 0,
                                                        "max_tokens": 8, **more})

    def check_answers(self, router):
        models = router.get("/v1/models")  # without the package, because the gateway's answer is not application/json
        self.assertEqual({model["id"] for model in models["data"]}, {"served"})
        raw = router.client.chat.completions.with_raw_response.create(model="served", messages=MESSAGES, temperature=0, max_tokens=8)
        self.assertNotIn("x-kvick-ignored-fields", raw.headers)
        whole = raw.parse()
        self.assertEqual((whole.model, whole.usage.completion_tokens <= 8), ("served", True))
        *chunks, last = self.chat(router, stream=True, stream_options={"include_usage": True})
        self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in chunks), whole.choices[0].message.content)
        self.assertEqual(last.usage.completion_tokens, whole.usage.completion_tokens)
        text = router.client.completions.create(model="served", prompt="One two three", max_tokens=4, temperature=0, seed=1)
        self.assertEqual((text.choices[0].finish_reason, text.usage.completion_tokens), ("length", 4))
        nameless = router.client.post("/chat/completions", body={"messages": MESSAGES, "max_tokens": 8, "temperature": 0}, cast_to=object)
        self.assertEqual(nameless["choices"][0]["message"]["content"], whole.choices[0].message.content)

    def check_forms(self, router):
        choice = self.chat(router, max_tokens=100, response_format={"type": "json_schema", "json_schema": {
            "name": "place", "strict": True, "schema": SCHEMA}}).choices[0]
        self.assertEqual((choice.finish_reason, set(json.loads(choice.message.content))), ("stop", {"city", "old"}))
        choice = self.chat(router, max_tokens=100, tools=[TOOL], tool_choice="required").choices[0]
        self.assertEqual((choice.finish_reason, choice.message.content), ("tool_calls", None))
        call = choice.message.tool_calls[0].function
        self.assertEqual((call.name, set(json.loads(call.arguments))), ("weather", {"city"}))
        chunks = list(self.chat(router, max_tokens=100, tools=[TOOL], stream=True, tool_choice={
            "type": "function", "function": {"name": "weather"}}))
        streamed = [made.function for chunk in chunks for made in chunk.choices[0].delta.tool_calls or ()]
        self.assertEqual([made.name for made in streamed], ["weather"])
        self.assertEqual(chunks[-1].choices[0].finish_reason, "tool_calls")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(router, messages=[{"role": "user", "content": "a b " * 600}])
        self.assertEqual(caught.exception.code, "context_length_exceeded")

    def check_headers(self, router):
        """Headers that choose the cache reach the server, and the request id comes back."""
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(router, extra_headers={f"{self.PREFIX}-Kv": "nonsense"})
        self.assertEqual(caught.exception.param, "kv")
        raw = router.client.chat.completions.with_raw_response.create(
            model="served", messages=MESSAGES, temperature=0, max_tokens=8,
            extra_headers={f"{self.PREFIX}-Kv-Type": "q8", "X-Request-Id": "name-of-it"})
        self.assertEqual(raw.headers["x-request-id"], "name-of-it")
        self.assertLessEqual(raw.parse().usage.completion_tokens, 8)

    def check_fields(self, router):
        """Fields of vLLM that both routers forward."""
        whole = self.chat(router)
        first = router.client.post("/completions", body={"model": "served", "prompt": "One two three", "max_tokens": 4,
                                                         "temperature": 0, "return_token_ids": True}, cast_to=object)
        ids = first["choices"][0]["token_ids"]
        self.assertEqual(len(ids), 4)
        stopped = router.client.completions.create(model="served", prompt="One two three", max_tokens=4, temperature=0,
                                                   extra_body={"stop_token_ids": [ids[1]]})
        self.assertEqual((stopped.choices[0].finish_reason, stopped.usage.completion_tokens), ("stop", ids.index(ids[1])))
        longer = self.chat(router, extra_body={"min_tokens": 16}, max_tokens=16)
        self.assertEqual(longer.usage.completion_tokens, 16)
        head = whole.choices[0].message.content[:2]
        on = self.chat(router, messages=[*MESSAGES, {"role": "assistant", "content": head}],
                       extra_body={"continue_final_message": True, "add_generation_prompt": False})
        self.assertLess(on.usage.prompt_tokens, whole.usage.prompt_tokens + 16)

    def test_each_policy_works(self):
        def check(router):
            self.check_answers(router)
            self.check_forms(router)
            self.check_headers(router)
            self.check_fields(router)
            self.assertTrue(all(load >= 0 for load in router.loads()), router.loads())  # -1: the router could not read the load

        self.with_each_policy(check)
        for worker in self.workers:
            _, metrics = worker.ask("GET", "/metrics", key=self.KEY)
            self.assertRegex(metrics, r'\nkvick_jobs_total\{end="finished"\} [1-9]')


class VllmRouter(Routers):
    MODULE, FORM = "vllm_router", "vllm"
    POLICIES = ("round_robin", "random", "consistent_hash", "power_of_two", "cache_aware", "sticky_least_loaded")
    PREFIX = "X-Kvick"


class SglangGateway(Routers):
    MODULE, FORM, KEY = "sglang_router", "sglang", "key-one"  # vLLM's router sends no key when it asks for the load
    POLICIES = ("round_robin", "random", "cache_aware", "power_of_two", "manual")
    PREFIX = "X-Request-Id-Kvick"


del Routers  # the base class is not a test

if __name__ == "__main__":
    unittest.main(verbosity=1)
