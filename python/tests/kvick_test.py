#!/usr/bin/env python3
"""Tests the Python package on a small random model.

MAKE_MODEL: path of the make_model program. DOUBLING_PLUGIN (optional): path of the example plugin.
"""

import asyncio
import importlib.util
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

import kvick
from kvick import _program

# The head dimension is 32, a multiple of q8's block size.
SMALL = ("--layers", "2", "--dim", "64", "--ffn", "96", "--heads", "2", "--vocab", "512", "--context", "256", "--type", "Q8_0")
TEXT = "All happy families are alike; each unhappy family is unhappy in its own way. "
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one two"}]
SHAPE = "layers=2,heads=4,kv_heads=2,head_dim=32,context=300"
needs_numpy = unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")


class KvickTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        os.environ["XDG_CACHE_HOME"] = folder.name  # hides the user's models; the machine is calibrated once for all tests
        cls.path = os.path.join(folder.name, "model.gguf")
        subprocess.run([os.environ["MAKE_MODEL"], "-o", cls.path, *SMALL], check=True, stdin=subprocess.DEVNULL, timeout=120)
        cls.model = cls.open("paged")

    @classmethod
    def open(cls, kv, threads=2):
        # Exact, because only some strategies support AMX tiles, whose results differ slightly.
        return kvick.Model(cls.path, kv=kv, kv_type="q8", prompt_arithmetic="exact", threads=threads)

    def python(self, code, *arguments):
        return subprocess.run([sys.executable, "-c", code, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=240)


class Answers(KvickTest):
    def greedy(self, prompt="one two", **options):
        return self.model.generate(prompt, temperature=0, max_tokens=20, ignore_end=True, **options)

    def test_a_text_is_gone_on_from(self):
        answer = self.greedy()
        self.assertEqual((len(answer.tokens), answer.finish_reason), (20, "length"))
        self.assertEqual(answer.usage["prompt_tokens"], len(self.model.tokenize("one two", special=True)))
        self.assertEqual(answer.usage["total_tokens"], answer.prompt_tokens + 20)
        self.assertEqual(str(answer), answer.text)

    def test_every_strategy_answers_the_same(self):
        expected = self.greedy().tokens
        for kv in "virtual", "bmc:r=8", "upfront":
            other = self.open(kv, threads=1)
            self.assertEqual(other.generate("one two", temperature=0, max_tokens=20, ignore_end=True).tokens, expected, kv)

    def test_tokens_are_a_prompt_too(self):
        tokens = self.model.tokenize("one two", special=True)
        self.assertEqual(self.greedy(tokens).tokens, self.greedy().tokens)

    def test_a_seed_repeats_an_answer(self):
        answers = [self.model.generate("one", temperature=1.5, top_k=0, max_tokens=30, seed=seed).tokens for seed in (1, 1, 2)]
        self.assertEqual(answers[0], answers[1])
        self.assertNotEqual(answers[0], answers[2])

    def test_sampling_that_is_not_given_is_as_the_model_says(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([os.environ["MAKE_MODEL"], "-o", folder, "--format", "hf", *SMALL[:-1], "BF16"], check=True,
                           stdin=subprocess.DEVNULL, timeout=120)
            pathlib.Path(folder, "generation_config.json").write_text('{"do_sample": true, "top_k": 1}', encoding="utf-8")
            model = kvick.Model(folder, prompt_arithmetic="exact", threads=2)
            likeliest = model.generate("one two", temperature=0, max_tokens=6).tokens
            for seed in range(3):
                self.assertEqual(model.generate("one two", seed=seed, max_tokens=6).tokens, likeliest)
            self.assertEqual([answer.tokens for answer in model.batch(["one two"] * 2, max_tokens=6)], [likeliest] * 2)

    def test_messages_go_through_the_chat_template(self):
        answer = self.model.chat(MESSAGES, temperature=0, max_tokens=8, ignore_end=True)
        text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in MESSAGES) + "<|im_start|>assistant\n"
        self.assertEqual(answer.tokens, self.greedy(self.model.tokenize(text, special=True)).tokens[:8])
        again = self.model.chat(MESSAGES + [{"role": "assistant", "content": answer.text}, {"role": "user", "content": "three"}],
                                max_tokens=1)
        self.assertGreater(again.prompt_tokens, answer.prompt_tokens)

    def test_an_answer_keeps_to_a_schema(self):
        schema = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 120}}, "required": ["age"],
                  "additionalProperties": False}
        answer = self.model.generate("Who?", schema=schema, temperature=1, top_k=0, seed=3)
        self.assertIn(json.loads(answer.text)["age"], range(121))

    def test_a_stop_text_ends_the_answer(self):
        text = self.greedy().text
        piece = text[4:6]
        answer = self.greedy(stop=piece)
        self.assertEqual((answer.text, answer.finish_reason), (text[:text.index(piece)], "stop"))

    def test_pieces_are_the_answer(self):
        pieces = []
        answer = self.greedy(on_text=pieces.append)
        self.assertEqual("".join(pieces), answer.text)
        stream = self.model.stream("one two", temperature=0, max_tokens=20, ignore_end=True)
        self.assertEqual("".join(stream), answer.text)
        self.assertEqual(stream.answer.tokens, answer.tokens)

    def test_a_callback_and_a_left_loop_end_the_answer(self):
        self.assertEqual(self.greedy(on_text=lambda piece: not piece).finish_reason, "cancelled")
        before = self.greedy("seven eight nine", on_text=lambda piece: False)
        self.assertEqual((before.tokens, before.finish_reason), ([], "cancelled"), "while the prompt is read")
        stream = self.model.stream("one two", max_tokens=200, ignore_end=True)
        for _ in stream:
            break
        self.assertIn(stream.answer.finish_reason, ("cancelled", "length"))
        self.assertEqual(len(self.greedy().tokens), 20)

    def test_ctrl_c_ends_the_answer(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        pieces = []

        def interrupt(piece):
            pieces.append(piece)
            os.kill(os.getpid(), signal.SIGINT)
            return True

        with self.assertRaises(KeyboardInterrupt):
            self.greedy(on_text=interrupt)
        self.assertLessEqual(len(pieces), 2)
        self.assertEqual(len(self.greedy().tokens), 20)

    def test_ctrl_c_ends_the_wait_for_another_thread(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        computes, done = threading.Event(), threading.Event()

        def wait(_):
            computes.set()
            return done.wait(60)

        other = threading.Thread(target=self.greedy, kwargs={"on_text": wait})
        other.start()
        self.assertTrue(computes.wait(60))
        with self.assertRaises(KeyboardInterrupt):
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
            self.greedy()
        self.assertTrue(other.is_alive())
        done.set()
        other.join()
        self.assertEqual(len(self.greedy().tokens), 20)

    def test_what_a_callback_raises_comes_out(self):
        self.assertRaises(ZeroDivisionError, self.greedy, on_text=lambda piece: 1 / 0)
        stream = self.model.stream("one", temperature=-1)
        self.assertRaisesRegex(kvick.Error, "temperature", list, stream)
        with self.assertRaisesRegex(kvick.Error, "the model is computing"):
            self.greedy(on_text=lambda piece: bool(self.greedy()))


class Batches(KvickTest):
    PROMPTS = ["one two", "three four five six seven", "eight", MESSAGES, "one two three " * 12]
    OPTIONS = {"temperature": 0, "max_tokens": 20, "ignore_end": True}

    def test_answers_are_those_of_prompts_one_by_one(self):
        prompts = [*self.PROMPTS, self.model.tokenize("nine", special=True)]
        expected = [self.model.generate(prompt, **self.OPTIONS) for prompt in prompts]
        for parallel in 1, 4, 64:
            answers = self.model.batch(prompts, parallel=parallel, **self.OPTIONS)
            for answer, one in zip(answers, expected):
                self.assertEqual((answer.text, answer.tokens, answer.finish_reason, answer.prompt_tokens),
                                 (one.text, one.tokens, one.finish_reason, one.prompt_tokens))
                self.assertGreater(answer.decode_s, 0)
        self.assertEqual(self.model.batch([]), [])

    def test_each_prompt_has_a_seed_of_its_own(self):
        options = {"temperature": 1.5, "top_k": 0, "max_tokens": 30}
        answers = self.model.batch(["one"] * 3, seed=7, **options)
        self.assertEqual([answer.tokens for answer in answers],
                         [self.model.generate("one", seed=7 + i, **options).tokens for i in range(3)])
        self.assertNotEqual(answers[0].tokens, answers[1].tokens)

    def test_prompts_that_begin_alike_are_read_once(self):
        begin = "all of them begin with this " * 6
        answers = self.model.batch([begin + end for end in ("one", "two", "three")], parallel=1, **self.OPTIONS)
        self.assertEqual(answers[0].cached_tokens, 0)
        for answer in answers[1:]:
            self.assertGreater(answer.cached_tokens, answer.prompt_tokens // 2)

    def test_a_callback_is_told_of_each_answer_and_ends_the_rest(self):
        told = {}
        answers = self.model.batch(self.PROMPTS, on_answer=told.__setitem__, **self.OPTIONS)
        self.assertEqual(told, dict(enumerate(answers)))
        told = []
        options = {**self.OPTIONS, "max_tokens": 200}
        # Enough prompts that some are still waiting when on_answer returns False for the first one.
        answers = self.model.batch(["one"] * 100, parallel=1, on_answer=lambda number, answer: told.append(number), **options)
        self.assertEqual(sorted(told), list(range(100)))
        told.clear()
        answers = self.model.batch(["one"] * 500, parallel=1, on_answer=lambda number, answer: bool(told.append(number)), **options)
        self.assertEqual(told, [0])
        self.assertEqual(len(answers[0].tokens), 200)
        self.assertEqual(answers[-1].finish_reason, "cancelled")
        self.assertRaises(ZeroDivisionError, self.model.batch, ["one"], on_answer=lambda number, answer: 1 / 0, **self.OPTIONS)

    def test_a_schema_holds_for_all(self):
        schema = {"enum": ["red", "green", "blue"]}
        for answer in self.model.batch(["A colour:", "Another:"], schema=schema, temperature=1, seed=1):
            self.assertIn(json.loads(answer.text), schema["enum"])

    def test_ctrl_c_ends_it(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

        def interrupt(number, answer):
            os.kill(os.getpid(), signal.SIGINT)

        with self.assertRaises(KeyboardInterrupt):
            self.model.batch(["one"] * 50, parallel=1, on_answer=interrupt, **self.OPTIONS)
        self.assertEqual(len(self.model.batch(["one"], **self.OPTIONS)[0].tokens), 20)

    def test_what_the_one_sequence_holds_is_not_lost(self):
        long = "one two three " * 12
        self.model.generate(long, **self.OPTIONS)
        self.model.batch(["four"], **self.OPTIONS)
        self.assertGreater(self.model.generate(long, **self.OPTIONS).cached_tokens, 10)


class Asyncio(KvickTest):
    OPTIONS = {"temperature": 0, "max_tokens": 20, "ignore_end": True}

    def test_answers_and_pieces(self):
        async def all_of_them():
            answers = await asyncio.gather(*(self.model.agenerate(prompt, **self.OPTIONS) for prompt in ("one two", "three")))
            stream = self.model.astream("one two", **self.OPTIONS)
            return answers, [piece async for piece in stream], stream.answer

        answers, pieces, answer = asyncio.run(all_of_them())
        self.assertEqual([one.tokens for one in answers],
                         [self.model.generate(prompt, **self.OPTIONS).tokens for prompt in ("one two", "three")])
        self.assertEqual("".join(pieces), answer.text)
        self.assertEqual(answer.tokens, answers[0].tokens)

    def test_a_task_that_is_cancelled_and_a_left_loop_end_the_answer(self):
        async def leave():
            stream = self.model.astream("one two", max_tokens=200, ignore_end=True)
            async for _ in stream:
                break
            await stream.aclose()
            return stream.answer

        self.assertIn(asyncio.run(leave()).finish_reason, ("cancelled", "length"))

        async def cancel():
            begun = asyncio.Event()

            async def read():
                async for _ in self.model.astream("one two", max_tokens=200, ignore_end=True):
                    begun.set()
                    await asyncio.sleep(60)  # cancelled here

            task = asyncio.create_task(read())
            await begun.wait()
            task.cancel()
            await task

        self.assertRaises(asyncio.CancelledError, asyncio.run, cancel())
        self.assertEqual(len(self.model.generate("one", **self.OPTIONS).tokens), 20)

    def test_what_is_wrong_comes_out(self):
        async def wrong():
            await self.model.agenerate("one", temperature=-1)

        self.assertRaisesRegex(kvick.Error, "temperature", asyncio.run, wrong())


@needs_numpy
class Embeddings(KvickTest):
    TEXTS = ["one two", "three", "one two three four five six seven " * 5]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        path = os.path.join(os.environ["XDG_CACHE_HOME"], "encoder.gguf")
        subprocess.run([os.environ["MAKE_MODEL"], "-o", path, "--family", "bert"], check=True, stdin=subprocess.DEVNULL, timeout=120)
        cls.paths = {"decoder": cls.path, "encoder": path}

    def test_vectors_are_those_of_the_program(self):
        for kind, path in self.paths.items():
            model = kvick.Model(path, threads=2)
            vectors = model.embed(self.TEXTS)
            self.assertEqual((vectors.shape[0], str(vectors.dtype)), (len(self.TEXTS), "float32"), kind)
            said = subprocess.run([kvick.program(), "embed", "-m", path, "--threads", "2", "--quiet", *self.TEXTS], check=True,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120).stdout
            for row, line in zip(vectors.tolist(), said.splitlines()):
                for a, b in zip(row, json.loads(line)["embedding"]):
                    self.assertAlmostEqual(a, b, places=5, msg=kind)
            for text, row in zip(self.TEXTS, vectors.tolist()):
                self.assertEqual(model.embed(text).tolist(), [row], kind)

    def test_forms_of_a_vector(self):
        full = self.model.embed("one two three", pooling="mean", normalize=False)[0].tolist()
        self.assertEqual(len(full), 64)
        short = self.model.embed(["one two three"], pooling="mean", dimensions=16)[0].tolist()
        length = math.sqrt(sum(x * x for x in full[:16]))
        for a, b in zip(short, full):
            self.assertAlmostEqual(a, b / length, places=5)
        last = self.model.embed("one two three", pooling="last", normalize=False)[0].tolist()
        self.assertNotEqual(last, full)
        self.assertEqual(self.model.embed([]).shape, (0, 64))

    def test_documents_by_their_vectors(self):
        model = kvick.Model(self.paths["encoder"], threads=2)
        ranked = model.rerank("one two three", self.TEXTS)
        self.assertEqual(sorted(index for index, _ in ranked), [0, 1, 2])
        self.assertEqual([score for _, score in ranked], sorted((score for _, score in ranked), reverse=True))
        query, *documents = model.embed(["one two three", *self.TEXTS]).tolist()
        for index, score in ranked:
            self.assertAlmostEqual(score, sum(a * b for a, b in zip(query, documents[index])), places=5)
        self.assertEqual(model.rerank("one two three", self.TEXTS, most=1), ranked[:1])
        self.assertEqual(model.rerank("one", []), [])

    def test_documents_by_a_model_that_scores_pairs(self):
        path = os.path.join(os.environ["XDG_CACHE_HOME"], "ranks.gguf")
        subprocess.run([os.environ["MAKE_MODEL"], "-o", path, "--family", "bert-rank"], check=True, stdin=subprocess.DEVNULL, timeout=120)
        model = kvick.Model(path, threads=2)
        ranked = model.rerank("one two", self.TEXTS)
        self.assertEqual(len(ranked), 3)
        self.assertTrue(all(0 < score < 1 for _, score in ranked), ranked)
        # The score of a pair does not depend on the other documents, but does depend on the query.
        for index, score in ranked:
            self.assertAlmostEqual(model.rerank("one two", [self.TEXTS[index]])[0][1], score, places=6)
        self.assertNotEqual(dict(model.rerank("seven", self.TEXTS)), dict(ranked))
        self.assertRaisesRegex(kvick.Error, "use rerank", model.embed, "one")

    def test_an_encoder_writes_nothing(self):
        model = kvick.Model(self.paths["encoder"], threads=2)
        for call in (lambda: model.generate("one"), lambda: model.batch(["one"]), lambda: model.logits([1])):
            self.assertRaisesRegex(kvick.Error, "encoder|embed", call)


class Numbers(KvickTest):
    def test_tokens_and_back(self):
        self.assertEqual(self.model.detokenize(self.model.tokenize(TEXT)), TEXT)

    @needs_numpy
    def test_the_likeliest_token_is_the_greedy_one(self):
        tokens = self.model.tokenize("one two", special=True)
        logits = self.model.logits(tokens)
        self.assertEqual((logits.shape, str(logits.dtype)), ((len(tokens), self.model.facts["vocabulary"]), "float32"))
        self.assertEqual(self.model.logits(tokens, last=True).tolist(), logits[-1:].tolist())
        answer = self.model.generate("one two", temperature=0, max_tokens=1, ignore_end=True)
        self.assertEqual(int(logits[-1].argmax()), answer.tokens[0])

    @needs_numpy
    def test_perplexity_is_that_of_the_logits(self):
        tokens = self.model.tokenize(TEXT * 8)[:64]
        logits = self.model.logits(tokens).astype("float64")
        nll = [math.log(sum(math.exp(x) for x in row)) - row[token] for row, token in zip(logits.tolist(), tokens[1:])]
        result = self.model.perplexity(TEXT * 8, window=64, max_tokens=64)
        self.assertEqual(result["tokens"], 63)
        self.assertAlmostEqual(result["nll"], sum(nll) / 63, places=4)
        self.assertAlmostEqual(result["perplexity"], math.exp(result["nll"]))

    def test_bench_has_a_row_per_measurement(self):
        rows = self.model.bench(prompt_tokens=[8, 16], new_tokens=4, depth=[0, 32], repeats=2)
        self.assertEqual([(row["phase"], row["tokens"], row["depth"]) for row in rows],
                         [("prefill", 8, 0), ("prefill", 8, 32), ("prefill", 16, 0), ("prefill", 16, 32), ("decode", 4, 0),
                          ("decode", 4, 32)])
        for row in rows:
            self.assertEqual(len(row["rounds"]), 2)
            self.assertGreater(row["tok_s"], 0)

    def test_strategies_and_facts(self):
        names = [strategy["name"] for strategy in kvick.strategies()]
        self.assertEqual(names[0], "virtual")
        self.assertIn("paged", names)
        facts = self.model.facts
        self.assertEqual((facts["family"], facts["context"], facts["kv_type"]), ("llama", 256, "q8"))
        self.assertTrue(facts["kv"].startswith("paged"))


class Program(KvickTest):
    def test_a_plan_is_what_the_program_says(self):
        plan = kvick.plan(self.path, kv="bmc:r=24", kv_type="q8", context=200, batch=3, memory="1GB", threads=2)
        self.assertLessEqual({"kv_bytes", "predicted_decode_tok_s", "fits", "advice"}, plan.keys())
        self.assertEqual(kvick.plan(shape=SHAPE, threads=2)["tokens"], 300)

    def test_the_program_is_there(self):
        said = [subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
                for command in ([kvick.program()], [sys.executable, "-m", "kvick"])]
        self.assertEqual(said[0], said[1])

    @unittest.skipUnless("DOUBLING_PLUGIN" in os.environ, "no plugin is given")
    def test_a_strategy_of_a_plugin_answers_as_the_others(self):
        code = """
import sys, kvick
kvick.load_plugin(sys.argv[1])
model = kvick.Model(sys.argv[2], kv="doubling:first=4", kv_type="q8", prompt_arithmetic="exact", threads=2)
print(model.generate("one two", temperature=0, max_tokens=20, ignore_end=True).tokens)
"""
        done = self.python(code, os.environ["DOUBLING_PLUGIN"], self.path)
        self.assertEqual(done.returncode, 0, done)
        expected = self.model.generate("one two", temperature=0, max_tokens=20, ignore_end=True).tokens
        self.assertEqual(json.loads(done.stdout), expected)


class Mistakes(KvickTest):
    def refused(self, pattern, call):
        with self.assertRaisesRegex(kvick.Error, pattern) as caught:
            call()
        self.assertNotIn("\n", str(caught.exception))

    def test_what_is_wrong_is_one_sentence(self):
        model = self.model
        self.refused("nowhere", lambda: kvick.Model("/nowhere/model.gguf"))
        self.refused("pagd", lambda: kvick.Model(self.path, kv="pagd"))
        self.refused("context", lambda: kvick.Model(self.path, context=10**6))
        self.refused("context cannot be -1", lambda: kvick.Model(self.path, context=-1))
        self.refused("max_tokens cannot be 1.5", lambda: model.generate("a", max_tokens=1.5))
        self.refused("temperature", lambda: model.generate("a", temperature=-1))
        self.refused("256", lambda: model.generate([1] * 300))
        self.refused("empty", lambda: model.generate([]))
        self.refused("a prompt is", lambda: model.generate([1, "two"]))
        self.refused("exact, tiles or auto", lambda: kvick.Model(self.path, prompt_arithmetic="fast"))
        self.refused("leave on_text out", lambda: model.stream("a", on_text=print))
        self.refused("takes messages", lambda: model.chat("hello"))
        self.refused("takes a list of prompts", lambda: model.batch("hello"))
        self.refused("use on_answer", lambda: model.batch(["a"], on_text=print))
        self.refused("parallel is 0", lambda: model.batch(["a"], parallel=0))
        self.refused("^prompt 1: .*256", lambda: model.batch(["a", [1] * 300]))
        self.refused("temperature", lambda: model.batch(["a"], temperature=-1))
        self.refused("takes a text or", lambda: model.embed([1]))
        self.refused("text 1 is empty", lambda: model.embed(["a", ""]))
        self.refused("pooling is last, mean, cls or auto, and not best", lambda: model.embed("a", pooling="best"))
        self.refused("dimensions is 65", lambda: model.embed("a", dimensions=65))
        self.refused("dimensions is 0", lambda: model.embed("a", dimensions=0))
        self.refused("all of them texts", lambda: model.rerank("a", ["b", 1]))
        self.refused("most is 0", lambda: model.rerank("a", ["b"], most=0))
        self.refused("text 1 is empty", lambda: model.rerank("a", [""]))
        self.assertRaisesRegex(TypeError, "max_token", model.batch, ["a"], max_token=3)
        self.refused("template is for messages", lambda: model.generate("a", template={"tools": []}))
        self.refused("not is not supported", lambda: model.generate("a", schema={"not": {"type": "string"}}))
        self.refused("cannot be JSON", lambda: model.generate("a", schema={"a": object()}))
        self.refused("600 is not in the vocabulary", lambda: model.detokenize([600]))
        self.refused("not a token", lambda: model.detokenize([2**40]))
        self.refused("needs at least one token", lambda: model.logits([]))
        for tokens in ("12", [1.5], 7):
            self.refused("tokens are a list of whole numbers", lambda tokens=tokens: model.logits(tokens))
        self.refused("tokens are a list of whole numbers", lambda: model.detokenize("12"))
        self.refused("at least 2", lambda: model.perplexity("", window=64))
        self.refused("give one of them", kvick.plan)
        self.refused("before the first model", lambda: kvick.load_plugin("x.so"))

    def test_a_file_that_is_no_plugin_is_refused(self):
        code = "import sys, kvick\ntry: kvick.load_plugin(sys.argv[1])\nexcept kvick.Error as error: print(error)"
        done = self.python(code, __file__)
        self.assertIn("cannot load the plugin", done.stdout, done)

    def test_the_class_of_errors_is_a_value_error(self):
        self.assertTrue(issubclass(kvick.Error, ValueError))
        self.assertEqual(f"{kvick.Error.__module__}.{kvick.Error.__qualname__}", "kvick.Error")


class Installed(unittest.TestCase):
    def test_the_package_says_that_it_is_typed(self):
        folder = pathlib.Path(kvick.__file__).parent
        self.assertTrue((folder / "py.typed").exists())

    def test_the_program_finds_the_pip_of_this_python_where_its_environment_is_not_activated(self):
        with unittest.mock.patch.dict(os.environ, PATH="/usr/bin"):
            path = _program.environment()["PATH"]
        self.assertEqual(path, os.pathsep.join((os.path.dirname(sys.executable), "/usr/bin")))


if __name__ == "__main__":
    unittest.main()
