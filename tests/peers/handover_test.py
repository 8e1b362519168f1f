#!/usr/bin/env python3
"""vLLM's router with disaggregated prefill: one `kvick serve` prefills prompts, another decodes the answers, and the rows are
passed through Redis.

    KVICK=build/release/kvick MAKE_MODEL=... PEERS=build/release/peers tests/peers/handover_test.py

Without PyPI or Redis it prints the reason and exits with status 77.
"""

import json
import pathlib
import subprocess
import sys
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from peer_packages import install, skip  # noqa: E402
from redis_process import PROGRAM, Redis, free_port  # noqa: E402
from server_process import SECONDS, ServedTest  # noqa: E402

PACKAGES = ["vllm-router==0.1.17"]


class Handover(ServedTest):
    MODEL = ("--layers", "2", "--dim", "64", "--ffn", "96", "--heads", "2", "--vocab", "512", "--context", "2048", "--type", "Q8_0")
    ALWAYS = ("--name", "served")

    def route(self, prefill, decode):
        for _ in range(3):  # another process may take the ports first
            port, prometheus = free_port(), free_port()
            log = open(self.top / "router.log", "ab")
            router = subprocess.Popen(
                [PYTHON, "-m", "vllm_router.launch_router", "--host", "127.0.0.1", "--port", str(port), "--policy", "round_robin",
                 "--prometheus-host", "127.0.0.1", "--prometheus-port", str(prometheus), "--vllm-pd-disaggregation",
                 "--prefill", f"http://127.0.0.1:{prefill.port}", "--decode", f"http://127.0.0.1:{decode.port}",
                 "--worker-startup-check-interval", "1"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            log.close()
            self.addCleanup(router.wait)
            self.addCleanup(router.kill)
            until = time.monotonic() + SECONDS
            while router.poll() is None and time.monotonic() < until:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=SECONDS).close()
                    return f"http://127.0.0.1:{port}"
                except OSError:
                    time.sleep(0.1)
        raise AssertionError((self.top / "router.log").read_text()[-4000:])

    def post(self, url, **body):
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return answer.read().decode()

    def test_one_server_prefills_and_another_decodes(self):
        redis = Redis(self.top)
        self.addCleanup(redis.stop)
        prefill, decode = (self.serve("--kv-store", redis.url) for _ in range(2))
        alone, router = self.serve(), self.route(prefill, decode)
        # The router reports healthy shortly before it splits prefill and decode.
        until = time.monotonic() + SECONDS
        while decode.metric('handovers_total{end="taken"}') == 0:
            self.assertLess(time.monotonic(), until, (self.top / "router.log").read_text()[-4000:])
            self.post(f"{router}/v1/completions", model="served", prompt=f"{time.monotonic()}", max_tokens=2)
        given, taken = prefill.metric('handovers_total{end="given"}'), decode.metric('handovers_total{end="taken"}')
        for i in range(4):
            body = {"model": "served", "messages": [{"role": "user", "content": f"{i}: who are you? " * 20}], "max_tokens": 12,
                    "temperature": 0}
            answer = json.loads(self.post(f"{router}/v1/chat/completions", **body))
            status, right = alone.post("/v1/chat/completions", **body)
            self.assertEqual(status, 200)
            self.assertEqual(answer["choices"][0]["message"], right["choices"][0]["message"])
            # Counted by metrics, because the router replaces the usage by the prefill server's cached tokens. One handover for this answer
            # and one for each earlier answer and stream.
            self.assertEqual(decode.metric('handovers_total{end="taken"}') - taken, 2 * i + 1)
            events = self.post(f"{router}/v1/chat/completions", stream=True, **body)
            pieces = [json.loads(line[6:]) for line in events.splitlines() if line.startswith("data: {")]
            self.assertEqual("".join(piece["choices"][0]["delta"].get("content", "") for piece in pieces),
                             right["choices"][0]["message"]["content"])
        self.assertEqual(prefill.metric('handovers_total{end="given"}') - given, 8)
        self.assertEqual(decode.metric('handovers_total{end="taken"}') - taken, 8)
        redis.stop()
        answer = json.loads(self.post(f"{router}/v1/chat/completions", **body))
        self.assertEqual(answer["choices"][0]["message"], right["choices"][0]["message"])


if __name__ == "__main__":
    if PROGRAM is None:
        skip("neither redis-server nor valkey-server is installed (scripts/setup test)")
    PYTHON = install("handover", PACKAGES)
    unittest.main(verbosity=1)
