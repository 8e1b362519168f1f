#!/usr/bin/env python3
"""facts.py without a model: what its documents hold, which policies are asked, and how answers are counted."""

import argparse
import pathlib
import tempfile
import unittest

import facts

WORDS = [f"word{i}" for i in range(500)]


class Remembers:
    """In place of facts.Engine: finds a fact if more than a fifth of the rows are kept."""

    def __init__(self, _):
        self.scored, self.asked = 0, []

    def score(self, document, to):
        assert document.read_text(encoding="utf-8")
        to.write_text("scores", encoding="utf-8")
        self.scored += 1

    def answer(self, prompt, select):
        text = prompt.read_text(encoding="utf-8")
        question = text.rsplit("\n", 1)[1]
        self.asked.append(select)
        share = float(select.rsplit("budget=", 1)[1]) if select else 1
        return " " + text.split(question + " ", 1)[1][:4] if share > 0.2 else " 12"


class Facts(unittest.TestCase):
    def test_a_document_has_its_facts_in_order_between_the_words(self):
        text, planted = facts.document_of(WORDS, 3, 100)
        self.assertEqual(len(planted), 3)
        at = [text.index(f"\n{question} {number}.\n") for question, number in planted]
        self.assertEqual(at, sorted(at))
        self.assertEqual(len({question for question, _ in planted}), 3)
        self.assertEqual(len([word for word in text.split() if word.startswith("word")]), 100)
        self.assertEqual((text, planted), facts.document_of(WORDS, 3, 100))
        self.assertNotEqual(text, facts.document_of(WORDS, 4, 100)[0])

    def test_an_answer_is_right_if_it_begins_with_the_number(self):
        self.assertTrue(facts.found(" 4711. And", "4711"))
        self.assertFalse(facts.found(" 471", "4711"))
        self.assertFalse(facts.found(" It is 4711", "4711"))

    def test_all_policies_are_asked_for_all_facts_of_all_documents(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            text = folder / "text.txt"
            text.write_text(" ".join(WORDS), encoding="utf-8")
            args = argparse.Namespace(text=str(text), words=100, documents=2, budget=["0.3", "0.1"], kvzap="z.kvp")
            engine, real = Remembers(None), facts.Engine
            facts.Engine = lambda _: engine
            try:
                counts = facts.measure(args, folder, lambda _: None)
            finally:
                facts.Engine = real
        self.assertEqual(engine.scored, 2)
        self.assertEqual({(count["policy"], count["budget"]): (count["found"], count["facts"]) for count in counts},
                         {("all rows", None): (6, 6), ("kvzip", "0.3"): (6, 6), ("kvzip", "0.1"): (0, 6), ("streaming", "0.3"): (6, 6),
                          ("streaming", "0.1"): (0, 6), ("kvzap", "0.3"): (6, 6), ("kvzap", "0.1"): (0, 6)})
        self.assertIn("kvzap:file=z.kvp,budget=0.1", engine.asked)
        self.assertTrue(any(asked.startswith("kvzip:file=") and asked.endswith("document.kvp,budget=0.3") for asked in engine.asked))

    def test_a_text_that_is_too_short_is_refused(self):
        with tempfile.TemporaryDirectory() as name:
            text = pathlib.Path(name) / "text.txt"
            text.write_text("three words only", encoding="utf-8")
            args = argparse.Namespace(text=str(text), words=100, documents=1, budget=["0.3"], kvzap=None, kvick="", model="")
            with self.assertRaisesRegex(SystemExit, "has 3 words, and a document needs 100: give a longer --text or fewer --words"):
                facts.measure(args, pathlib.Path(name), lambda _: None)


if __name__ == "__main__":
    unittest.main()
