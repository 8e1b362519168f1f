#!/usr/bin/env python3
"""GGUF files that are split into several parts: every command treats the parts as one model."""

import json
import pathlib
import struct
import subprocess
import unittest

from made_model import KVICK, CommandTest

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of GGUF's plain value types
STRING, ARRAY = 8, 9
ALIGNMENT = 32


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def padded(data):
    return data + bytes(-len(data) % ALIGNMENT)


class Gguf:
    """The content of a GGUF file: its metadata as bytes, and tensors as (name, description without the offset, data)."""

    def __init__(self, path):
        self.data = pathlib.Path(path).read_bytes()
        self.at = 8
        tensors, self.keys = self.take("<QQ")
        begin = self.at
        for _ in range(self.keys):
            self.string()
            self.value(self.take("<I")[0])
        self.metadata = self.data[begin:self.at]
        found = [self.description() for _ in range(tensors)]
        start = len(padded(self.data[:self.at]))
        ends = [offset for _, _, offset in found[1:]] + [len(self.data) - start]
        self.tensors = [(name, what, self.data[start + offset:start + end]) for (name, what, offset), end in zip(found, ends)]

    def take(self, form):
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values

    def string(self):
        length = self.take("<Q")[0]
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            inner, count = self.take("<IQ")
            for _ in range(count):
                self.value(inner)
        else:
            self.at += SIZES[kind]

    def description(self):
        name = self.string()
        begin = self.at
        self.take(f"<{self.take('<I')[0]}Q")
        self.take("<I")
        return name, self.data[begin:self.at], self.take("<Q")[0]


def write_part(path, number, count, whole, tensors):
    """Writes part `number`, counted from 0. Part 0 has the metadata."""
    keys = (text("split.no") + struct.pack("<IH", 2, number) + text("split.count") + struct.pack("<IH", 2, count) +
            text("split.tensors.count") + struct.pack("<Ii", 5, len(whole.tensors)))
    described, data = b"", b""
    for name, what, values in tensors:
        described += text(name) + what + struct.pack("<Q", len(data))
        data += padded(values)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 3 + (whole.keys if number == 0 else 0))
    head += (whole.metadata if number == 0 else b"") + keys + described
    path.write_bytes(padded(head) + data)


class SplitTest(CommandTest):
    COMMAND = "run"

    def setUp(self):
        super().setUp()
        whole = Gguf(self.model)
        third = len(whole.tensors) // 3
        pieces = whole.tensors[:third], whole.tensors[third:2 * third], whole.tensors[2 * third:]
        self.parts = [self.top / f"m-{i + 1:05}-of-00003.gguf" for i in range(3)]
        for i, tensors in enumerate(pieces):
            write_part(self.parts[i], i, 3, whole, tensors)

    def tokens(self, model):
        return self.json_of("-p", "one two", "-n", "8", "--temp", "0", "--ignore-eos", model=model)["tokens"]

    def test_answers_equal_those_of_the_whole_file(self):
        self.assertEqual(self.tokens(self.parts[0]), self.tokens(self.model))
        self.assertEqual(len(self.tokens(self.model)), 8)

    def test_a_part_alone_is_refused(self):
        self.refused("-p", "x", model=self.parts[1], says="part 2 of 3 of a split GGUF: give its first part, .*m-00001-of-00003.gguf")
        self.parts[2].unlink()
        self.refused("-p", "x", model=self.parts[0], says="part 3 of 3 is missing: there is no .*m-00003-of-00003.gguf")

    def test_packed_weights_depend_on_all_parts(self):
        packed = ("-p", "one two", "-n", "8", "--temp", "0", "--ignore-eos", "--packed", self.top / "packed")
        first = self.json_of(*packed, model=self.parts[0])["tokens"]
        self.assertEqual(self.json_of(*packed, model=self.parts[0])["tokens"], first)
        data = bytearray(self.parts[2].read_bytes())
        data[-1] ^= 1
        self.parts[2].write_bytes(data)
        self.json_of(*packed, model=self.parts[0])
        self.assertEqual(len(list((self.top / "packed").glob("*.packed"))), 2, "another part, other weights")

    def test_quantize_writes_one_file(self):
        out = self.top / "out.gguf"
        subprocess.run([KVICK, "quantize", str(self.parts[0]), "-o", str(out), "--type", "Q8_0"], env=self.env, check=True,
                       stdin=subprocess.DEVNULL, capture_output=True, timeout=240)
        self.assertEqual(len(self.tokens(out)), 8)

    def test_inspect_shows_all_parts(self):
        def shown(path):
            done = subprocess.run([KVICK, "inspect", "--json", str(path)], env=self.env, check=True, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=60)
            return json.loads(done.stdout)["parameters"]

        self.assertEqual(shown(self.parts[0]), shown(self.model))
        self.assertLess(shown(self.parts[1]), shown(self.model))


if __name__ == "__main__":
    unittest.main(verbosity=1)
