"""Runs the client packages of PyPI against a recorder (recorder.py) at KVICK_URL. Prints one line of JSON per check.

packages.py REQUIREMENTS: runs the packages of that file, because not all of them can be installed in one environment.
"""

import asyncio
import contextlib
import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys

URL, SAID = os.environ["KVICK_URL"], os.environ["KVICK_SAYS"]
OPENAI = {"base_url": f"{URL}/v1", "api_key": "none", "max_retries": 0}
ASKED = [{"role": "user", "content": "Heads?"}]
SCHEMA = {"type": "object", "properties": {"heads": {"type": "boolean"}}, "required": ["heads"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "flip", "description": "Flip a coin", "parameters": SCHEMA}}
CHECKS = []


def same(got, wanted):
    if got != wanted:
        raise AssertionError(f"got {got!r}, expected {wanted!r}")


def check(client, what):
    def register(run):
        CHECKS.append((client, what, run))
        return run
    return register


def flip_model():
    import pydantic
    return pydantic.create_model("Flip", heads=(bool, ...))


@check("openai", "chat, tools, streamed")
def _():
    import openai
    client = openai.OpenAI(**OPENAI)
    first = client.chat.completions.create(model="kvick", messages=ASKED, tools=[TOOL]).choices[0].message
    same(json.loads(first.tool_calls[0].function.arguments), {"heads": True})
    told = [*ASKED, first, {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "heads"}]
    with client.chat.completions.stream(model="kvick", messages=told, tools=[TOOL]) as stream:
        same(stream.get_final_completion().choices[0].message.content, SAID)
    parsed = client.chat.completions.parse(model="kvick", messages=ASKED, response_format=flip_model())
    same(parsed.choices[0].message.parsed.heads, True)


@check("openai", "responses")
def _():
    import openai
    client = openai.OpenAI(**OPENAI)
    with client.responses.stream(model="kvick", input="Heads?") as stream:
        same(stream.get_final_response().output_text, SAID)
    same(client.responses.parse(model="kvick", input="Heads?", text_format=flip_model()).output_parsed.heads, True)


@check("openai", "embeddings")
def _():
    import openai
    same(len(openai.OpenAI(**OPENAI).embeddings.create(model="kvick", input=["a", "b"]).data), 2)


def run_agent(model):
    import agents
    agents.set_tracing_disabled(True)
    calls = []

    @agents.function_tool
    def flip(heads: bool) -> str:
        calls.append(heads)
        return "heads"

    agent = agents.Agent(name="coin", instructions="Be brief", model=model, tools=[flip])
    same(agents.Runner.run_sync(agent, "Heads?").final_output, SAID)

    async def streamed():
        result = agents.Runner.run_streamed(agent, "Heads?")
        async for _ in result.stream_events():
            pass
        return result.final_output
    same(asyncio.run(streamed()), SAID)
    same(calls, [True, True])


@check("openai-agents", "an agent with a tool, over responses")
def _():
    import agents
    import openai
    run_agent(agents.OpenAIResponsesModel("kvick", openai.AsyncOpenAI(**OPENAI)))


@check("openai-agents", "an agent with a tool, over chats")
def _():
    import agents
    import openai
    run_agent(agents.OpenAIChatCompletionsModel("kvick", openai.AsyncOpenAI(**OPENAI)))


