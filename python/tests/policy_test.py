#!/usr/bin/env python3
"""Tests policies written in Python on a small random model. MAKE_MODEL: path of the make_model program."""

import importlib.util
import os
import subprocess
import tempfile
import threading
import unittest
import unittest.mock

import kvick

if importlib.util.find_spec("numpy"):
    import numpy

SHAPE = ("--layers", "2", "--dim", "64", "--ffn", "96", "--heads", "2", "--kv-heads", "1", "--vocab", "512", "--context", "512",
         "--type", "Q8_0")
TEXT = "All happy families are alike; each unhappy family is unhappy in its own way. " * 6


def products(rows):
    return rows.queries.sum(axis=0) @ rows.keys.T


def rounded(keys):
    """The keys in 8 bits, with a scale for each 32 elements, as Quest keeps its bounds."""
    groups = keys.reshape(len(keys), -1, 32)
    scale = numpy.abs(groups).max(axis=2, keepdims=True) / numpy.float32(127)
    return (numpy.rint(groups / scale) * scale).reshape(keys.shape)


def probabilities(rows):
    """Each row's softmax probability by its rounded key, summed over the queries."""
    logits = rows.queries @ rounded(rows.keys).T / rows.queries.shape[1] ** 0.5
    weights = numpy.exp(logits - logits.max(axis=1, keepdims=True))
    return (weights / weights.sum(axis=1, keepdims=True)).sum(axis=0)


@unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
class PolicyTest(unittest.TestCase):
    names = iter(range(1000))

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        os.environ["XDG_CACHE_HOME"] = folder.name
        cls.path = os.path.join(folder.name, "model.gguf")
        subprocess.run([os.environ["MAKE_MODEL"], "-o", cls.path, *SHAPE], check=True, stdin=subprocess.DEVNULL, timeout=120)

    def add(self, score, **options):
        """Adds a policy under a new name, because the table keeps every policy, and returns the name."""
        name = f"mine{next(self.names)}"
        kvick.add_policy(name, score, **options)
        return name

    def open(self, kv_select=None, kv_type="f32", threads=2):
        return kvick.Model(self.path, kv="virtual", kv_type=kv_type, kv_select=kv_select, prompt_arithmetic="exact", threads=threads)

    def greedy(self, model, tokens=24):
        return model.generate(TEXT, temperature=0, max_tokens=tokens, ignore_end=True).tokens

    def test_a_policy_chooses_as_one_of_kvick_does(self):
        # With pages of one row, Quest's lower and upper bounds of a channel are both the key, so it ranks rows by probability. Other
        # instruction sets round queries too.
        self.enterContext(unittest.mock.patch.dict(os.environ, KVICK_ISA="scalar"))
        own = self.add(probabilities)
        for kv_type in "f32", "f16":
            for budget in "0.25", "20", "0.5,sinks=1,recent=8,least=16":
                theirs = self.open(f"quest:page=1,dense_layers=0,budget={budget}", kv_type)
                mine = self.open(f"{own}:budget={budget}", kv_type)
                self.assertEqual(self.greedy(mine), self.greedy(theirs), (kv_type, budget))
                self.assertEqual(mine.perplexity(TEXT, window=64)["nll"], theirs.perplexity(TEXT, window=64)["nll"])

    def test_with_a_budget_of_all_rows_nothing_changes(self):
        name = self.add(lambda rows: -products(rows))
        self.assertEqual(self.greedy(self.open(f"{name}:budget=1.0")), self.greedy(self.open()))

    def test_which_rows_are_read_matters(self):
        best, worst = self.add(products), self.add(lambda rows: -products(rows))
        answers = [self.greedy(self.open(f"{name}:budget=16,sinks=1,recent=1")) for name in (best, worst)]
        self.assertNotEqual(*answers)

    def test_what_a_policy_sees(self):
        seen = []

        def score(rows):
            seen.append(rows)
            return products(rows)
        model = self.open(f"{self.add(score, values=True)}:budget=40,sinks=4,recent=8", threads=1)
        prompt = len(model.tokenize(TEXT, special=True))
        self.greedy(model, tokens=2)
        rows = seen[0]
        self.assertEqual((rows.layer, rows.head, rows.first, rows.take), (0, 0, 4, 28))
        self.assertEqual(rows.queries.shape, (2, 32))  # two query heads share one KV head
        self.assertEqual(rows.keys.shape, (prompt - 12, 32))
        self.assertEqual(rows.values.shape, rows.keys.shape)
        self.assertEqual({one.layer for one in seen}, {0, 1})
        attention = rows.attention()
        self.assertAlmostEqual(float(attention.sum()), 2, places=4)
        self.assertTrue((attention >= 0).all())
        logits = numpy.exp((rows.queries @ rows.keys.T) / numpy.sqrt(32))
        numpy.testing.assert_allclose(attention, (logits / logits.sum(axis=1, keepdims=True)).sum(axis=0), rtol=1e-4)

    def test_rows_of_codes_are_turned_back(self):
        seen = {}

        def score(rows):
            seen.setdefault(current, rows)
            return products(rows)
        name = self.add(score, values=True)
        for current in "f32", "q8", "q8:rotate=on":
            self.greedy(self.open(f"{name}:budget=40", current, threads=1), tokens=2)
        for current in "q8", "q8:rotate=on":
            # Compares layer 0 only: the input of later layers already depends on the quantised rows.
            for mine, exact in ((seen[current].keys, seen["f32"].keys), (seen[current].values, seen["f32"].values)):
                self.assertLess(numpy.abs(mine - exact).max(), 0.02 * numpy.abs(exact).max(), current)
            numpy.testing.assert_allclose(seen[current].queries, seen["f32"].queries, rtol=1e-3, atol=1e-4)

    def test_parameters_are_options(self):
        seen = []

        def score(rows, alpha=0.5, power=2, name="a", flip=False):
            seen.append((alpha, power, name, flip))
            return products(rows)
        policy = self.add(score, summary="of a test")
        self.greedy(self.open(f"{policy}:budget=40,alpha=1.5,flip=on"), tokens=2)
        self.assertEqual(set(seen), {(1.5, 2, "a", True)})
        row = next(one for one in kvick.policies() if one["name"] == policy)
        self.assertEqual(row["summary"], "of a test")
        self.assertFalse(row["forgets"] or row["needs_file"])
        defaults = {option["name"]: option["default"] for option in row["options"]}
        self.assertEqual((defaults["budget"], defaults["alpha"], defaults["flip"]), ("0.25", "0.5", "off"))
        for text, said in (("alpha=x", "alpha=x of .*: it must be a number"), ("power=1.5", "power=1.5 of .*: it must be a whole number"),
                           ("flip=yes", "flip=yes of .*: it must be on or off"), ("beta=1", "beta")):
            with self.assertRaisesRegex(kvick.Error, said):
                self.open(f"{policy}:{text}")

    def test_a_policy_takes_the_place_of_one_of_its_name(self):
        called = []

        def policy(number):
            def score(rows):
                called.append(number)
                return products(rows)
            return score
        name = self.add(policy(1))
        first = self.open(f"{name}:budget=40")
        kvick.add_policy(name, policy(2))
        second = self.open(f"{name}:budget=40")
        self.assertEqual(self.greedy(first), self.greedy(second))
        self.assertEqual(set(called), {1, 2})
        called.clear()
        self.greedy(first, tokens=1)
        self.greedy(second)
        self.assertNotIn(1, called[-1:])
        with self.assertRaisesRegex(kvick.Error, "other options"):
            kvick.add_policy(name, lambda rows, alpha=1: products(rows))

    def test_a_batch_chooses_too(self):
        model = self.open(f"{self.add(products)}:budget=40")
        prompts = [TEXT, TEXT[5:], TEXT[9:]]
        answers = model.batch(prompts, temperature=0, max_tokens=12, ignore_end=True)
        self.assertEqual([answer.tokens for answer in answers],
                         [model.generate(prompt, temperature=0, max_tokens=12, ignore_end=True).tokens for prompt in prompts])

    def test_models_in_several_threads(self):
        name = self.add(products)
        expected = self.greedy(self.open(f"{name}:budget=40"))
        found = []
        threads = [threading.Thread(target=lambda: found.append(self.greedy(self.open(f"{name}:budget=40")))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        self.assertEqual(found, [expected] * 3)

    def test_what_it_raises_comes_out_and_the_model_goes_on(self):
        fail = [True]

        def score(rows):
            if fail[0]:
                raise KeyError("mine")
            return probabilities(rows)
        model = self.open(f"{self.add(score)}:budget=40")
        with self.assertRaises(KeyError):
            self.greedy(model)
        with self.assertRaises(Exception):
            model.batch([TEXT], max_tokens=4)
        fail[0] = False
        self.assertEqual(self.greedy(model), self.greedy(self.open(f"{self.add(probabilities)}:budget=40")))

    def test_scores_of_other_rows_are_refused(self):
        for score in (lambda rows: products(rows)[1:], lambda rows: 1.0, lambda rows: products(rows)[None]):
            with self.assertRaisesRegex(kvick.Error, "gave scores of shape .* one number for each"):
                self.greedy(self.open(f"{self.add(score)}:budget=40"))

    def test_what_is_not_a_number_is_read_last(self):
        def score(rows):
            scores = products(rows)
            scores[numpy.argsort(scores)[:-rows.take]] = numpy.nan  # only rows that would not be read anyway
            return scores
        self.assertEqual(self.greedy(self.open(f"{self.add(score)}:budget=40")), self.greedy(self.open(f"{self.add(products)}:budget=40")))

    def test_a_policy_cannot_ask_its_model(self):
        def score(rows):
            model.generate("one", max_tokens=1)
            return products(rows)
        model = self.open(f"{self.add(score)}:budget=40")
        with self.assertRaisesRegex(kvick.Error, "while a model computes"):
            self.greedy(model)

    def test_names_and_options_that_cannot_be(self):
        for name in "quest", "a:b", "", "Mine":
            with self.assertRaises(kvick.Error):
                kvick.add_policy(name, products)
        with self.assertRaisesRegex(kvick.Error, "has the option budget already"):
            self.add(lambda rows, budget=1: products(rows))
        with self.assertRaisesRegex(kvick.Error, "needs a default"):
            self.add(lambda rows, alpha: products(rows))


if __name__ == "__main__":
    unittest.main()
