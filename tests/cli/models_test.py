#!/usr/bin/env python3
"""`kvick serve` with several models: requests choose them by name; they are loaded on first use and unloaded to make room."""

import pathlib
import time
import unittest

from made_model import SMALL, CommandTest, make_model
from server_process import SECONDS, Server

PROMPT = "All happy families are alike."


class SeveralModels(CommandTest):
    COMMAND = "serve"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = pathlib.Path(cls.models.name)
        cls.others = [str(folder / name) for name in ("second.gguf", "third.gguf")]
        for seed, path in enumerate(cls.others, 2):
            make_model(path, *SMALL, "--type", "Q8_0", "--seed", str(seed))
        torn = pathlib.Path(folder / "torn.gguf")
        torn.write_bytes(pathlib.Path(cls.model).read_bytes()[:1000])
        cls.torn = str(torn)

    def serve(self, *models, options=()):
        more = [word for model in models for word in ("-m", model)]
        server = Server(self.top, self.env, self.model, *more, *options)
        self.addCleanup(server.kill)
        return server

    def text(self, server, model):
        status, answer = server.post("/v1/completions", model=model, prompt=PROMPT, max_tokens=12, temperature=0,
                                     ignore_eos=True)
        self.assertEqual((status, answer.get("model")), (200, model), answer)
        return answer["choices"][0]["text"]

    def loaded(self, server):
        status, answer = server.ask("GET", "/v1/models")
        self.assertEqual(status, 200)
        return [model["id"] for model in answer["data"] if model["loaded"]]

    def test_each_model_answers_as_if_it_were_alone(self):
        server = self.serve(*self.others)
        self.assertEqual(self.loaded(server), ["model"])
        texts = [self.text(server, name) for name in ("model", "second", "third")]
        self.assertEqual(self.loaded(server), ["model", "second", "third"])
        for path, name, text in zip([self.model, *self.others], ("model", "second", "third"), texts):
            alone = Server(self.top, self.env, path)
            self.addCleanup(alone.kill)
            self.assertEqual(self.text(alone, name), text)
            alone.kill()

    def test_the_least_recently_used_model_is_unloaded(self):
        # Most of a model's memory is its --kv-memory, so two models fit in 160MB and three do not.
        server = self.serve(*self.others, options=("--kv-memory", "64MB", "--models-memory", "160MB"))
        first = self.text(server, "model")
        self.text(server, "second")
        self.text(server, "model")
        self.text(server, "third")
        self.assertEqual(self.loaded(server), ["model", "third"])
        self.text(server, "second")
        self.assertEqual(self.text(server, "model"), first)

    def test_a_preload_that_does_not_fit_is_reported(self):
        server = self.serve(*self.others, options=("--kv-memory", "64MB", "--models-memory", "160MB", "--preload"))
        self.assertEqual(self.loaded(server), ["second", "third"])
        self.assertRegex((self.top / "serve.log").read_text(), r"--preload: not all models fit in \d+ MB .*: model will be")

    def test_a_model_that_cannot_be_loaded_does_not_affect_others(self):
        server = self.serve(self.torn)
        for _ in range(2):
            status, answer = server.post("/v1/completions", model="torn", prompt=PROMPT)
            self.assertEqual(status, 500, answer)
            self.assertIn("torn", answer["error"]["message"])
        self.text(server, "model")

    def test_an_unknown_name_lists_the_known_ones(self):
        server = self.serve(self.others[0], options=("--name", "a", "--name", "b", "--preload"))
        self.assertEqual(self.loaded(server), ["a", "b"])
        status, answer = server.post("/v1/completions", model="c", prompt=PROMPT)
        self.assertEqual(status, 404)
        self.assertRegex(answer["error"]["message"], "a.*b")
        status, tags = server.ask("GET", "/api/tags")
        self.assertEqual([model["name"] for model in tags["models"]], ["a:latest", "b:latest"])
        status, metrics = server.ask("GET", "/metrics")
        self.assertIn('kvick_steps_total{model="b"}', metrics)

    def test_a_running_answer_keeps_its_model_loaded(self):
        server = self.serve(*self.others, options=("--kv-memory", "64MB", "--models-memory", "100MB"))
        stream = server.events("/v1/completions", model="model", prompt=PROMPT, max_tokens=150, temperature=0, ignore_eos=True)
        pieces = [next(stream)]
        statuses = set()
        for name in ("second", "third"):
            statuses.add(server.post("/v1/completions", model=name, prompt=PROMPT, max_tokens=1)[0])
        self.assertLessEqual(statuses, {200, 503})  # 503 if the stream had not ended yet
        pieces += stream
        self.assertEqual(pieces[-1]["choices"][0]["finish_reason"], "length")
        until = time.monotonic() + SECONDS
        while server.post("/v1/completions", model="second", prompt=PROMPT, max_tokens=1)[0] != 200:
            self.assertLess(time.monotonic(), until, "the model of the ended stream is still in use")

    def test_wrong_options_are_refused(self):
        two = ("-m", self.others[0])
        self.refused("-m", self.model, says="two models are called model")
        self.refused(*two, "--name", "a", says="--name was given 1 times, and there are 2 models")
        self.refused(*two, "--kv-dir", self.top / "kv", says="--kv-dir takes one model")
        self.refused("--preload", says="for several models")
        self.refused(*two, "--port", "0", "--models-memory", "1MB", "--kv-memory", "64MB", says="--models-memory")
        self.refused("--port", "0", "-m", self.top / "none.gguf", says="none.gguf")


if __name__ == "__main__":
    unittest.main()