@check("anthropic", "messages, tools, streamed, counted")
def _():
    import anthropic
    client = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)
    fields = {"model": "kvick", "max_tokens": 100, "tools": [{"name": "flip", "input_schema": SCHEMA}]}
    called = client.messages.create(messages=ASKED, **fields)
    same((called.stop_reason, called.content[0].input), ("tool_use", {"heads": True}))
    result = {"type": "tool_result", "tool_use_id": called.content[0].id, "content": "heads"}
    told = [*ASKED, {"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
    with client.messages.stream(messages=told, **fields) as stream:
        same(stream.get_final_text(), SAID)
    assert client.messages.count_tokens(model="kvick", messages=told, tools=fields["tools"]).input_tokens > 0


@check("ollama", "chat, format, tools, generate, embed, list, show")
def _():
    import ollama
    client = ollama.Client(URL)
    same("".join(part.message.content for part in client.chat("kvick", ASKED, stream=True)), SAID)
    same(json.loads(client.chat("kvick", ASKED, format=SCHEMA).message.content), {"heads": True})
    message = client.chat("kvick", ASKED, tools=[TOOL]).message
    same(message.tool_calls[0].function.arguments, {"heads": True})
    told = [*ASKED, message, {"role": "tool", "tool_name": "flip", "content": "heads"}]
    same(client.chat("kvick", told, tools=[TOOL]).message.content, SAID)
    same(client.generate("kvick", "Heads?").response, SAID)
    same(len(client.embed("kvick", ["a", "b"]).embeddings), 2)
    same(len(client.list().models), 3)
    client.show("kvick")


def langchain_all(model):
    from langchain_core.messages import HumanMessage, ToolMessage
    same(model.invoke("Heads?").text, SAID)
    same("".join(piece.text for piece in model.stream("Heads?")), SAID)
    bound = model.bind_tools([TOOL])
    called = bound.invoke("Heads?")
    same(called.tool_calls[0]["args"], {"heads": True})
    told = [HumanMessage("Heads?"), called, ToolMessage("heads", tool_call_id=called.tool_calls[0]["id"])]
    same(bound.invoke(told).text, SAID)


LANGCHAIN = "invoke, stream, tools"


@check("langchain-openai", f"{LANGCHAIN}, structured output")
def _():
    from langchain_openai import ChatOpenAI
    model = ChatOpenAI(model="kvick", **OPENAI)
    langchain_all(model)
    same(model.with_structured_output(flip_model(), method="json_schema").invoke("Heads?").heads, True)


@check("langchain-openai", f"{LANGCHAIN}, over responses")
def _():
    from langchain_openai import ChatOpenAI
    langchain_all(ChatOpenAI(model="kvick", use_responses_api=True, **OPENAI))


@check("langchain-openai", "embeddings")
def _():
    from langchain_openai import OpenAIEmbeddings
    same(len(OpenAIEmbeddings(model="kvick", check_embedding_ctx_length=False, **OPENAI).embed_documents(["a", "b"])), 2)


@check("langchain-anthropic", LANGCHAIN)
def _():
    from langchain_anthropic import ChatAnthropic
    langchain_all(ChatAnthropic(model="kvick", base_url=URL, api_key="none", max_retries=0))


@check("langchain-ollama", f"{LANGCHAIN}, structured output, embeddings")
def _():
    from langchain_ollama import ChatOllama, OllamaEmbeddings
    model = ChatOllama(model="kvick", base_url=URL)
    langchain_all(model)
    same(model.with_structured_output(flip_model()).invoke("Heads?").heads, True)
    same(len(OllamaEmbeddings(model="kvick", base_url=URL).embed_documents(["a", "b"])), 2)


def litellm_chat(provider, base):
    import litellm
    asked = {"model": f"{provider}/kvick", "messages": ASKED, "api_base": base, "api_key": "none"}
    same(litellm.completion(**asked).choices[0].message.content, SAID)
    same("".join(part.choices[0].delta.content or "" for part in litellm.completion(stream=True, **asked)), SAID)


for provider, base in (("openai", f"{URL}/v1"), ("anthropic", URL), ("ollama_chat", URL), ("ollama", URL)):
    check("litellm", f"{provider}/, whole and streamed")(lambda provider=provider, base=base: litellm_chat(provider, base))


@check("litellm", "tools, embeddings")
def _():
    import litellm
    where = {"api_base": f"{URL}/v1", "api_key": "none"}
    called = litellm.completion(model="openai/kvick", messages=ASKED, tools=[TOOL], **where).choices[0].message
    same(json.loads(called.tool_calls[0].function.arguments), {"heads": True})
    same(len(litellm.embedding(model="openai/kvick", input=["a", "b"], **where).data), 2)


@check("instructor", "JSON Schema, tools")
def _():
    import instructor
    import openai
    for mode in (instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS):
        client = instructor.from_openai(openai.OpenAI(**OPENAI), mode=mode)
        assert isinstance(client.create(model="kvick", messages=ASKED, response_model=flip_model()).heads, bool)


@check("instructor", "tools over Anthropic's API")
def _():
    import anthropic
    import instructor
    client = instructor.from_anthropic(anthropic.Anthropic(base_url=URL, api_key="none"), mode=instructor.Mode.ANTHROPIC_TOOLS)
    assert isinstance(client.create(model="kvick", max_tokens=100, messages=ASKED, response_model=flip_model()).heads, bool)


def pydantic_ai_agent(model):
    from pydantic_ai import Agent
    agent = Agent(model)
    calls = []

    @agent.tool_plain
    def flip(heads: bool) -> str:
        calls.append(heads)
        return "heads"

    same(agent.run_sync("Heads?").output, SAID)
    same(calls, [True])
    assert isinstance(Agent(model, output_type=flip_model()).run_sync("Heads?").output.heads, bool)


def pydantic_ai_openai():
    from pydantic_ai.providers.openai import OpenAIProvider
    return OpenAIProvider(base_url=OPENAI["base_url"], api_key="none")


@check("pydantic-ai-slim", "an agent with a tool, typed output")
def _():
    from pydantic_ai.models.openai import OpenAIChatModel
    pydantic_ai_agent(OpenAIChatModel("kvick", provider=pydantic_ai_openai()))


@check("pydantic-ai-slim", "the same over responses")
def _():
    from pydantic_ai.models.openai import OpenAIResponsesModel
    pydantic_ai_agent(OpenAIResponsesModel("kvick", provider=pydantic_ai_openai()))


@check("pydantic-ai-slim", "the same over Anthropic's API")
def _():
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    pydantic_ai_agent(AnthropicModel("kvick", provider=AnthropicProvider(base_url=URL, api_key="none")))


@check("llama-index-llms-openai-like", "chat, complete, streamed")
def _():
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.openai_like import OpenAILike
    model = OpenAILike(model="kvick", api_base=f"{URL}/v1", api_key="none", is_chat_model=True)
    asked = [ChatMessage(role="user", content="Heads?")]
    same(model.chat(asked).message.content, SAID)
    same([part.message.content for part in model.stream_chat(asked)][-1], SAID)


@check("llm", "a prompt")
def _():
    home = pathlib.Path(os.environ["HOME"])
    (home / "extra-openai-models.yaml").write_text(f"- model_id: kvick\n  model_name: kvick\n  api_base: {URL}/v1\n  can_stream: true\n")
    done = subprocess.run([sys.executable, "-m", "llm", "-m", "kvick", "--key", "none", "Heads?"], capture_output=True, text=True,
                          env={**os.environ, "LLM_USER_PATH": str(home)}, stdin=subprocess.DEVNULL, timeout=120)
    same((done.returncode, done.stdout.strip()), (0, SAID))


def main():
    pinned = re.findall(r"^([\w-]+).*==", pathlib.Path(sys.argv[1]).read_text(), re.M)
    for client, what, run in CHECKS:
        if client not in pinned:
            continue
        error = None
        try:
            with contextlib.redirect_stdout(sys.stderr):
                run()
        except Exception as caught:  # noqa: BLE001, each failure becomes a line of the table
            error = f"{type(caught).__name__}: {caught}"[:500]
        print(json.dumps({"client": client, "version": importlib.metadata.version(client), "what": what, "error": error}), flush=True)


if __name__ == "__main__":
    main()
