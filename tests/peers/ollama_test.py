#!/usr/bin/env python3
"""The `ollama` package against `kvick serve`, and requests as Open WebUI and Continue send them.

The environment variables KVICK and MAKE_MODEL are the paths of the programs, PEERS is the folder for packages.
"""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from peer_packages import run_with_packages  # noqa: E402

if __name__ == "__main__":
    run_with_packages()

import ollama  # noqa: E402

from server_process import SECONDS, ServedTest  # noqa: E402

MESSAGES = [{"role": "user", "content": "Who are you?"}]
SHORT = {"temperature": 0, "num_predict": 24}
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 120},
                                           "name": {"type": "string", "maxLength": 6}},
          "required": ["age", "name"], "additionalProperties": False}


def weather(city: str) -> str:
    """The weather in a city.

    Args:
      city: its name
    """
    return city


class OllamaTest(ServedTest):
    MODEL = ("--layers", "2", "--dim", "64", "--ffn", "96", "--heads", "2", "--vocab", "512", "--context", "2048", "--type", "Q8_0")
    ALWAYS = ("--name", "made")

    def setUp(self):
        super().setUp()
        self.server = self.serve()
        self.client = ollama.Client(f"http://127.0.0.1:{self.server.port}", timeout=SECONDS)


class Client(OllamaTest):
    def test_a_stream_gives_the_same_text_as_a_whole_answer(self):
        whole = self.client.chat("made", MESSAGES, options=SHORT)
        self.assertEqual((whole.model, whole.done, whole.message.role), ("made", True, "assistant"))
        self.assertGreater(whole.prompt_eval_count, 0)
        self.assertLessEqual(whole.eval_count, 24)
        self.assertEqual(whole.total_duration, whole.prompt_eval_duration + whole.eval_duration)
        *pieces, last = self.client.chat("made:latest", MESSAGES, options=SHORT, stream=True)
        self.assertEqual("".join(piece.message.content for piece in pieces), whole.message.content)
        self.assertFalse(any(piece.done for piece in pieces))
        self.assertEqual((last.done, last.done_reason, last.eval_count), (True, whole.done_reason, whole.eval_count))

    def test_log_probabilities_are_reported(self):
        asked = {"options": {**SHORT, "num_predict": 3}, "logprobs": True, "top_logprobs": 2}
        whole = self.client.chat("made", MESSAGES, **asked)
        self.assertGreater(len(whole.logprobs), 0)
        for token in whole.logprobs:
            self.assertLessEqual(token.logprob, 0)
            self.assertEqual(len(token.top_logprobs), 2)
            self.assertGreaterEqual(token.top_logprobs[0].logprob, token.logprob)
        streamed = [token for piece in self.client.chat("made", MESSAGES, stream=True, **asked) for token in piece.logprobs or ()]
        self.assertEqual([token.token for token in streamed], [token.token for token in whole.logprobs])
        self.assertIsNone(self.client.chat("made", MESSAGES, options=SHORT).logprobs)

    def test_a_prompt_is_a_chat_or_raw(self):
        chat = self.client.chat("made", MESSAGES, options=SHORT)
        text = self.client.generate("made", MESSAGES[0]["content"], options=SHORT)
        self.assertEqual((text.response, text.prompt_eval_count), (chat.message.content, chat.prompt_eval_count))
        raw = self.client.generate("made", MESSAGES[0]["content"], raw=True, options=SHORT)
        self.assertLess(raw.prompt_eval_count, text.prompt_eval_count)
        _, same = self.server.post("/v1/completions", prompt=MESSAGES[0]["content"], temperature=0, max_tokens=24,
                                   repetition_penalty=1)
        plain = self.client.generate("made", MESSAGES[0]["content"], raw=True, options={**SHORT, "repeat_penalty": 1})
        self.assertEqual(plain.response, same["choices"][0]["text"])
        *pieces, last = self.client.generate("made", MESSAGES[0]["content"], raw=True, options=SHORT, stream=True)
        self.assertEqual("".join(piece.response for piece in pieces), raw.response)
        self.assertTrue(last.done)

    def test_an_answer_follows_its_schema(self):
        for seed in range(3):
            options = {"temperature": 1, "seed": seed}
            value = json.loads(self.client.chat("made", MESSAGES, format=SCHEMA, options=options).message.content)
            self.assertEqual(set(value), {"age", "name"})
            self.assertIn(value["age"], range(121))

    def test_tools_and_their_results_reach_the_model(self):
        bare = self.client.chat("made", MESSAGES, options=SHORT)
        offered = self.client.chat("made", MESSAGES, tools=[weather], options=SHORT)
        self.assertGreater(offered.prompt_eval_count, bare.prompt_eval_count)
        call = {"function": {"name": "weather", "arguments": {"city": "Paris"}}}
        told = [*MESSAGES, {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_name": "weather", "content": "sunny"}]
        self.assertGreater(self.client.chat("made", told, tools=[weather], options=SHORT).prompt_eval_count,
                           offered.prompt_eval_count)

    def test_an_empty_request_loads_the_model(self):
        self.assertEqual(self.client.generate("made").done_reason, "load")
        self.assertEqual(self.client.chat("made", []).done_reason, "load")
        self.assertEqual(self.client.generate("made", keep_alive=0).done_reason, "unload")

    def test_the_model_is_listed_and_shown(self):
        listed = self.client.list().models
        self.assertEqual([model.model for model in listed], ["made:latest"])
        self.assertEqual(listed[0].size, pathlib.Path(self.model).stat().st_size)
        self.assertEqual(listed[0].details.quantization_level, "Q8_0")
        show = self.client.show("made")
        self.assertEqual(show.modelinfo["general.architecture"], show.details.family)
        self.assertEqual(show.modelinfo[f"{show.details.family}.context_length"], 2048)
        self.assertEqual((show.details.format, show.capabilities), ("gguf", ["completion"]))
        running = self.client.ps().models
        self.assertEqual([(model.model, model.size_vram, model.context_length) for model in running],
                         [("made:latest", 0, 2048)])
        self.assertEqual(self.client.pull("made").status, "success")
        self.assertEqual([part.status for part in self.client.pull("made", stream=True)], ["success"])

    def test_errors_become_exceptions_of_the_package(self):
        cases = (
            (404, "kvick serve -m", lambda: self.client.chat("other", MESSAGES)),
            (404, "not found", lambda: self.client.show("other")),
            (404, "not found", lambda: self.client.pull("other")),
            (400, "only text", lambda: self.client.generate("made", "x", images=[b"\xff\xd8\xff"])),
            (400, "FIM", lambda: self.client.generate("made", "x", suffix="y")),
            (400, "options.temperature", lambda: self.client.generate("made", "x", options={"temperature": -1})),
            (400, "does not support thinking", lambda: self.client.chat("made", MESSAGES, think=True)),
            (400, "the context holds 2048", lambda: self.client.generate("made", "a b " * 5000, raw=True)),
        )
        for status, says, ask in cases:
            with self.subTest(says=says), self.assertRaises(ollama.ResponseError) as caught:
                ask()
            self.assertEqual(caught.exception.status_code, status)
            self.assertIn(says, caught.exception.error)
        with self.assertRaises(ollama.ResponseError) as caught:
            list(self.client.chat("other", MESSAGES, stream=True))
        self.assertEqual(caught.exception.status_code, 404)


class OtherClients(OllamaTest):
    """Requests of other clients of Ollama's API, sent without these clients."""

    def lines(self, path, body):
        connection = self.server.connect()
        self.addCleanup(connection.close)
        response = self.server.send(connection, "POST", path, body)
        self.assertEqual((response.status, response.headers["Content-Type"]), (200, "application/x-ndjson"))
        return response.headers["X-Kvick-Ignored-Fields"], [json.loads(line) for line in response]

    def test_open_webui(self):
        self.assertEqual(self.server.ask("GET", "/api/version")[0], 200)
        name = self.server.ask("GET", "/api/tags")[1]["models"][0]["model"]
        ignored, lines = self.lines("/api/chat", {
            "model": name, "messages": [{"role": "system", "content": "Be brief."}, *MESSAGES], "stream": True,
            "options": {"temperature": 0.7, "num_ctx": 4096, "num_predict": 16, "top_k": 20, "mirostat": 0}, "keep_alive": "5m"})
        self.assertEqual(ignored, "options.num_ctx")
        self.assertEqual({line["model"] for line in lines}, {name})
        self.assertEqual([line["done"] for line in lines], [False] * (len(lines) - 1) + [True])

    def test_continue(self):
        status, show = self.server.post("/api/show", name="made")
        self.assertEqual((status, show["parameters"]), (200, "num_ctx 2048"))
        ignored, lines = self.lines("/api/chat", {
            "model": "made", "messages": MESSAGES, "stream": True, "keep_alive": 1800,
            "options": {"num_predict": 16, "num_ctx": 2048, "stop": ["<|im_end|>"], "temperature": 0.5}})
        self.assertIsNone(ignored)
        self.assertTrue(lines[-1]["done"])
        ignored, lines = self.lines("/api/generate", {
            "model": "made", "prompt": "def f(", "raw": True, "stream": True, "keep_alive": 1800,
            "options": {"num_predict": 16, "temperature": 0.01, "stop": ["\n\n"]}})
        self.assertIsNone(ignored)
        self.assertIn(lines[-1]["done_reason"], ("stop", "length"))

    def test_curl_needs_no_content_type(self):
        connection = self.server.connect()
        self.addCleanup(connection.close)
        connection.request("POST", "/api/chat", json.dumps({"model": "made", "messages": MESSAGES, "stream": False}),
                           {"Content-Type": "application/x-www-form-urlencoded"})
        response = connection.getresponse()
        self.assertEqual(response.status, 200)
        self.assertTrue(json.loads(response.read())["done"])

    def test_requests_from_pages_of_other_sites_are_refused(self):
        connection = self.server.connect()
        self.addCleanup(connection.close)
        connection.request("POST", "/api/chat", json.dumps({"model": "made", "messages": MESSAGES}),
                           {"Content-Type": "text/plain", "Origin": "https://elsewhere.example"})
        self.assertEqual(connection.getresponse().status, 403)


if __name__ == "__main__":
    unittest.main(verbosity=1)
