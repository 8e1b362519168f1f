#!/usr/bin/env python3
"""`kvick embed` and the embedding routes of `kvick serve`, which give the same vectors."""

import base64
import json
import math
import struct
import subprocess
import unittest

from made_model import KVICK, SMALL, CommandTest, make_model
from server_process import Server

WIDTH = 64
TEXTS = ["one two three", "four", "five six " * 12, "one two three four"]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def length(vector):
    return math.sqrt(dot(vector, vector))


class EmbedTest(CommandTest):
    COMMAND = "embed"

    def lines_of(self, *arguments, **options):
        return [json.loads(line) for line in self.kvick("--quiet", *arguments, **options).stdout.splitlines()]

    def vectors(self, *arguments, **options):
        return [line["embedding"] for line in self.lines_of(*arguments, **options)]

    def from_stdin(self, text, *arguments):
        return subprocess.run([KVICK, "embed", "-m", self.model, "--quiet", "--threads", "2", *arguments], env=self.env,
                              input=text, capture_output=True, text=True, timeout=240)


class Command(EmbedTest):
    def test_each_text_has_a_line_in_the_given_order(self):
        lines = self.lines_of(*TEXTS)
        self.assertEqual([line["index"] for line in lines], [0, 1, 2, 3])
        self.assertGreater(lines[2]["tokens"], lines[1]["tokens"])
        many = self.lines_of(*["four"] * 1100)  # more than the engine's queue holds
        self.assertEqual([line["index"] for line in many], list(range(1100)))
        for line in lines:
            self.assertEqual(len(line["embedding"]), WIDTH)
            self.assertAlmostEqual(length(line["embedding"]), 1, places=5)
        self.assertEqual(self.vectors(TEXTS[1]), [lines[1]["embedding"]])

    def test_each_line_of_stdin_is_a_text(self):
        done = self.from_stdin("".join(f"{text}\n" for text in TEXTS))
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertEqual([json.loads(line) for line in done.stdout.splitlines()], self.lines_of(*TEXTS))
        many = self.from_stdin("four\n" * 300)
        lines = many.stdout.splitlines()
        self.assertEqual([json.loads(line)["index"] for line in lines], list(range(300)))
        self.assertEqual(len({line.partition('"tokens"')[2] for line in lines}), 1)
        self.assertEqual(self.from_stdin("").stdout, "")

    def test_pooling_chooses_the_states(self):
        last, mean, cls, default = (self.vectors(TEXTS[0], *option) for option in
                                    (["--pooling", "last"], ["--pooling", "mean"], ["--pooling", "cls"], []))
        self.assertEqual(default, last)
        self.assertNotEqual(mean, last)
        self.assertNotEqual(cls, last)
        self.assertNotEqual(cls, mean)
        first = self.vectors(TEXTS[3], "--pooling", "cls")
        self.assertEqual(first, cls, "texts that begin with the same token differ")

    def test_dimensions_and_lengths(self):
        plain = self.vectors(TEXTS[0], "--no-normalize")[0]
        self.assertNotAlmostEqual(length(plain), 1, places=2)
        whole, short = (self.vectors(TEXTS[0], *option)[0] for option in ([], ["--dimensions", "8"]))
        self.assertEqual(len(short), 8)
        for i in range(8):
            self.assertAlmostEqual(whole[i], plain[i] / length(plain), places=5)
            self.assertAlmostEqual(short[i], plain[i] / length(plain[:8]), places=5)

    def test_all_exact_caches_give_the_same_vector(self):
        whole = self.vectors(*TEXTS)
        for strategy in ("paged:block=4", "bmc:r=16", "upfront"):
            self.assertEqual(self.vectors(*TEXTS, "--kv", strategy), whole, strategy)

    def test_errors_are_one_line(self):
        self.refused("x", "--dimensions", WIDTH + 1, says=rf"--dimensions is {WIDTH + 1}, but the model's embeddings have {WIDTH}")
        self.refused("x", "--pooling", "max", says="max")
        self.refused("word " * 500, says="text 1: the prompt has .* the context holds 256; shorten it")


