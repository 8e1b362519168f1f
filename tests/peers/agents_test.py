#!/usr/bin/env python3
"""Replays requests of agents and web interfaces (requests/*.json; clients/run.py records those of agents). Each must be answered with
status 200, and the fields that kvick ignores must be those that the fixture lists.

The environment variables KVICK and MAKE_MODEL are the paths of the programs.
"""

import json
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "cli"), str(HERE / "clients")]

from reduced import numberless  # noqa: E402
from server_process import ServedTest  # noqa: E402

# Agents do not limit the length of an answer, and this random model never ends one.
SHORT = {"/v1/chat/completions": {"max_tokens": 8}, "/v1/responses": {"max_output_tokens": 8}, "/v1/messages": {"max_tokens": 8}}
LAST = {"/v1/chat/completions": "[DONE]", "/v1/responses": "response.", "/v1/messages": "message_stop"}


class Agents(ServedTest):
    MODEL = ("--layers", "2", "--dim", "64", "--ffn", "96", "--heads", "2", "--vocab", "512", "--context", "32768", "--type", "Q8_0")
    ALWAYS = ("--name", "kvick", "--any-model")

    def setUp(self):
        super().setUp()
        self.server = self.serve()

    def body(self, path, given):
        if path.startswith("/api/") and isinstance(given, dict) and ("messages" in given or "prompt" in given):
            return {**given, "options": {**given.get("options", {}), "num_predict": 8}}
        return {**given, **SHORT[path]} if path in SHORT else given

    def check(self, request):
        path = request["path"].partition("?")[0]
        connection = self.server.connect()
        try:
            answer = self.server.send(connection, request["method"], request["path"], self.body(path, request["body"]),
                                      headers=request["headers"])
            lines = answer.read().decode().strip().splitlines()
        finally:
            connection.close()
        self.assertEqual(answer.status, 200, lines)
        self.assertEqual(numberless(answer.headers["X-Kvick-Ignored-Fields"]), request["ignored"])
        if request["body"] and request["body"].get("stream") and path in LAST:
            events = [line[6:] for line in lines if line.startswith("data: ")]
            self.assertIn(LAST[path], events[-1])
            for event in events:
                self.assertTrue(event == "[DONE]" or json.loads(event))
        else:
            for line in lines:
                json.loads(line)


for file in sorted((HERE / "requests").glob("*.json")):
    def test(self, file=file):
        for number, request in enumerate(json.loads(file.read_text())["requests"]):
            with self.subTest(request=number, path=request["path"]):
                self.check(request)
    setattr(Agents, f"test_{file.stem.replace('-', '_')}", test)

if __name__ == "__main__":
    unittest.main(verbosity=1)
