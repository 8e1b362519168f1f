"""A server of three models that say one text each, for clients whose conversations a real model of some MB could not drive."""

import json
import os
import pathlib
import subprocess
import sys

PEERS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(PEERS), str(PEERS.parent / "cli")]
os.environ.setdefault("MAKE_MODEL", "")  # which is not needed here

from replay_model import Replay  # noqa: E402
from server_process import Server  # noqa: E402

SAID = "The tool said that all is well here."
FORM = {"heads": True}
MARKS = {**dict.fromkeys("<|endoftext|> <|im_start|> <|im_end|>".split(), True),
         **dict.fromkeys("<tool_call> </tool_call> <tool_response> </tool_response>".split(), False)}
CONTEXT = 1 << 18  # of tokens that are bytes, and prompts of agents have some hundred kilobytes


def serve(folder, tool, arguments, *options):
    """The server; its models are `kvick`, `call` and `form`."""
    texts = {"kvick": SAID, "form": json.dumps(FORM),
             "call": f'<tool_call>\n{json.dumps({"name": tool, "arguments": arguments})}\n</tool_call>'}
    template = (PEERS.parent / "reference" / "templates" / "qwen2_5.jinja").read_text()
    given = []
    for name, text in texts.items():
        replay = Replay([text + "<|im_end|>"], MARKS, context=CONTEXT)
        replay.write(folder / f"{name}.gguf", template, "<|endoftext|>", "<|endoftext|>", "<|im_end|>", begin=replay.begins[0])
        given += ["-m", folder / f"{name}.gguf", "--name", name]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    return QuietServer(folder, environment, given[1], *given[2:], "--any-model", "--kv-memory", "1GB", *options)


class QuietServer(Server):
    """With one thread, so that what else the machine does is not disturbed."""

    def start(self, command, **options):
        return subprocess.Popen([*command, "--threads", "1"], **options)
