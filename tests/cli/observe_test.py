#!/usr/bin/env python3
"""Observability of `kvick serve`: its log, /debug/requests, traces and crash reports."""

import http.server
import json
import os
import re
import signal
import threading
import time
import unittest

from made_model import KVICK
from server_process import SECONDS, ServedTest

MODEL = ("--layers", "2", "--dim", "64", "--ffn", "96", "--heads", "2", "--vocab", "512", "--context", "2048", "--type", "Q8_0")


class Collector(http.server.ThreadingHTTPServer):
    """Collects traces on a free port. `spans` has the received spans."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Collector.Handler)
        self.spans, self.came = [], threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            for resource in body["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    self.server.spans += scope["spans"]
            self.send_response(200 if self.path == "/v1/traces" else 404)
            self.end_headers()
            self.wfile.write(b"{}")
            self.server.came.set()

        def log_message(self, *arguments):
            pass


class Observe(ServedTest):
    MODEL = MODEL
    ALWAYS = ("--name", "made")

    def log(self):
        return (self.top / "serve.log").read_text()

    def wait_for_requests(self, count):
        """Waits for the log lines of `count` requests, because they are written after the responses are sent."""
        until = time.monotonic() + SECONDS
        while self.log().count('"event":"request"') < count:
            self.assertLess(time.monotonic(), until, self.log())
            time.sleep(0.01)

    def test_the_log_has_a_json_line_per_event_and_no_prompts_or_answers(self):
        server = self.serve("--log-format", "json", "--debug")
        status, answer = server.ask("POST", "/v1/completions", {"prompt": "SECRET words", "max_tokens": 4, "ignore_eos": True},
                                    headers={"X-Request-Id": "mine"})
        self.assertEqual(status, 200, answer)
        self.assertEqual(server.post("/v1/completions", prompt="a", temperature="SECRET")[0], 400)
        self.wait_for_requests(2)
        self.assertIn("mine", [one["id"] for one in server.ask("GET", "/debug/requests")[1]["ended"]])
        self.assertEqual(server.stop(), 0)
        lines = [json.loads(line) for line in self.log().splitlines()]
        self.assertEqual([line["event"] for line in lines if line["event"] != "model"], ["start", "request", "request", "drain"], lines)
        good, bad = sorted((line for line in lines if line["event"] == "request"), key=lambda line: line["status"])
        self.assertEqual((good["id"], good["status"], good["model"], good["answer_tokens"], good["finish"], good["client"]),
                         ("mine", 200, "made", 4, "length", "127.0.0.1"))
        self.assertGreaterEqual(good["total_ms"], good["first_token_ms"])
        self.assertEqual((bad["status"], bad["error_field"]), (400, "temperature"))
        self.assertNotIn("SECRET", self.log())
        self.assertNotIn(answer["choices"][0]["text"], self.log())

    def test_a_request_is_a_trace(self):
        collector = Collector()
        self.addCleanup(collector.server_close)
        self.addCleanup(collector.shutdown)
        server = self.serve("--otlp", f"http://127.0.0.1:{collector.server_address[1]}")
        trace = "0af7651916cd43dd8448eb211c80319c"
        server.ask("POST", "/v1/completions", {"prompt": "a b c d", "max_tokens": 4, "ignore_eos": True},
                   headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
        self.assertTrue(collector.came.wait(SECONDS))
        self.assertEqual([span["name"] for span in collector.spans], ["POST /v1/completions", "queue", "prompt", "answer"])
        self.assertEqual({span["traceId"] for span in collector.spans}, {trace})
        for span in collector.spans:
            self.assertLessEqual(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]), span)

    def test_wrong_options_are_refused(self):
        for option, value in ("--otlp", "https://collector"), ("--log-level", "loud"):
            self.refused(option, value, says=option)

    def test_a_crash_report_has_the_place_and_the_requests(self):
        server = self.serve()
        stream = server.events("/v1/completions", prompt="a", max_tokens=1500, ignore_eos=True)
        next(stream)
        server.process.send_signal(signal.SIGSEGV)
        status = server.process.wait(SECONDS)
        stream.close()
        if "Sanitizer:" in self.log():
            self.skipTest("with a sanitizer, the sanitizer reports crashes")
        self.assertEqual(status, -signal.SIGSEGV)
        self.assertRegex(self.log(), r"(?m)^kvick crashed: version \S+.*, build [0-9a-f]*$")
        self.assertRegex(self.log(), r"(?m)^signal SIGSEGV")
        frames = re.findall(r"(?m)^  (/\S+)\+(0x[0-9a-f]+)$", self.log())
        self.assertIn(os.path.realpath(KVICK), [module for module, _ in frames], self.log())
        self.assertTrue(self.log().endswith("end of the crash report\n"))


if __name__ == "__main__":
    unittest.main()
