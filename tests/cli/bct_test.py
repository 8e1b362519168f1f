#!/usr/bin/env python3
"""Models with memory slots (BCT): they get the bounded cache, and options that do not fit are refused."""

import pathlib
import unittest

from made_model import SMALL, CommandTest, make_model

MEMORY = 2 * 2 * 48 * 32 * 4  # layers, KV heads, slots, head_dim, bytes of a float


class BctTest(CommandTest):
    COMMAND = "ppl"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bct = str(pathlib.Path(cls.models.name) / "bct.gguf")
        make_model(cls.bct, *SMALL, "--arch", "bct", "--slots", "48", "--head-dim", "32", "--type", "Q8_0")

    def setUp(self):
        super().setUp()
        self.text = self.write_text()

    def test_its_memory_does_not_depend_on_the_window(self):
        for window in (16, 128):
            result = self.json_of("-f", self.text, "--ctx", window, model=self.bct)
            self.assertEqual(result["kv_bytes"], MEMORY)
            self.assertEqual(result["kv_read_bytes_per_token"], 2 * MEMORY, "keys and values")

    def test_unsuitable_options_are_refused(self):
        self.refused("-f", self.text, "--ctx", 64, "--kv", "paged", model=self.bct,
                     says="trained with a memory of slots, which paged does not keep: use bounded$")
        self.refused("-f", self.text, "--ctx", 64, "--kv-type", "q8", model=self.bct, says="which it keeps as f32")
        self.refused("-f", self.text, "--ctx", 64, "--kv", "bounded",
                     says=r"memory of slots \(architecture bct\), and this one was not: use one of virtual,")


if __name__ == "__main__":
    unittest.main()
