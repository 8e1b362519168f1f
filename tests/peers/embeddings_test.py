#!/usr/bin/env python3
"""Embeddings through the `openai` package, which asks for base64 by default.

The environment variables KVICK and MAKE_MODEL are the paths of the programs, PEERS is the folder for packages.
"""

import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from peer_packages import run_with_packages  # noqa: E402

if __name__ == "__main__":
    run_with_packages()

import openai  # noqa: E402

from made_model import SMALL, make_model  # noqa: E402
from server_process import Server  # noqa: E402

TEXTS = ["one two three", "four", "one two three"]


class Embeddings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        top = pathlib.Path(folder.name)
        make_model(str(top / "model.gguf"), *SMALL, "--type", "Q8_0")
        environment = {"PATH": os.environ["PATH"], "HOME": str(top), "XDG_CACHE_HOME": str(top / "cache")}
        cls.server = Server(top, environment, top / "model.gguf", "--name", "served", "--strict-fields")
        cls.addClassCleanup(cls.server.kill)
        cls.client = openai.OpenAI(base_url=f"http://127.0.0.1:{cls.server.port}/v1", api_key="none", timeout=60, max_retries=0)
        cls.addClassCleanup(cls.client.close)

    def embed(self, texts, **more):
        return self.client.embeddings.create(model="served", input=texts, **more)

    def test_base64_and_lists_of_numbers_give_the_same_values(self):
        answer, lists = self.embed(TEXTS), self.embed(TEXTS, encoding_format="float")
        self.assertEqual([one.index for one in answer.data], [0, 1, 2])
        self.assertEqual(answer.data[0].embedding, answer.data[2].embedding)
        self.assertNotEqual(answer.data[0].embedding, answer.data[1].embedding)
        for one, numbers in zip(answer.data, lists.data):
            self.assertEqual(len(one.embedding), 64)
            for a, b in zip(one.embedding, numbers.embedding):
                self.assertAlmostEqual(a, b, places=6)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens)
        self.assertGreater(answer.usage.prompt_tokens, 0)

    def test_dimensions_and_user(self):
        short = self.embed(TEXTS[0], dimensions=8, user="me").data[0].embedding
        self.assertEqual(len(short), 8)
        self.assertAlmostEqual(sum(x * x for x in short), 1, places=5)

    def test_errors_become_exceptions_of_the_package(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.embed([])
        self.assertEqual(caught.exception.param, "input")
        with self.assertRaises(openai.NotFoundError):
            self.client.embeddings.create(model="other", input="x")


if __name__ == "__main__":
    unittest.main(verbosity=1)
