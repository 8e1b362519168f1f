#!/usr/bin/env python3
"""Conversations with tools through the `anthropic` package, whole and streamed. A model that repeats given answers (replay_model.py)
plays answers in the format of real models (conversations.py). Also stop reasons, cached tokens, errors and keys.

The environment variable KVICK is the path of the program, PEERS the folder for packages.
"""

import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
os.environ.setdefault("MAKE_MODEL", "")  # made_model.py reads it; not used here
from peer_packages import run_with_packages  # noqa: E402

if __name__ == "__main__":
    run_with_packages()

import anthropic  # noqa: E402

from conversations import FAMILIES, QUESTION, RESULTS  # noqa: E402
from conversations_test import SCHEMAS, Conversation  # noqa: E402
from server_process import Server  # noqa: E402

TOOLS = [{"name": name, "description": schema.__doc__, "input_schema": schema.model_json_schema()}
         for name, schema in SCHEMAS.items()]
ASKED = [{"role": "user", "content": QUESTION}]


def client_of(test, port, **key):
    client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{port}", timeout=60, max_retries=0, **(key or {"api_key": "none"}))
    test.addCleanup(client.close)
    return client


def parts_of(message):
    """The message's text, its thoughts, and the names and inputs of its calls."""
    texts = [block.text for block in message.content if block.type == "text"]
    thoughts = [block.thinking for block in message.content if block.type == "thinking"]
    return "".join(texts), "".join(thoughts), [(block.name, block.input) for block in message.content if block.type == "tool_use"]


class Family:
    """A model family of conversations.py on its own server, and a client of it."""

    def __init__(self, test, name):
        self.test, self.talk = test, Conversation(test, name)
        self.family = self.talk.family
        self.client = client_of(test, self.talk.server.port)

    def fields(self, messages, **extra):
        """The package no longer has a parameter for the temperature, so it is passed in extra_body."""
        return {"model": "served", "max_tokens": 400, "messages": messages, "tools": TOOLS,
                "extra_body": {"temperature": 0, **extra}}

    def said(self, answer, messages):
        """Lets the model give that answer, checks it whole and streamed, and returns the message."""
        fields = self.fields(messages, logit_bias=self.talk.replay.begins[self.talk.answers.index(answer)])
        message = self.client.messages.create(**fields)
        with self.client.messages.stream(**fields) as stream:
            streamed = stream.get_final_message()
        counted = self.client.messages.count_tokens(model="served", messages=messages, tools=TOOLS)
        test = self.test
        test.assertEqual(parts_of(message), (answer.content, answer.reasoning, list(answer.calls)))
        test.assertEqual(message.stop_reason, "tool_use" if answer.calls else "end_turn")
        test.assertEqual((parts_of(streamed), streamed.stop_reason), (parts_of(message), message.stop_reason))
        test.assertEqual([block.type for block in streamed.content], [block.type for block in message.content])
        for one in (message, streamed):
            test.assertEqual(one.usage.input_tokens + one.usage.cache_read_input_tokens, counted.input_tokens)
            test.assertEqual(one.usage.output_tokens, message.usage.output_tokens)
        return message


class Conversations(unittest.TestCase):
    def check(self, name):
        family = Family(self, name)
        for answer in filter(None, [family.family.call, family.family.both]):
            message = family.said(answer, ASKED)
            calls = [block for block in message.content if block.type == "tool_use"]
            # Clients send all results in one message.
            results = [{"type": "tool_result", "tool_use_id": call.id, "content": RESULTS[call.name]} for call in calls]
            family.said(family.family.last, [*ASKED, {"role": "assistant", "content": message.content},
                                             {"role": "user", "content": results}])
        for choice in ({"type": "any"}, {"type": "tool", "name": "get_time"}):
            message = family.client.messages.create(tool_choice=choice, **family.fields(ASKED, temperature=1, seed=1))
            self.assertEqual(message.stop_reason, "tool_use")
            (call,) = message.content
            self.assertEqual(call.name, choice.get("name", call.name))
            SCHEMAS[call.name].model_validate_json(json.dumps(call.input), strict=True)


