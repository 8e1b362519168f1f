#!/usr/bin/env python3
"""OpenAI's Responses API in `kvick serve`: events, continued conversations, and a request as Codex CLI sends it."""

import json
import pathlib
import unittest

from server_process import ServedTest

MODEL = ("--layers", "2", "--dim", "64", "--ffn", "96", "--heads", "2", "--vocab", "512", "--context", "8192", "--type", "Q8_0")
GREEDY = {"temperature": 0, "ignore_eos": True}
CODEX = json.loads((pathlib.Path(__file__).parent / "codex_request.json").read_text())
FLIP = {"type": "function", "name": "flip", "strict": True, "parameters": {
    "type": "object", "properties": {"heads": {"type": "boolean"}}, "required": ["heads"], "additionalProperties": False}}


def text_of(response):
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])


class ResponsesTest(ServedTest):
    MODEL = MODEL
    ALWAYS = ("--name", "made")

    def respond(self, server, key=None, **body):
        status, response = server.post("/v1/responses", key, **{"max_output_tokens": 16, **GREEDY, **body})
        self.assertEqual(status, 200, response)
        return response

    def events(self, server, headers=None, **body):
        """(events of a stream, response headers). Checks that each event has its type as a name and a rising sequence number."""
        connection = server.connect()
        try:
            answer = server.send(connection, "POST", "/v1/responses", {**body, "stream": True}, headers=headers)
            self.assertEqual(answer.status, 200, answer.read() if answer.status != 200 else "")
            names, events = [], []
            for line in answer:
                if line.startswith(b"event: "):
                    names.append(line[7:].strip().decode())
                if line.startswith(b"data: "):
                    events.append(json.loads(line[6:]))
        finally:
            connection.close()
        self.assertEqual(names, [event["type"] for event in events])
        self.assertEqual([event["sequence_number"] for event in events], list(range(len(events))))
        return events, answer.headers