class Routes(EmbedTest):
    def setUp(self):
        super().setUp()
        self.server = self.serve("--name", "made")

    def serve(self, *arguments):
        server = Server(self.top, self.env, self.model, *arguments)
        self.addCleanup(server.kill)
        return server

    def embed(self, texts, server=None, **body):
        status, answer = (server or self.server).post("/v1/embeddings", input=texts, **body)
        self.assertEqual(status, 200, answer)
        self.assertEqual([one["index"] for one in answer["data"]], list(range(len(answer["data"]))))
        return answer

    def vectors_of(self, texts, **body):
        return [one["embedding"] for one in self.embed(texts, **body)["data"]]

    def test_the_server_gives_the_same_vectors_as_the_command(self):
        answer = self.embed(TEXTS, model="made")
        lines = self.lines_of(*TEXTS)
        self.assertEqual([one["embedding"] for one in answer["data"]], [line["embedding"] for line in lines])
        tokens = sum(line["tokens"] for line in lines)
        self.assertEqual(answer["usage"], {"prompt_tokens": tokens, "total_tokens": tokens})
        self.assertEqual(self.vectors_of(TEXTS, dimensions=8), self.vectors(*TEXTS, "--dimensions", 8))

    def test_base64_gives_the_same_floats(self):
        for text, vector in zip(self.vectors_of(TEXTS, encoding_format="base64"), self.vectors_of(TEXTS)):
            floats = struct.unpack(f"<{WIDTH}f", base64.b64decode(text))
            self.assertEqual(floats, struct.unpack(f"<{WIDTH}f", struct.pack(f"<{WIDTH}f", *vector)))

    def test_tokens_are_accepted(self):
        status, answer = self.server.post("/tokenize", prompt=TEXTS[0])
        self.assertEqual(status, 200)
        whole = self.vectors_of(TEXTS[0])
        self.assertEqual(self.vectors_of(answer["tokens"]), whole)
        self.assertEqual(self.vectors_of([answer["tokens"]] * 2), whole * 2)

    def test_a_batch_larger_than_the_queue_is_answered(self):
        server = self.serve("--max-queue", "8", "--max-seqs", "2")
        texts = [f"text {i}" for i in range(200)]
        self.assertEqual([one["embedding"] for one in self.embed(texts, server)["data"]], self.vectors_of(texts))

    def test_the_server_has_one_pooling(self):
        server = self.serve("--pooling", "mean")
        vectors = [one["embedding"] for one in self.embed(TEXTS, server)["data"]]
        self.assertEqual(vectors, self.vectors(*TEXTS, "--pooling", "mean"))

    def test_answers_continue_during_embeddings(self):
        body = {"prompt": "one", "max_tokens": 24, "temperature": 0, "ignore_eos": True}
        alone = self.server.post("/v1/completions", **body)[1]["choices"][0]["text"]
        pieces = self.server.events("/v1/completions", **body)
        text = next(pieces)["choices"][0]["text"]
        vectors = self.vectors_of(TEXTS * 8)
        text += "".join(piece["choices"][0]["text"] for piece in pieces)
        self.assertEqual(text, alone)
        self.assertEqual(vectors, self.vectors_of(TEXTS) * 8)

    def test_rerank_puts_the_same_text_first(self):
        for path in ("/v1/rerank", "/rerank"):
            status, answer = self.server.post(path, query=TEXTS[0], documents=[TEXTS[1], {"text": TEXTS[0]}, TEXTS[2]], top_n=2,
                                              return_documents=True)
            self.assertEqual(status, 200, answer)
            first, second = answer["results"]
            self.assertEqual((first["index"], first["document"]), (1, {"text": TEXTS[0]}))
            self.assertAlmostEqual(first["relevance_score"], 1, places=6)
            vectors = self.vectors_of(TEXTS)
            self.assertAlmostEqual(second["relevance_score"], max(dot(vectors[0], vectors[1]), dot(vectors[0], vectors[2])), places=5)

    def test_scores_are_cosines(self):
        status, answer = self.server.post("/score", text_1=TEXTS[0], text_2=TEXTS)
        self.assertEqual(status, 200, answer)
        vectors = self.vectors_of(TEXTS)
        for one, vector in zip(answer["data"], vectors):
            self.assertAlmostEqual(one["score"], dot(vectors[0], vector), places=5)

    def test_errors_name_the_parameter(self):
        for path, body, param in (("/v1/embeddings", {}, "input"), ("/v1/embeddings", {"input": [[70000]]}, "input"),
                                  ("/v1/embeddings", {"input": "x", "dimensions": WIDTH + 1}, "dimensions"),
                                  ("/v1/embeddings", {"input": ["x"] * 2049}, "input"),
                                  ("/v1/embeddings", {"input": "x", "model": "other"}, "model"),
                                  ("/v1/rerank", {"query": "x"}, "documents"),
                                  ("/score", {"text_1": ["a", "b"], "text_2": ["c"]}, "text_1")):
            status, answer = self.server.post(path, **body)
            self.assertEqual(status, 404 if param == "model" else 400, answer)
            self.assertEqual(answer["error"]["param"], param)
        status, answer = self.server.post("/v1/embeddings", input=["x", "word " * 500])
        self.assertEqual((status, answer["error"]["code"], answer["error"]["param"]), (400, "context_length_exceeded", "input"))
        self.assertEqual(len(self.vectors_of("x")[0]), WIDTH)


class OtherFamilies(EmbedTest):
    def test_other_families_embed(self):
        for arch in ("qwen2", "qwen3", "opt"):
            path = str(self.top / (arch if arch == "opt" else f"{arch}.gguf"))
            make_model(path, *SMALL, "--arch", arch, "--type", "F16", "--format", "hf" if arch == "opt" else "gguf")
            vectors = self.vectors(*TEXTS[:2], "--pooling", "mean", model=path)
            self.assertEqual([len(vector) for vector in vectors], [WIDTH, WIDTH], arch)
            self.assertNotEqual(*vectors)


if __name__ == "__main__":
    unittest.main(verbosity=1)
