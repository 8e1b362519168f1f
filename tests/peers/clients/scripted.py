"""A server of three scripted models, each of which gives one fixed answer. Small real models could not carry on agents' conversations."""

import json
import os
import pathlib
import subprocess
import sys

PEERS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(PEERS), str(PEERS.parent / "cli")]
os.environ.setdefault("MAKE_MODEL", "")  # made_model.py reads it; not used here

from replay_model import Replay  # noqa: E402
from server_process import Server  # noqa: E402

SAID = "The tool said that all is well here."
FORM = {"heads": True}
MARKS = {**dict.fromkeys("<|endoftext|> <|im_start|> <|im_end|>".split(), True),
         **dict.fromkeys("<tool_call> </tool_call> <tool_response> </tool_response>".split(), False)}
CONTEXT = 1 << 18  # prompts of agents have some hundred kilobytes, and each byte is a token


def serve(folder, tool, arguments, *options):
    """Starts the server with the models `kvick`, `call` and `form`."""
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
    """A server with one thread, so that it does not slow down the clients."""

    def start(self, command, **options):
        return subprocess.Popen([*command, "--threads", "1"], **options)
