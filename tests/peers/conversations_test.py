#!/usr/bin/env python3
"""Conversations with tools through the `openai` package, for each model family: with its chat template and answers in its format
(conversations.py), played by a model that repeats given answers (replay_model.py).

The environment variable KVICK is the path of the program, PEERS the folder for packages. FAMILIES=NAME,... tests only these families.
"""

import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
os.environ.setdefault("MAKE_MODEL", "")  # made_model.py reads it; not used here
from peer_packages import ROOT, run_with_packages  # noqa: E402

if __name__ == "__main__":
    run_with_packages()

import openai  # noqa: E402
import pydantic  # noqa: E402

from conversations import FAMILIES, QUESTION, RESULTS  # noqa: E402
from replay_model import Replay  # noqa: E402
from server_process import Server  # noqa: E402


class GetWeather(pydantic.BaseModel):
    """The weather in a city."""

    city: str = pydantic.Field(max_length=16, description="its name")
    days: int = pydantic.Field(ge=1, le=7, description="how many")


class GetTime(pydantic.BaseModel):
    """The time of day in a zone."""

    zone: str = pydantic.Field(max_length=16, description="as Area/City")


SCHEMAS = {"get_weather": GetWeather, "get_time": GetTime}
TOOLS = [openai.pydantic_function_tool(schema, name=name) for name, schema in SCHEMAS.items()]
ASKED = [{"role": "user", "content": QUESTION}]


def parts_of(message):
    """The message's content, its thoughts, and the names and arguments of its calls."""
    calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]
    return message.content or "", getattr(message, "reasoning_content", None) or "", calls


class Conversation:
    """A model family on its own server, and a client of it."""

    def __init__(self, test, name):
        self.test, self.family = test, FAMILIES[name]
        family = self.family
        self.answers = [family.call, family.last, *filter(None, [family.both]), *family.others]
        marks = {**dict.fromkeys(family.marks.split(), True), **dict.fromkeys(family.words.split(), False)}
        self.replay = Replay([answer.text for answer in self.answers], marks, family.spm, family.space_prefix)
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        self.top = top = pathlib.Path(folder.name)
        template = ROOT / "tests" / "reference" / "templates" / f"{family.template}.jinja"
        self.replay.write(top / "model.gguf", template.read_text(), *family.ends.split())
        environment = {"PATH": os.environ["PATH"], "HOME": str(top), "XDG_CACHE_HOME": str(top / "cache")}
        self.server = Server(top, environment, top / "model.gguf", "--name", "served")
        test.addCleanup(self.server.kill)
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none", timeout=60, max_retries=0)
        test.addCleanup(self.client.close)

    def ask(self, messages, **more):
        return {"model": "served", "messages": messages, "tools": TOOLS, **more}

    def said(self, answer, messages):
        """Lets the model give that answer, checks it whole and streamed, and returns the choice and the text of the prompt."""
        begin = self.replay.begins[self.answers.index(answer)]
        extra = {**answer.request, "return_token_ids": True}
        fields = self.ask(messages, temperature=0, max_tokens=400, logit_bias=begin, extra_body=extra)
        completion = self.client.chat.completions.create(**fields)
        choice = completion.choices[0]
        with self.client.chat.completions.stream(**fields) as stream:
            whole = stream.get_final_completion().choices[0]
        pieces = [chunk.choices[0].delta for chunk in self.client.chat.completions.create(**fields, stream=True)]
        test = self.test
        test.assertEqual(parts_of(choice.message), (answer.content, answer.reasoning, list(answer.calls)))
        test.assertEqual(choice.finish_reason, "tool_calls" if answer.calls else "stop")
        test.assertEqual((parts_of(whole.message), whole.finish_reason), (parts_of(choice.message), choice.finish_reason))
        test.assertEqual("".join(getattr(piece, "reasoning_content", None) or "" for piece in pieces), answer.reasoning)
        prompt = self.server.post("/detokenize", tokens=completion.prompt_token_ids)[1]["prompt"]
        return choice, prompt


class Conversations(unittest.TestCase):
    def check(self, name):
        talk = Conversation(self, name)
        for answer in talk.family.others:
            self.assertIn(answer.prompt, talk.said(answer, ASKED)[1])
        for answer in filter(None, [talk.family.call, talk.family.both]):
            self.check_calls(talk, answer)
        for seed in range(3):
            choice = talk.client.chat.completions.create(
                **talk.ask(ASKED, tool_choice="required", max_tokens=400, seed=seed)).choices[0]
            self.assertEqual((choice.finish_reason, choice.message.content), ("tool_calls", None))
            call = choice.message.tool_calls[0].function
            SCHEMAS[call.name].model_validate_json(call.arguments, strict=True)

    def check_calls(self, talk, answer):
        """Checks an answer with calls, and the answer to the results of these calls."""
        choice, asked = talk.said(answer, ASKED)
        for tool in SCHEMAS:  # named by the template or, if it does not support tools, by the server
            self.assertIn(tool, asked)
        told = [*ASKED, choice.message.model_dump(exclude_none=True)]  # clients send the answer back like this
        for call in choice.message.tool_calls:
            told.append({"role": "tool", "tool_call_id": call.id, "content": RESULTS[call.function.name]})
        _, prompt = talk.said(talk.family.last, told)
        behind = prompt.split(QUESTION)[-1]
        for tool, arguments in answer.calls:
            for word in [tool, RESULTS[tool], *map(str, arguments.values())]:
                self.assertIn(word, behind)
        if talk.family.returns:
            self.assertIn(answer.text[:answer.text.rfind("<")] if talk.family.returns == "all" else answer.reasoning, behind)


for family in FAMILIES:
    if family in os.environ.get("FAMILIES", family).split(","):
        setattr(Conversations, f"test_{family}", lambda self, name=family: self.check(name))

if __name__ == "__main__":
    unittest.main(verbosity=1)
