#!/usr/bin/env python3
"""Records in templates.json what jinja2 renders from the chat templates in templates/ and from template_expressions.py.

    pip install jinja2==3.1.6 && tests/reference/record_templates.py

The environment is that of Hugging Face transformers' chat templates: immutable sandbox, trim_blocks, lstrip_blocks, loop
controls, tojson without HTML escapes, raise_exception, strftime_now (here at a fixed time) and the generation block.
"""

import datetime
import json
import pathlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

import template_expressions

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2025, 1, 2, 3, 4, 5)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def environment():
    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def render(env, source, context):
    """{"text": ...}, or {"error": ...} if jinja2 raises an exception."""
    try:
        return {"text": env.from_string(source).render(**context)}
    except Exception as error:  # any exception counts as an error
        return {"error": f"{type(error).__name__}: {error}"}


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get the weather \"now\" in a city.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "The city, e.g. Zürich"},
                    "units": {"type": ["string", "null"], "description": "celsius or fahrenheit"},
                    "days": {"type": "array", "items": {"type": "integer"}, "description": "which days"},
                },
                "required": ["city"],
            },
            "return": {"type": "number"},
        },
    },
    {
        "type": "function",
        "function": {
            "name": "ping",
            "description": "Says <pong> & nothing else.",
            "parameters": {"type": "object", "properties": {}, "required": []},
        },
    },
]


def call(identifier, name, arguments):
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


def message(role, content, **more):
    return {"role": role, "content": content, **more}


SYSTEM = message("system", "  You are terse.\n")
ASK = message("user", "Hello, who are you?")
ANSWER = message("assistant", "<think>\nhm\n</think>\n\nA program.")
AGAIN = message("user", "  Grüße! 你好 👋🏽 \"quoted\" <|im_end|> \\n\n")
USING = [
    message("user", "Weather in Zürich and Bern?"),
    message("assistant", None, tool_calls=[call("abcdefgh1", "get_weather", {"city": "Zürich", "days": [1, 2.5]})]),
    message("tool", "{\"t\": 12.5}", tool_call_id="abcdefgh1", name="get_weather"),
]
TWICE = message(
    "assistant", "Both:",
    tool_calls=[call("abcdefgh2", "get_weather", {"city": "Bern"}), call("abcdefgh3", "ping", {})],
)
RESULTS = [message("tool", "3", tool_call_id="abcdefgh2"), message("tool", "pong", tool_call_id="abcdefgh3")]
PARTS = [{"type": "text", "text": " What is this? "}, {"type": "image"}, {"type": "text", "text": "And this?"}]

CONVERSATIONS = {
    "one question": {"messages": [ASK], "add_generation_prompt": True},
    "system and question": {"messages": [SYSTEM, ASK], "add_generation_prompt": True},
    "answered": {"messages": [ASK, ANSWER], "add_generation_prompt": False},
    "no flag": {"messages": [ASK, ANSWER]},
    "several turns": {"messages": [SYSTEM, ASK, ANSWER, AGAIN], "add_generation_prompt": True},
    "several turns, answered": {"messages": [ASK, ANSWER, AGAIN, message("assistant", "ok")]},
    "without thinking": {"messages": [ASK, ANSWER, AGAIN], "add_generation_prompt": True, "enable_thinking": False},
    "thought apart": {"messages": [ASK, message("assistant", "So.", reasoning_content="\nwell\n")]},
    "empty content": {"messages": [message("system", ""), message("user", ""), message("assistant", "")]},
    "no content": {"messages": [ASK, message("assistant", None)], "add_generation_prompt": True},
    "roles do not alternate": {"messages": [ASK, AGAIN], "add_generation_prompt": True},
    "unknown role": {"messages": [message("critic", "no"), ASK], "add_generation_prompt": True},
    "parts": {"messages": [SYSTEM, message("user", PARTS)], "add_generation_prompt": True},
    "system of parts": {"messages": [message("system", [{"type": "text", "text": "Look."}]), message("user", PARTS)]},
    "tools, not used": {"messages": [SYSTEM, ASK], "tools": TOOLS, "add_generation_prompt": True},
    "tools, used": {"messages": USING, "tools": TOOLS, "add_generation_prompt": True},
    "tools, used and told": {"messages": [SYSTEM, *USING, message("assistant", "12.5 °C")], "tools": TOOLS},
    "several tools": {"messages": [USING[0], TWICE, *RESULTS], "tools": TOOLS, "add_generation_prompt": True},
    "several tools, later": {"messages": [USING[0], TWICE, *RESULTS, message("assistant", "Done."), AGAIN], "tools": TOOLS},
    "documents": {"messages": [ASK], "documents": [{"text": "First."}, {"text": "Zweites."}], "add_generation_prompt": True},
    "date given": {"messages": [ASK], "date_string": "1 May 2025", "tools": None, "add_generation_prompt": True},
    "no messages": {"messages": [], "add_generation_prompt": True},
}
ALWAYS = {"bos_token": "<s>", "eos_token": "</s>"}


def main():
    env = environment()
    renderings = []
    for path in sorted((HERE / "templates").glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for name, conversation in CONVERSATIONS.items():
            result = render(env, source, {**ALWAYS, **conversation})
            renderings.append({"template": path.name, "conversation": name, **result})
    expressions = [
        {"source": source, **render(env, source, template_expressions.CONTEXT)} for source in template_expressions.ALL
    ]
    recorded = {
        "jinja2": jinja2.__version__,
        "always": ALWAYS,
        "conversations": CONVERSATIONS,
        "renderings": renderings,
        "expression_context": template_expressions.CONTEXT,
        "expressions": expressions,
    }
    with open(HERE / "templates.json", "w", encoding="utf-8") as out:
        json.dump(recorded, out, ensure_ascii=False, indent=0)
        out.write("\n")
    failed = sum("error" in r for r in renderings), sum("error" in e for e in expressions)
    print(f"{len(renderings)} renderings ({failed[0]} refused), {len(expressions)} expressions ({failed[1]} refused)")


if __name__ == "__main__":
    main()
