#!/usr/bin/env python3
"""`kvick run` with a thinking model (where its thoughts and its answer are printed), with an adapter, and on a terminal."""

import json
import os
import pathlib
import pty
import subprocess
import unittest

from made_model import KVICK, SMALL, CommandTest, make_adapter, make_model

TEMPLATE = "{% for m in messages %}{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<think>\n{% endif %}"


class ThinkingTest(CommandTest):
    COMMAND = "run"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = pathlib.Path(cls.models.name) / "thinks"
        make_model(str(cls.folder), *SMALL, "--format", "hf", "--type", "BF16")
        config = cls.folder / "tokenizer_config.json"
        settings = json.loads(config.read_text())
        settings["chat_template"] = TEMPLATE
        config.write_text(json.dumps(settings))
        (cls.folder / "chat_template.jinja").unlink(missing_ok=True)

    def run_it(self, *arguments):
        return self.kvick("-p", "one two", "-n", "12", "--temp", "0", "--ignore-eos", *arguments, model=str(self.folder))

    def test_thoughts_have_their_own_field_in_json(self):
        answer = json.loads(self.run_it("--json").stdout)
        self.assertEqual(answer["text"], "")
        self.assertTrue(answer["reasoning"])

    def test_thoughts_go_to_stderr_and_the_answer_to_stdout(self):
        thoughts = json.loads(self.run_it("--json").stdout)["reasoning"]
        done = self.run_it()
        self.assertEqual(done.stdout, "\n")
        self.assertIn(thoughts, done.stderr)
        self.assertNotIn("\033[", done.stderr, "it is no terminal")
        quiet = self.run_it("--quiet")
        self.assertEqual((quiet.stdout, quiet.stderr), ("\n", ""))

    def test_raw_text_is_not_split(self):
        answer = json.loads(self.run_it("--json", "--raw").stdout)
        self.assertTrue(answer["text"])
        self.assertEqual(answer["reasoning"], "")

    def test_a_chat_shows_both(self):
        done = subprocess.run([*self.program(), "-n", "6", "--temp", "0", "--ignore-eos"], env=self.env, input="one two\nthree\n",
                              capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout), (0, "\n\n"), done)
        self.assertTrue(done.stderr)

    def program(self):
        return [KVICK, "run", "-m", str(self.folder), "--threads", "2"]


class TerminalTest(CommandTest):
    COMMAND = "run"
    # Moves the cursor, sets the title, and clears the screen by C1's form of ESC [.
    ANSWER = "a\x1b[Hb\x1b]0;t\x07\tc\u009b2Jd\né"
    SHOWN = "a?[Hb?]0;t?\tc?2Jd\né"

    def program(self):
        form = self.ANSWER.replace("[", "\\[")
        return [KVICK, "--quiet", "run", "-m", self.model, "--threads", "2", "--raw", "-p", "x", "--regex", form]

    def test_an_answer_sends_no_control_characters_to_a_terminal(self):
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        self.addCleanup(os.close, slave)
        subprocess.run(self.program(), env=self.env, stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.DEVNULL, check=True,
                       timeout=120)
        shown = os.read(master, 4096).decode()
        self.assertEqual(shown.replace("\r\n", "\n"), self.SHOWN + "\n")

    def test_a_pipe_gets_the_answer_as_it_is(self):
        done = subprocess.run(self.program(), env=self.env, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=120)
        self.assertEqual(done.stdout.decode(), self.ANSWER + "\n")


class LoraTest(CommandTest):
    COMMAND = "run"

    def adapter(self, **config):
        folder = self.top / "adapter"
        make_adapter(folder, **config)
        return str(folder)

    def tokens(self, *arguments):
        return self.json_of("-p", "one two", "-n", "24", "--temp", "0", "--ignore-eos", "--raw", *arguments)["tokens"]

    def test_an_adapter_changes_the_answer_by_its_scale(self):
        adapter = self.adapter()
        plain = self.tokens()
        self.assertNotEqual(self.tokens("--lora", adapter), plain)
        self.assertEqual(self.tokens("--lora", adapter + ":0"), plain)

    def test_an_adapter_that_does_not_fit_is_refused(self):
        self.refused("-p", "x", "--lora", self.top / "none", says="there is no such adapter")
        self.refused("-p", "x", "--lora", self.adapter(dim=32), says="do not fit")
        self.refused("-p", "x", "--lora", self.adapter(use_dora=True), says="use_dora")
        self.refused("-p", "x", "--lora", self.model, says="give models with -m")


if __name__ == "__main__":
    unittest.main(verbosity=1)
