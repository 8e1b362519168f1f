#!/usr/bin/env python3
"""The Python package on a small made model. MAKE_MODEL names the program that makes it; DOUBLING_PLUGIN, if given, a plugin."""

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

# Heads of 32 values, as q8 needs them.
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
        os.environ["XDG_CACHE_HOME"] = folder.name  # no model of the user's, and one calibration
        cls.path = os.path.join(folder.name, "model.gguf")
        subprocess.run([os.environ["MAKE_MODEL"], "-o", cls.path, *SMALL], check=True, stdin=subprocess.DEVNULL, timeout=120)
        cls.model = cls.open("paged")

    @classmethod
    def open(cls, kv, threads=2):
        # Exact: only some caches have the tiles of AMX.
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
        self.refused("template is for messages", lambda: model.generate("a", template={"tools": []}))
        self.refused("not is not supported", lambda: model.generate("a", schema={"not": {}}))
        self.refused("cannot be JSON", lambda: model.generate("a", schema={"a": object()}))
        self.refused("600 is not in the vocabulary", lambda: model.detokenize([600]))
        self.refused("no token", lambda: model.detokenize([2**40]))
        self.refused("no logits of no tokens", lambda: model.logits([]))
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
