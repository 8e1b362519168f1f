#!/usr/bin/env python3
"""Tests the prompts of tools/ruler and their scores. A solver that knows nothing of the generators derives the answers."""

import collections
import pathlib
import random
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "compare")]

import engine  # noqa: E402
import tasks  # noqa: E402
import texts  # noqa: E402
from fake_kvick import KVICK, made_up_hotpot, made_up_squad, made_up_text, solved  # noqa: E402


class Prompts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.material = texts.Material(texts.sentences_of(made_up_text(1)), texts.words_of(made_up_text(1)),
                                      {"qa_1": texts.squad(made_up_squad()), "qa_2": texts.hotpot(made_up_hotpot())})
        cls.asked = engine.Asked(KVICK, "fake", engine.Setting(), None)

    def made(self, name, length=1024, index=0, seed=1):
        return tasks.fitted(tasks.TASKS[name], self.material, length, seed, index, self.asked.tokens)

    def test_all_thirteen_tasks_are_there(self):
        names = [*(f"niah_single_{i}" for i in (1, 2, 3)), *(f"niah_multikey_{i}" for i in (1, 2, 3)), "niah_multivalue", "niah_multiquery",
                 "vt", "cwe", "fwe", "qa_1", "qa_2"]
        self.assertEqual(list(tasks.TASKS), names)

    def test_answers_follow_from_the_prompt(self):
        counts = {"niah_multivalue": 4, "niah_multiquery": 4, "vt": 5, "cwe": 10, "fwe": 3, "qa_1": 2}
        for name, task in tasks.TASKS.items():
            for length, index in (1024, 0), (1024, 1), (4096, 0):
                with self.subTest(task=name, length=length, index=index):
                    sample = self.made(name, length, index)
                    self.assertEqual(len(set(sample.expected)), counts.get(name, 1))
                    found = solved(sample.context + sample.question)
                    if task.one_suffices:
                        self.assertIn(sample.expected[0], found)
                    else:
                        self.assertEqual(sorted(found), sorted(sample.expected))
                    self.assertEqual(tasks.score(task, f"{found}", sample.expected), 1)
                    self.assertFalse([one for one in sample.expected if one in sample.question])

    def test_prompt_and_answer_fill_the_length_and_do_not_exceed_it(self):
        for name, task in tasks.TASKS.items():
            for length in 1024, 3000, 4096:
                with self.subTest(task=name, length=length):
                    tokens = self.asked.tokens(self.made(name, length)) + task.answer_tokens
                    self.assertLessEqual(tokens, length)
                    self.assertGreater(tokens, 0.9 * length)

    def test_needles_are_planted_once_with_different_keys_and_values(self):
        planted = {"niah_single_1": (1, 1), "niah_single_2": (1, 1), "niah_single_3": (1, 1), "niah_multikey_1": (4, 4),
                   "niah_multivalue": (1, 4), "niah_multiquery": (4, 4)}
        forms = {"number": r"\d{7}", "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"}
        for name in (name for name in tasks.TASKS if name.startswith("niah")):
            with self.subTest(task=name):
                sample = self.made(name, 2048)
                needles = re.findall(r"One of the special magic (number|uuid)s for (\S+) is: (\S+)\.", sample.context)
                kinds, keys, values = zip(*needles)
                self.assertEqual(set(kinds), {"uuid" if name in ("niah_single_3", "niah_multikey_3") else "number"})
                self.assertEqual(len(set(values)), len(values))
                self.assertTrue(all(re.fullmatch(forms[kinds[0]], value) for value in values), values)
                self.assertTrue(all(sample.context.count(value) == 1 for value in sample.expected))
                if name in planted:
                    self.assertEqual((len(set(keys)), len(values)), planted[name])
                else:
                    self.assertEqual(len(set(keys)), len(keys))
                    self.assertGreater(len(keys), 20)

    def test_needles_lie_at_all_depths(self):
        depths = []
        for index in range(60):
            context = self.made("niah_single_1", 1024, index).context
            depths.append(context.index("One of the special") / len(context))
        self.assertEqual({min(int(depth * 5), 4) for depth in depths}, set(range(5)))

    def test_common_and_frequent_words_are_more_frequent_than_all_others(self):
        for name, pattern, top, counts in (("cwe", r"\d+\. (\w+)", 10, {1024: (6, 1), 4096: (30, 3)}), ("fwe", r"\b([a-z]{6})\b", 3, {})):
            for length in 1024, 4096:
                with self.subTest(task=name, length=length):
                    sample = self.made(name, length)
                    part = sample.context[max(sample.context.rfind("Below is"), sample.context.find("coded words. ")):]
                    common = collections.Counter(re.findall(pattern, part)).most_common()
                    self.assertEqual({word for word, _ in common[:top]}, set(sample.expected))
                    self.assertGreater(common[top - 1][1], common[top][1])
                    if counts:
                        self.assertEqual(({count for _, count in common[:top]}, {count for _, count in common[top:]}),
                                         ({counts[length][0]}, {counts[length][1]}))

    def test_frequent_words_have_the_shares_of_a_zeta_distribution(self):
        words = tasks.frequent_words(None, random.Random(1), 1000, 1024).context.split("coded words. ")[1].split()
        self.assertEqual([count for _, count in collections.Counter(words).most_common(4)], [607, 151, 67, 37])
        self.assertEqual(collections.Counter(words)["..."], 607)

    def test_assignments_come_in_their_order_behind_an_example(self):
        sample = self.made("vt", 2048)
        example, main = sample.context.split("\n\nMemorize and track")
        for part, letters in (example, 3), (main, 5):
            assigned = re.findall(r"VAR (\w+) = (?:VAR )?(\w+)", part)
            self.assertEqual(len(assigned), 5)
            self.assertEqual([before for _, before in assigned[1:]], [name for name, _ in assigned[:-1]])
            self.assertEqual({len(name) for name, _ in assigned}, {letters})
        self.assertEqual(set(sample.expected), {name for name, _ in assigned})
        self.assertTrue(example.endswith(" ".join(name for name, _ in re.findall(r"VAR (\w+) = (?:VAR )?(\w+)", example))))

    def test_documents_of_the_same_article_come_first(self):
        sample = self.made("qa_1", 1024)
        shown = [int(n) for n in re.findall(r"The colour of house number (\d+) is", sample.context)]
        asked = int(re.search(r"house number (\d+)\?", sample.question)[1])
        self.assertLessEqual(set(range(asked // 10 * 10, asked // 10 * 10 + 10)), set(shown))
        self.assertEqual(re.findall(r"Document (\d+):", sample.context), [str(i) for i in range(1, len(shown) + 1)])

    def test_samples_depend_on_index_and_seed_only(self):
        for name in tasks.TASKS:
            one = self.made(name)
            self.assertEqual(one, self.made(name))
            self.assertNotEqual(one, self.made(name, index=1))
            self.assertNotEqual(one, self.made(name, seed=2))

    def test_keys_are_no_parts_of_each_other(self):
        for words, part in (texts.ADJECTIVES, str.endswith), (texts.NOUNS, str.startswith):
            self.assertEqual(len(set(words)), len(words))
            self.assertEqual([(a, b) for a in words for b in words if a != b and part(a, b)], [])

    def test_scores_are_shares_or_of_questions_any_answer(self):
        self.assertEqual(tasks.score(tasks.TASKS["vt"], "ABC and def", ("abc", "DEF", "xyz", "uvw")), 0.5)
        self.assertEqual(tasks.score(tasks.TASKS["qa_1"], "It is the colour c1C.", ("nothing", "c1c")), 1)
        self.assertEqual(tasks.score(tasks.TASKS["qa_1"], "It is c2c", ("c1c", "c3c")), 0)

    def test_the_largest_size_that_fits(self):
        for least, most, fits in (0, 100, 0), (0, 100, 37), (4, 100, 4), (4, 100, 99), (4, 100, 100), (4, 6, 200):
            self.assertEqual(tasks.largest(lambda size: size <= fits, least, most), min(fits, most))  # noqa: B023

    def test_too_short_a_length_and_too_little_material_are_refused(self):
        with self.assertRaisesRegex(texts.Mistake, "vt does not fit into 300 tokens: its shortest prompt has .*; give longer --lengths"):
            self.made("vt", 300)
        few = texts.Material(self.material.sentences, self.material.words[:45])
        with self.assertRaisesRegex(texts.Mistake, "cwe needs more different words .* for a prompt of 1024 tokens than the 15 that there are"):
            tasks.fitted(tasks.TASKS["cwe"], few, 1024, 1, 0, self.asked.tokens)
        few = texts.Material(self.material.sentences, self.material.words[:5])
        with self.assertRaisesRegex(texts.Mistake, "cwe needs more different words of 4 to 10 letters: give a longer file"):
            tasks.fitted(tasks.TASKS["cwe"], few, 1024, 1, 0, self.asked.tokens)

    def test_a_short_text_is_repeated(self):
        few = texts.Material(["This is a sentence .", "And another one ."])
        sample = tasks.fitted(tasks.TASKS["niah_single_2"], few, 1024, 1, 0, self.asked.tokens)
        self.assertEqual(solved(sample.context + sample.question), list(sample.expected))
        self.assertGreater(sample.context.count("This is a sentence ."), 20)

    def test_sentences_and_words_of_a_text(self):
        self.assertEqual(texts.sentences_of("One . Two , three !\n Four?"), ["One .", "Two , three !", "Four?"])
        self.assertEqual([len(one.split()) for one in texts.sentences_of("word " * 90)], [40, 40, 10])
        self.assertEqual(texts.words_of("the quick Brown <unk> foxes foxes ran extraordinarily"), ["foxes", "quick"])


if __name__ == "__main__":
    unittest.main()
