#!/usr/bin/env python3
"""Tests `kvick serve` with the `openai` package and a real model. Run by hand:

    python3 -m venv build/openai && build/openai/bin/pip install openai
    KVICK=build/release/kvick build/openai/bin/python tests/peers/openai_client.py

The environment variable MODEL is the model (default: smollm2). Without the package it prints a line and exits with status 77.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

try:
    import openai
except ImportError:
    print("skipped: the package openai is not installed; run pip install openai in a virtual environment")
    sys.exit(77)

KVICK = os.environ["KVICK"]
MODEL = os.environ.get("MODEL", "smollm2")
MESSAGES = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "people": {"type": "integer"}},
          "required": ["city", "people"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather in a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"]}}}


class OpenAiClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        keys = pathlib.Path(folder.name) / "keys"
        keys.write_text("key-one\n")
        cls.server = subprocess.Popen([KVICK, "--json", "serve", "-m", MODEL, "--name", "served", "--port", "0",
                                       "--ctx", "1024", "--api-key-file", str(keys)], stdout=subprocess.PIPE)
        cls.addClassCleanup(cls.end_server)
        cls.base = f"http://127.0.0.1:{json.loads(cls.server.stdout.readline())['port']}"
        cls.client = cls.client_with("key-one")

    @classmethod
    def end_server(cls):
        cls.server.kill()
        cls.server.wait()
        cls.server.stdout.close()

    @classmethod
    def client_with(cls, key):
        client = openai.OpenAI(base_url=f"{cls.base}/v1", api_key=key, timeout=120, max_retries=0)
        cls.addClassCleanup(client.close)
        return client

    def chat(self, **more):
        return self.client.chat.completions.create(**{"model": "served", "messages": MESSAGES, "temperature": 0,
                                                      "max_tokens": 16, **more})

    def metric(self, name):
        request = urllib.request.Request(f"{self.base}/metrics", headers={"Authorization": "Bearer key-one"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"kvick_{name} "))

    def test_a_stream_gives_the_same_text_as_a_whole_answer(self):
        whole = self.chat()
        self.assertEqual(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens)
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
                         whole.choices[0].message.content)
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)

    def test_completions_and_models(self):
        answer = self.client.completions.create(model="served", prompt=["One two three", "A b c"], max_tokens=4, temperature=0)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1])
        self.assertEqual([model.id for model in self.client.models.list()], ["served"])
        self.assertEqual(self.client.models.retrieve("served").owned_by, "kvick")

    def test_several_answers_with_a_seed(self):
        first, again = (self.chat(n=4, temperature=1.5, seed=3) for _ in range(2))
        texts = [choice.message.content for choice in first.choices]
        self.assertEqual(len(texts), 4)
        self.assertGreater(len(set(texts)), 1)
        self.assertEqual([choice.message.content for choice in again.choices], texts)

    def test_logprobs(self):
        content = self.chat(logprobs=True, top_logprobs=3).choices[0].logprobs.content
        for token in content:
            self.assertEqual(token.logprob, token.top_logprobs[0].logprob)
            self.assertEqual(len(token.top_logprobs), 3)

    def test_stop(self):
        whole = self.chat().choices[0].message.content
        stopped = self.chat(stop=[whole[2:4]]).choices[0]
        self.assertEqual((stopped.message.content, stopped.finish_reason), (whole[:whole.index(whole[2:4])], "stop"))

    def test_a_schema(self):
        answer = self.chat(max_tokens=200, response_format={"type": "json_schema", "json_schema": {
            "name": "place", "strict": True, "schema": SCHEMA}}).choices[0].message.content
        self.assertEqual(set(json.loads(answer)), {"city", "people"})

    def test_a_required_tool_call(self):
        choice = self.chat(tools=[TOOL], tool_choice="required", max_tokens=200).choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        call = choice.message.tool_calls[0]
        self.assertEqual((call.type, call.function.name), ("function", "weather"))
        self.assertEqual(set(json.loads(call.function.arguments)), {"city"})
        # A message with calls is accepted as the package writes it, but for its content: a template without tools, such as
        # SmolLM2's, needs a string there.
        told = [*MESSAGES, {**choice.message.model_dump(exclude_none=True), "content": ""},
                {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
        self.assertEqual(len(self.chat(messages=told, tools=[TOOL]).choices), 1)

    def test_a_streamed_tool_call(self):
        with self.client.chat.completions.stream(model="served", messages=MESSAGES, tools=[TOOL], tool_choice="required",
                                                 max_tokens=200, temperature=0) as stream:
            kinds = [event.type for event in stream]
            message = stream.get_final_completion().choices[0].message
        self.assertEqual(kinds.count("tool_calls.function.arguments.done"), 1)
        self.assertEqual(message.tool_calls[0].function.name, "weather")

    def test_errors_become_exceptions_of_the_package(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(temperature=-1)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.NotFoundError):
            self.chat(model="other")
        with self.assertRaises(openai.AuthenticationError):
            self.client_with("key-two").models.list()

    def test_closing_a_stream_cancels_its_request(self):
        before = self.metric('jobs_total{end="cancelled"}')
        stream = self.chat(stream=True, max_tokens=900, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        until = time.monotonic() + 30
        while self.metric('jobs_total{end="cancelled"}') == before:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.1)


if __name__ == "__main__":
    unittest.main(verbosity=1)