class Answers(ResponsesTest):
    def setUp(self):
        super().setUp()
        self.server = self.serve()

    def test_a_stream_gives_the_same_text_as_a_whole_answer(self):
        whole = self.respond(self.server, input="Who are you?")
        events, _ = self.events(self.server, input="Who are you?", max_output_tokens=16, **GREEDY)
        deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
        last = events[-1]["response"]
        self.assertEqual("".join(deltas), text_of(whole))
        self.assertEqual(text_of(last), text_of(whole))
        self.assertEqual((whole["status"], last["status"], events[-1]["type"]),
                         ("incomplete", "incomplete", "response.incomplete"))
        self.assertEqual(last["usage"]["output_tokens"], 16)
        self.assertEqual(last["usage"]["input_tokens"], whole["usage"]["input_tokens"])
        self.assertEqual(self.server.ask("GET", f"/v1/responses/{last['id']}"), (200, last))

    def test_the_answer_equals_that_of_the_chat_api(self):
        messages = [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Who are you?"}]
        status, chat = self.server.post("/v1/chat/completions", messages=messages, max_tokens=16, **GREEDY)
        self.assertEqual(status, 200, chat)
        response = self.respond(self.server, instructions="Be brief", input="Who are you?")
        self.assertEqual(text_of(response), chat["choices"][0]["message"]["content"])
        self.assertEqual(response["usage"]["input_tokens"], chat["usage"]["prompt_tokens"])

    def test_a_continued_conversation_equals_one_that_is_sent_whole(self):
        first = self.respond(self.server, input="One", instructions="old")
        two = "Two " * 50  # longer than a block of the prefix cache
        second = self.respond(self.server, input=two, previous_response_id=first["id"])
        sent = [{"role": "user", "content": "One"}, *first["output"], {"role": "user", "content": two}]
        self.assertEqual(text_of(second), text_of(self.respond(self.server, input=sent)))
        status, items = self.server.ask("GET", f"/v1/responses/{second['id']}/input_items?order=asc")
        self.assertEqual((status, [item["role"] for item in items["data"]]), (200, ["user", "assistant", "user"]))
        self.assertEqual(items["data"][1], first["output"][0])
        self.assertEqual(self.server.ask("DELETE", f"/v1/responses/{first['id']}")[0], 200)
        self.assertEqual(self.server.ask("GET", f"/v1/responses/{first['id']}")[0], 404)
        third = self.respond(self.server, input="Three", previous_response_id=second["id"])
        self.assertGreater(third["usage"]["input_tokens_details"]["cached_tokens"], 0)
        status, error = self.server.post("/v1/responses", input="x", previous_response_id=first["id"])
        self.assertEqual((status, error["error"]["code"]), (400, "previous_response_not_found"))

    def test_a_forced_call_and_its_output(self):
        question = {"role": "user", "content": "Heads?"}
        asked = {"tools": [FLIP], "tool_choice": {"type": "function", "name": "flip"}, "max_output_tokens": 200}
        response = self.respond(self.server, input=[question], ignore_eos=False, **asked)
        self.assertEqual([item["type"] for item in response["output"]], ["function_call"])
        call = response["output"][0]
        self.assertEqual(set(json.loads(call["arguments"])), {"heads"})
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "yes"}
        sent = self.respond(self.server, input=[question, call, output], tools=[FLIP])
        kept = self.respond(self.server, input=[output], tools=[FLIP], previous_response_id=response["id"])
        self.assertEqual(text_of(sent), text_of(kept))
        events, _ = self.events(self.server, input=[question], temperature=0, **asked)
        done = [event for event in events if event["type"] == "response.function_call_arguments.done"]
        self.assertEqual([json.loads(event["arguments"]) for event in done], [json.loads(call["arguments"])])
        self.assertEqual(events[-1]["type"], "response.completed")

    def test_an_answer_follows_its_schema(self):
        form = {"type": "json_schema", "name": "flip", "strict": True, "schema": FLIP["parameters"]}
        response = self.respond(self.server, input="Heads?", text={"format": form}, ignore_eos=False, max_output_tokens=200)
        self.assertEqual((response["status"], set(json.loads(text_of(response)))), ("completed", {"heads"}))

    def test_a_request_of_codex_is_accepted(self):
        events, headers = self.events(self.server, **CODEX, max_output_tokens=8, **GREEDY)
        self.assertEqual(events[-1]["response"]["usage"]["output_tokens"], 8)
        self.assertEqual([event["type"] for event in events[:3]],
                         ["response.created", "response.in_progress", "response.output_item.added"])
        ignored = headers["X-Kvick-Ignored-Fields"].split(", ")
        self.assertEqual(ignored, ["tools[2].custom", "tools[3].web_search"])

    def test_unsupported_requests_are_refused(self):
        image = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]}]
        for body, param in (({"input": image}, "input[0].content[0].type"),
                            ({"input": "x", "background": True}, "background"),
                            ({"input": "x", "conversation": "conv_1"}, "conversation"),
                            ({"input": "x", "tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}}, "tool_choice"),
                            ({"input": "word " * 9000}, "input"),
                            ({}, "input")):
            status, error = self.server.post("/v1/responses", **body)
            self.assertEqual((status, error["error"]["param"]), (400, param), error)


class Store(ResponsesTest):
    def test_only_the_key_of_a_response_can_read_it(self):
        keys = self.top / "keys"
        keys.write_text("one\ntwo\n")
        server = self.serve("--api-key-file", keys)
        response = self.respond(server, key="one", input="x")
        self.assertEqual(server.ask("GET", f"/v1/responses/{response['id']}", key="one")[0], 200)
        self.assertEqual(server.ask("GET", f"/v1/responses/{response['id']}", key="two")[0], 404)

    def test_newer_responses_replace_the_oldest(self):
        server = self.serve("--response-store-mb", 1)
        text = "x" * 3000
        ids = [self.respond(server, input=text, max_output_tokens=1, metadata={"long": "y" * 200_000})["id"] for _ in range(8)]
        found = [server.ask("GET", f"/v1/responses/{one}")[0] for one in ids]
        self.assertEqual(found, sorted(found, reverse=True))  # 404s, then 200s
        self.assertEqual((found[0], found[-1]), (404, 200))

    def test_the_store_may_be_switched_off(self):
        server = self.serve("--response-store-mb", 0)
        response = self.respond(server, input="x")
        self.assertFalse(response["store"])
        self.assertEqual(server.ask("GET", f"/v1/responses/{response['id']}")[0], 404)
        status, error = server.post("/v1/responses", input="x", previous_response_id=response["id"])
        self.assertEqual(status, 400)
        self.assertIn("--response-store-mb", error["error"]["message"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
