"""Conversations with tools in the format of each model family: an answer with one call, one with two calls, and the answer
to the tool's result. The templates are in tests/reference/templates."""

import dataclasses
import json

QUESTION = "What will the weather be in Zürich, and what time is it there?"
WEATHER = ("get_weather", {"city": "Zürich", "days": 2})
TIME = ("get_time", {"zone": "Europe/Zurich"})
RESULTS = {"get_weather": "12.5 degrees", "get_time": "half past nine"}
SAID = "It will be 12.5 °C in Zürich.\n\nTake an umbrella!"
THOUGHT = "The user asks for the weather.\nI should call get_weather."
THOUGHT_TWICE = "Two questions, so two calls."
THOUGHT_LAST = "The tool says 12.5 degrees."


@dataclasses.dataclass
class Answer:
    text: str  # everything that the model writes, including the token that ends it
    calls: tuple = ()
    content: str = ""
    reasoning: str = ""
    request: dict = dataclasses.field(default_factory=dict)  # additional fields of the request
    prompt: str = ""  # text that the prompt must contain


@dataclasses.dataclass
class Family:
    template: str
    marks: str  # control tokens, separated by spaces
    call: Answer
    last: Answer  # the answer to the tool's result
    both: Answer = None
    others: tuple = ()  # other answers to the question
    words: str = ""  # user-defined tokens, separated by spaces
    ends: str = "<|endoftext|> <|im_end|>"  # the BOS token, and then the tokens that end an answer
    spm: bool = False
    space_prefix: bool = True
    returns: str = ""  # the part of an answer with calls that the next prompt repeats verbatim: "all" or "thoughts"


def compact(value):
    return json.dumps(value, ensure_ascii=False)


def written(call, arguments="arguments"):
    return compact({"name": call[0], arguments: call[1]})


def hermes(*calls):
    return "\n".join(f"<tool_call>\n{written(call)}\n</tool_call>" for call in calls)


def listed(*calls):
    return "[" + ", ".join(written(call) for call in calls) + "]"


def python(*calls):
    return "[" + ", ".join(f"{name}({', '.join(f'{key}={compact(value)}' for key, value in them.items())})"
                           for name, them in calls) + "]"


def fenced(*calls):
    return "Action: ```json\n" + json.dumps([{"tool_name": name, "parameters": them} for name, them in calls], indent=4,
                                            ensure_ascii=False) + "\n```"


def parameters(call):
    return written(call, arguments="parameters")


def mistral(*calls):
    return "[TOOL_CALLS] " + listed(*calls)


def nemo(*calls):
    return "[TOOL_CALLS]" + listed(*calls)


def phi4_mini(*calls):
    return f"<|tool_call|>{listed(*calls)}<|/tool_call|>"


def granite(*calls):
    return "<|tool_call|>" + listed(*calls)


def glm4(call):
    return f"\n{call[0]}\n{compact(call[1])}"


def ministral(*calls):
    return "".join(f"[TOOL_CALLS]{name}[ARGS]{compact(them)}" for name, them in calls)


def glm_moe(*calls):
    def value(one):
        return one if isinstance(one, str) else compact(one)
    return "\n".join("<tool_call>" + name + "\n" + "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{value(one)}</arg_value>\n" for key, one in them.items()) + "</tool_call>"
        for name, them in calls)