# A family without thoughts, one with thoughts, one with channels, and one whose template requires call ids of nine characters.
for family_name in ("qwen2.5", "smollm3", "gpt_oss", "mistral_v3"):
    assert family_name in FAMILIES
    setattr(Conversations, f"test_{family_name}", lambda self, name=family_name: self.check(name))


class Requests(unittest.TestCase):
    def setUp(self):
        self.family = Family(self, "qwen2.5")
        self.client = self.family.client
        self.last = self.family.fields(ASKED, logit_bias=self.family.talk.replay.begins[
            self.family.talk.answers.index(self.family.family.last)])
        self.text = self.family.family.last.content

    def test_the_stop_reason_is_reported(self):
        word = self.text.split()[-1]
        stopped = self.client.messages.create(stop_sequences=[word], **self.last)
        self.assertEqual((stopped.stop_reason, stopped.stop_sequence), ("stop_sequence", word))
        self.assertEqual(parts_of(stopped)[0], self.text[:self.text.index(word)])
        cut = self.client.messages.create(**{**self.last, "max_tokens": 1})
        self.assertEqual((cut.stop_reason, cut.usage.output_tokens), ("max_tokens", 1))
        self.assertIsNone(cut.stop_sequence)

    def test_cached_tokens_are_counted_separately(self):
        first, again = (self.client.messages.create(**self.last).usage for _ in range(2))
        self.assertGreater(again.cache_read_input_tokens, 0)
        self.assertEqual(again.input_tokens + again.cache_read_input_tokens, first.input_tokens + first.cache_read_input_tokens)

    def test_fields_of_the_beta_api_are_accepted(self):
        """Also fields that Claude Code sends with each request."""
        message = self.client.beta.messages.create(
            betas=["context-management-2025-06-27"], thinking={"type": "disabled"}, metadata={"user_id": "u"}, **self.last,
            system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}])
        self.assertEqual(message.content[0].text, self.text)

    def test_the_models_are_listed(self):
        (model,) = self.client.models.list()
        self.assertEqual((model.type, model.id, model.display_name), ("model", "served", "served"))
        self.assertGreater(model.created_at.year, 2024)
        self.assertGreater(model.max_input_tokens, 0)
        self.assertEqual(self.client.models.retrieve("served"), model)

    def test_errors_become_exceptions_of_the_package(self):
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.client.messages.create(**{**self.last, "messages": [{"role": "user", "content": ""}]})
        self.assertEqual(caught.exception.body["error"]["type"], "invalid_request_error")
        self.assertIn("messages[0].content", caught.exception.body["error"]["message"])
        with self.assertRaises(anthropic.NotFoundError):
            self.client.messages.create(**{**self.last, "model": "other"})
        with self.assertRaises(anthropic.BadRequestError):
            self.client.messages.count_tokens(model="served", messages=[])

    def test_the_key_may_be_in_either_header(self):
        talk = self.family.talk
        keys = talk.top / "keys"
        keys.write_text("key-one\n")
        environment = {"PATH": os.environ["PATH"], "HOME": str(talk.top), "XDG_CACHE_HOME": str(talk.top / "cache")}
        server = Server(talk.top, environment, talk.top / "model.gguf", "--name", "served", "--api-key-file", keys)
        self.addCleanup(server.kill)
        asked = {"model": "served", "messages": ASKED}
        for key in ({"api_key": "key-one"}, {"auth_token": "key-one"}):
            self.assertGreater(client_of(self, server.port, **key).messages.count_tokens(**asked).input_tokens, 0)
        status, counted = server.ask("POST", "/v1/messages/count_tokens", asked, headers={"x-api-key": "key-one"})
        self.assertEqual(status, 200, counted)
        with self.assertRaises(anthropic.AuthenticationError):
            client_of(self, server.port, api_key="key-two").messages.count_tokens(**asked)


if __name__ == "__main__":
    unittest.main(verbosity=1)
