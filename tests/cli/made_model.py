"""Shared by the tests of commands that run a model: makes small random models and runs kvick on them.

The environment variables KVICK and MAKE_MODEL are the paths of the programs.
"""

import json
import os
import pathlib
import random
import struct
import subprocess
import tempfile
import unittest

KVICK = os.environ["KVICK"]
MAKE_MODEL = os.environ["MAKE_MODEL"]
SMALL = ("--layers", "2", "--dim", "64", "--ffn", "96", "--heads", "4", "--vocab", "512", "--context", "256")
SENTENCE = "All happy families are alike; each unhappy family is unhappy in its own way. "


def make_model(path, *arguments):
    subprocess.run([MAKE_MODEL, "-o", path, *arguments], check=True, stdin=subprocess.DEVNULL, timeout=120)


def make_adapter(folder, rank=2, dim=64, **config):
    """Writes a PEFT adapter that changes the output matrix of the first layer's attention."""
    folder.mkdir(exist_ok=True)
    header, data, draw = {}, b"", random.Random(1)
    for half, shape in ("A", [rank, dim]), ("B", [dim, rank]):
        floats = struct.pack(f"<{rank * dim}f", *(draw.gauss(0, 1) for _ in range(rank * dim)))
        header[f"base_model.model.model.layers.0.self_attn.o_proj.lora_{half}.weight"] = {
            "dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(floats)]}
        data += floats
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": 16, **config}
    (folder / "adapter_config.json").write_text(json.dumps(settings))


class CommandTest(unittest.TestCase):
    """Each test has a new folder and a new cache folder. All tests of a class share one Q8_0 model."""

    COMMAND = ""  # the subcommand of kvick under test

    @classmethod
    def setUpClass(cls):
        cls.models = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.models.cleanup)
        cls.model = str(pathlib.Path(cls.models.name) / "model.gguf")
        make_model(cls.model, *SMALL, "--type", "Q8_0")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.cache = self.top / "cache"
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.top), "XDG_CACHE_HOME": str(self.cache), "LC_ALL": "C"}
        if "KVICK_ISA" in os.environ:
            self.env["KVICK_ISA"] = os.environ["KVICK_ISA"]

    def write_text(self, sentences=8):
        """Writes a text that repeats one sentence, and returns its path."""
        path = self.top / "text.txt"
        path.write_text(SENTENCE * sentences)
        return path

    def as_command(self, command):
        """Switches this test to another command, with the same folder and model; returns self."""
        self.COMMAND = command
        return self

    def kvick(self, *arguments, model=None, status=0):
        done = subprocess.run([KVICK, *self.COMMAND.split(), "-m", model or self.model, "--threads", "2", *map(str, arguments)],
                              env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, status, done)
        return done

    def json_of(self, *arguments, model=None):
        lines = self.kvick("--json", *arguments, model=model).stdout.splitlines()
        self.assertEqual(len(lines), 1, lines)
        return json.loads(lines[0])

    def refused(self, *arguments, says, model=None):
        """Checks that kvick reports a mistake of the user: exit status 2, empty stdout, and one line on stderr that matches `says`."""
        done = self.kvick("--quiet", *arguments, model=model, status=2)
        lines = done.stderr.splitlines()
        self.assertEqual((len(lines), done.stdout), (1, ""), done)
        self.assertTrue(lines[0].startswith("kvick: "), lines)
        self.assertRegex(lines[0], says)