def deepseek(*calls):
    return "<｜tool▁calls▁begin｜>" + "\n".join(
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{compact(them)}\n```<｜tool▁call▁end｜>"
        for name, them in calls) + "<｜tool▁calls▁end｜>"


def harmony(call):
    return f"<|channel|>commentary to=functions.{call[0]} <|constrain|>json<|message|>{compact(call[1])}<|call|>"


def plain(template, marks, form, end, both=True, **more):
    """A family without thoughts. form(calls) -> the calls as the model writes them."""
    return Family(template, marks, Answer(form(WEATHER) + end, (WEATHER,)), Answer(SAID + end, content=SAID),
                  Answer(form(WEATHER, TIME) + end, (WEATHER, TIME)) if both else None, **more)


def thinks(thought, open="<think>\n", close="\n</think>\n\n"):
    return open + thought + close


def thinker(template, marks, form, end, between=("<think>\n", "\n</think>\n\n"), both=True, **more):
    return Family(
        template, marks,
        call=Answer(thinks(THOUGHT, *between) + form(WEATHER) + end, (WEATHER,), reasoning=THOUGHT),
        both=Answer(thinks(THOUGHT_TWICE, *between) + form(WEATHER, TIME) + end, (WEATHER, TIME), reasoning=THOUGHT_TWICE)
        if both else None,
        last=Answer(thinks(THOUGHT_LAST, *between) + SAID + end, content=SAID, reasoning=THOUGHT_LAST), **more)


def without_thinking(form, end, prompt):
    return Answer(form(WEATHER) + end, (WEATHER,), prompt=prompt, request={"chat_template_kwargs": {"enable_thinking": False}})


CHATML = "<|endoftext|> <|im_start|> <|im_end|>"
HERMES = "<tool_call> </tool_call> <tool_response> </tool_response>"
THINK = "<think> </think>"
MISTRAL = "<s> </s> [INST] [/INST] [TOOL_CALLS] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS]"
LLAMA3 = "<|begin_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|> <|eom_id|> <|python_tag|>"
LLAMA4 = "<|begin_of_text|> <|header_start|> <|header_end|> <|eot|> <|eom|> <|python_start|> <|python_end|>"
PHI = "<|endoftext|> <|system|> <|user|> <|assistant|> <|end|>"
PHI4_MINI = "<|tool_call|> <|/tool_call|> <|tool|> <|/tool|> <|tool_response|>"
GRANITE = "<|end_of_text|> <|start_of_role|> <|end_of_role|> <|tool_call|>"
GLM = "<|endoftext|> [gMASK] <sop> <|system|> <|user|> <|assistant|> <|observation|>"
GLM_ENDS = "<|endoftext|> <|endoftext|> <|user|> <|observation|>"
DEEPSEEK_WORDS = ("<｜User｜> <｜Assistant｜> <think> </think> <｜tool▁calls▁begin｜> <｜tool▁calls▁end｜> <｜tool▁call▁begin｜> "
                  "<｜tool▁call▁end｜> <｜tool▁outputs▁begin｜> <｜tool▁outputs▁end｜> <｜tool▁output▁begin｜> "
                  "<｜tool▁output▁end｜> <｜tool▁sep｜>")
COMMAND_R = "<BOS_TOKEN> <|START_OF_TURN_TOKEN|> <|END_OF_TURN_TOKEN|> <|USER_TOKEN|> <|CHATBOT_TOKEN|> <|SYSTEM_TOKEN|>"
GEMMA = "<bos> <eos> <start_of_turn> <end_of_turn>"

DEEPSEEK_END = "<｜end▁of▁sentence｜>"


def deepseek_r1(template):
    return Family(
        template, f"<｜begin▁of▁sentence｜> {DEEPSEEK_END}", words=DEEPSEEK_WORDS,
        ends=f"<｜begin▁of▁sentence｜> {DEEPSEEK_END}",
        call=Answer(f"{THOUGHT}\n</think>\n\n{deepseek(WEATHER)}{DEEPSEEK_END}", (WEATHER,), reasoning=THOUGHT),
        both=Answer(f"{THOUGHT_TWICE}\n</think>\n\n{deepseek(WEATHER, TIME)}{DEEPSEEK_END}", (WEATHER, TIME),
                    reasoning=THOUGHT_TWICE),
        last=Answer(f"{SAID}{DEEPSEEK_END}", content=SAID))


def gpt_oss():
    final = f"<|channel|>final<|message|>{SAID}<|return|>"
    thought = f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant"
    preamble = "<|channel|>commentary<|message|>I will look.<|end|><|start|>assistant"
    return Family(
        "gpt_oss", "<|startoftext|> <|start|> <|end|> <|message|> <|channel|> <|constrain|> <|call|> <|return|>",
        ends="<|startoftext|> <|return|>", returns="thoughts",
        call=Answer(thought + harmony(WEATHER), (WEATHER,), reasoning=THOUGHT),
        last=Answer(f"<|channel|>analysis<|message|>{THOUGHT_LAST}<|end|><|start|>assistant{final}", content=SAID,
                    reasoning=THOUGHT_LAST),
        others=(Answer(final, content=SAID, request={"reasoning_effort": "low"}, prompt="Reasoning: low"),
                Answer(preamble + harmony(TIME), (TIME,), "I will look."),
                # The recipient may also come before the channel.
                Answer(f"{thought} to=functions.get_time<|channel|>commentary json<|message|>{compact(TIME[1])}<|call|>", (TIME,),
                       reasoning=THOUGHT)))


def qwen3():
    end = "<|im_end|>"
    return thinker("qwen3", CHATML, hermes, end, words=f"{HERMES} {THINK}", returns="all", others=(
        without_thinking(hermes, end, "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        Answer(thinks(THOUGHT) + "I will look.\n" + hermes(TIME) + end, (TIME,), "I will look.\n", THOUGHT)))


def llama4():
    return plain("llama4", LLAMA4, python, "<|eot|>", ends="<|begin_of_text|> <|eot|> <|eom|>", others=(
        Answer(parameters(WEATHER) + "<|eot|>", (WEATHER,)),
        Answer(f"<|python_start|>{python(TIME)}<|python_end|><|eom|>", (TIME,))))


# One entry per chat template. Qwen 2 and 3 share theirs with their mixtures of experts, Mistral with Mixtral.
FAMILIES = {
    "qwen2.5": plain("qwen2_5", CHATML, hermes, "<|im_end|>", words=HERMES, returns="all"),
    "qwen3": qwen3(),
    "smollm3": thinker("smollm3", CHATML, hermes, "<|im_end|>", ("<think>\n", "\n</think>\n"), words=f"{HERMES} {THINK}",
                       others=(without_thinking(hermes, "<|im_end|>", "Reasoning Mode: /no_think"),)),
    "mistral_v3": plain("mistral_v3", MISTRAL, mistral, "</s>", spm=True, ends="<s> </s>"),
    "mistral_nemo": plain("mistral_nemo", MISTRAL, nemo, "</s>", ends="<s> </s>"),
    "ministral3": thinker("ministral3", f"{MISTRAL} [ARGS] [THINK] [/THINK] [SYSTEM_PROMPT] [/SYSTEM_PROMPT]", ministral, "</s>",
                          ("[THINK]", "[/THINK]"), ends="<s> </s>", returns="all"),
    "gpt_oss": gpt_oss(),
    "gemma2": plain("gemma2", GEMMA, hermes, "<end_of_turn>", ends="<bos> <eos>", spm=True, space_prefix=False),
    "gemma3": plain("gemma3", GEMMA, python, "<end_of_turn>", ends="<bos> <eos>", spm=True, space_prefix=False),
    "phi3": plain("phi3", f"<s> {PHI}", listed, "<|end|>", spm=True, ends="<s> <|endoftext|>"),
    "phi4": plain("phi4", f"{CHATML} <|im_sep|>", hermes, "<|im_end|>"),
    "phi4_mini": plain("phi4_mini", PHI, phi4_mini, "<|end|>", words=PHI4_MINI, ends="<|endoftext|> <|endoftext|>"),
    "granite3": plain("granite3", GRANITE, granite, "<|end_of_text|>", ends="<|end_of_text|> <|end_of_text|>", returns="all"),
    "glm4": plain("glm4", GLM, glm4, "<|observation|>", both=False, ends=GLM_ENDS),
    "glm4_moe": thinker("glm4_moe", GLM, glm_moe, "<|observation|>", ("\n<think>", "</think>\n"), ends=GLM_ENDS, returns="all",
                        words=f"{HERMES} {THINK} <arg_key> </arg_key> <arg_value> </arg_value>", others=(
                            without_thinking(glm_moe, "<|observation|>", "/nothink<|assistant|>\n<think></think>"),)),
    "olmo2": plain("olmo2", "<|endoftext|>", hermes, "<|endoftext|>", ends="<|endoftext|> <|endoftext|>"),
    "llama3": plain("llama3_tools", LLAMA3, parameters, "<|eot_id|>", both=False, ends="<|begin_of_text|> <|eot_id|>",
                    returns="all", others=(Answer("<|python_tag|>" + parameters(TIME) + "<|eom_id|>", (TIME,)),)),
    "llama4": llama4(),
    "stablelm": plain("zephyr", "<|endoftext|>", hermes, "<|endoftext|>", ends="<|endoftext|> <|endoftext|>"),
    "starcoder2": plain("chatml", CHATML, hermes, "<|im_end|>"),
    "deepseek_r1": deepseek_r1("deepseek_r1"),
    "deepseek_r1_distill": deepseek_r1("deepseek_r1_distill"),
    "command_r": plain("command_r", COMMAND_R, fenced, "<|END_OF_TURN_TOKEN|>", ends="<BOS_TOKEN> <|END_OF_TURN_TOKEN|>"),
}
