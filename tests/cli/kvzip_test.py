#!/usr/bin/env python3
"""`kvick train kvzip`: it writes a file that scores a document's rows, most of which are then dropped behind it, and refuses other texts."""

import unittest

from made_model import SENTENCE, SMALL, CommandTest, make_model


class KvzipTest(CommandTest):
    COMMAND = "train kvzip"

    def setUp(self):
        super().setUp()
        self.text = self.write_text(sentences=1)
        self.file = self.top / "document.kvp"

    def train(self, *arguments):
        return self.as_command("train kvzip").json_of("--raw", "-f", self.text, "-o", self.file, *arguments)

    def refused_training(self, *arguments, says):
        self.as_command("train kvzip").refused("-f", self.text, "-o", self.file, *arguments, says=says)

    def answer(self, select, prompt=SENTENCE + "Every one of them."):
        arguments = ("--raw", "-p", prompt, "-n", "4", "--temp", "0", "--ignore-eos", "--kv-select", select)
        return self.as_command("run").json_of(*arguments)

    def refused_policy(self, select, *arguments, says, model=None):
        self.as_command("run").refused("--raw", "-p", SENTENCE, "-n", "4", "--kv-select", select, *arguments, says=says, model=model)

    def test_it_scores_the_document_chunk_by_chunk(self):
        made = self.train("--chunk", "16")
        self.assertGreaterEqual(made["tokens"], 16)
        self.assertEqual(made["chunks"], -(-made["tokens"] // 16))
        self.assertEqual(made["stands"], "raw")
        for where, stands in ((("--user",), "user"), ((), "system")):
            self.assertEqual(self.as_command("train kvzip").json_of("-f", self.text, "-o", self.file, *where)["stands"], stands)
        self.assertGreaterEqual(made["unused"], 0)
        self.assertLessEqual(made["unused"], 1)
        lines = self.kvick("--quiet", "-f", self.text, "-o", self.file, "--chunk", "16").stdout.splitlines()
        self.assertRegex(lines[-1], "^use: --kv-select kvzip:file=.*document.kvp$")

    def test_prompts_that_begin_with_the_document_are_answered(self):
        self.train("--chunk", "16")
        for options in ("budget=0.3,least=1", "budget=8,sinks=2", "budget=1.0"):
            self.assertEqual(len(self.answer(f"kvzip:file={self.file},{options}")["tokens"]), 4)

    def test_other_texts_are_noticed(self):
        self.train("--chunk", "16")
        other = "An entirely different text that is no document of anybody."
        done = self.as_command("run").kvick("--quiet", "--raw", "-p", other, "-n", "4", "--kv-select", f"kvzip:file={self.file}", status=2)
        self.assertIn("the text does not begin with the document of kvzip's file", done.stderr)
        self.assertEqual(len(self.answer(f"kvzip:file={self.file},other=keep", prompt=other)["tokens"]), 4)

    def test_the_planner_counts_the_rows_that_are_left(self):
        self.as_command("plan")
        all_rows = self.json_of("--ctx", 256)["kv_bytes"]
        self.assertGreater(self.json_of("--ctx", 256, "--kv-select", "kvzip:budget=0.3,least=1")["kv_bytes"], 0.9 * all_rows)
        left = self.json_of("--ctx", 256, "--batch", 8, "--kv-select", "kvzip:budget=0.1,least=1,tokens=240")["kv_bytes"]
        self.assertLess(left, self.json_of("--ctx", 256, "--batch", 8)["kv_bytes"])

    def test_wrong_options_are_refused(self):
        self.train("--chunk", "16")
        self.refused_policy("kvzip", says="kvzip needs (the scores of a document: file=NAME.kvp|a predictor file)")
        self.refused_policy(f"kvzap:file={self.file}", says="kvzap: the file is a predictor for another policy")
        self.refused_policy(f"maple:file={self.file}", says="maple: the file is kvzip's")
        self.refused_policy(f"loki:file={self.file}", says="loki: the file is kvzip's")
        self.refused_policy(f"kvzip:file={self.file},tokens=5", says="kvzip: tokens=5, but the file's document has")
        self.refused_policy(f"kvzip:file={self.text}", says="a predictor is a file that kvick train distil, pca, kvzap, duo or kvzip makes")
        self.refused_policy(f"kvzip:file={self.file}", "--kv-tier", "ram:fast=12KiB,size=16MiB", says="leave --kv-tier out")
        self.refused_policy(f"kvzip:file={self.file}", "--ctx", "16", says="so a context of 16 has no room behind it: give a larger --ctx")
        other = str(self.top / "other.gguf")
        make_model(other, "--layers", "3", *SMALL[2:], "--type", "Q8_0")
        self.refused_policy(f"kvzip:file={self.file}", says="document.kvp is for another model: 2 layers .* make its own with kvick train kvzip", model=other)
        self.file.write_bytes(self.file.read_bytes().replace(b"text.txt", b"Text.txt", 1))
        self.refused_policy(f"kvzip:file={self.file}", says="its checksum is wrong: it is damaged; copy the file again, or train it again")

    def test_a_document_that_cannot_be_scored_is_refused(self):
        self.refused_training("--raw", "--user", says="--user needs the chat template that --raw switches off")
        self.text.write_text("Short.")
        self.refused_training(says="dropping rows needs at least 16")
        self.text.write_text(SENTENCE * 30)
        self.refused_training("--chunk", "16", says="context of 256 is too short: give a shorter document")
        self.assertFalse(self.file.exists())


if __name__ == "__main__":
    unittest.main()
