#!/usr/bin/env python3
"""The Responses API through the `openai` package and OpenAI's Agents SDK, which uses it by default.

The environment variables KVICK and MAKE_MODEL are the paths of the programs, PEERS is the folder for packages.
"""

import asyncio
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from peer_packages import run_with_packages  # noqa: E402

if __name__ == "__main__":
    run_with_packages()

import agents  # noqa: E402
import openai  # noqa: E402
import pydantic  # noqa: E402

from server_process import SECONDS, ServedTest  # noqa: E402

GREEDY = {"model": "made", "temperature": 0, "max_output_tokens": 200}


class Flip(pydantic.BaseModel):
    heads: bool


class PackageTest(ServedTest):
    MODEL = ("--layers", "2", "--dim", "64", "--ffn", "96", "--heads", "2", "--vocab", "512", "--context", "4096", "--type", "Q8_0")
    ALWAYS = ("--name", "made")

    def setUp(self):
        super().setUp()
        self.server = self.serve()
        self.where = {"base_url": f"http://127.0.0.1:{self.server.port}/v1", "api_key": "none", "timeout": SECONDS,
                      "max_retries": 0}


class OpenAi(PackageTest):
    def setUp(self):
        super().setUp()
        self.client = openai.OpenAI(**self.where)
        self.addCleanup(self.client.close)

    def test_a_response_can_be_streamed_retrieved_and_deleted(self):
        asked = {**GREEDY, "max_output_tokens": 16, "input": "Who are you?", "extra_body": {"ignore_eos": True}}
        whole = self.client.responses.create(**asked)
        self.assertEqual((whole.status, whole.incomplete_details.reason), ("incomplete", "max_output_tokens"))
        events = list(self.client.responses.create(**asked, stream=True))
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        self.assertEqual(text, whole.output_text)
        self.assertEqual(events[-1].response.output_text, whole.output_text)
        again = self.client.responses.retrieve(whole.id)
        self.assertEqual(again.output_text, whole.output_text)
        items = list(self.client.responses.input_items.list(whole.id, limit=1))
        self.assertEqual([item.content[0].text for item in items], ["Who are you?"])
        self.client.responses.delete(whole.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(whole.id)
        with self.assertRaises(openai.BadRequestError) as refused:
            self.client.responses.create(**GREEDY, input="x", previous_response_id=whole.id)
        self.assertEqual(refused.exception.code, "previous_response_not_found")

    def test_parsed_answers_and_calls_follow_their_models(self):
        parsed = self.client.responses.parse(**GREEDY, input="Heads?", text_format=Flip)
        self.assertIsInstance(parsed.output_parsed, Flip)
        tool = openai.pydantic_function_tool(Flip, name="flip")["function"]
        tools = [{"type": "function", **tool}]
        called = self.client.responses.create(**GREEDY, input="Heads?", tools=tools, tool_choice="required")
        call = called.output[0]
        Flip.model_validate(json.loads(call.arguments), strict=True)
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "yes"}
        after = self.client.responses.create(**GREEDY, input=[output], previous_response_id=called.id, tools=tools)
        self.assertEqual(after.previous_response_id, called.id)
        with self.client.responses.stream(**GREEDY, input="Heads?", text_format=Flip) as stream:
            final = stream.get_final_response()
        self.assertEqual(final.output_parsed, parsed.output_parsed)


class Agents(PackageTest):
    def setUp(self):
        super().setUp()
        agents.set_tracing_disabled(True)

    def agent(self, **more):
        model = agents.OpenAIResponsesModel("made", openai.AsyncOpenAI(**self.where))
        return agents.Agent(name="coin", instructions="Be brief", model=model, **more)

    def test_an_agent_continues_from_its_last_response(self):
        agent = self.agent(output_type=Flip, model_settings=agents.ModelSettings(temperature=0, max_tokens=200))
        first = agents.Runner.run_sync(agent, "Heads?")
        self.assertIsInstance(first.final_output, Flip)
        second = agents.Runner.run_sync(agent, "Again?", previous_response_id=first.last_response_id)
        self.assertIsInstance(second.final_output, Flip)
        self.assertGreater(second.raw_responses[0].usage.input_tokens, first.raw_responses[0].usage.input_tokens)

    def test_an_agent_calls_its_tool(self):
        calls = []

        @agents.function_tool
        def flip(heads: bool) -> str:
            """Flip a coin."""
            calls.append(heads)
            return f"{heads} it is"

        settings = agents.ModelSettings(temperature=0, max_tokens=200, tool_choice="required")
        agent = self.agent(tools=[flip], model_settings=settings, tool_use_behavior="stop_on_first_tool")
        result = agents.Runner.run_sync(agent, "Heads?")
        self.assertEqual([result.final_output], [f"{heads} it is" for heads in calls])

    def test_an_agent_streams(self):
        agent = self.agent(output_type=Flip, model_settings=agents.ModelSettings(temperature=0, max_tokens=200))

        async def run():
            result = agents.Runner.run_streamed(agent, "Heads?")
            kinds = [event.data.type async for event in result.stream_events() if event.type == "raw_response_event"]
            return kinds, result.final_output

        kinds, final = asyncio.run(run())
        self.assertIn("response.output_text.delta", kinds)
        self.assertEqual(kinds[-1], "response.completed")
        self.assertIsInstance(final, Flip)


if __name__ == "__main__":
    unittest.main(verbosity=1)
