#!/usr/bin/env python3
"""`kvick chat` on a pseudo terminal: keys, commands, history and Ctrl-C."""

import json
import os
import pathlib
import pty
import re
import select
import subprocess
import time
import unittest

from made_model import KVICK, CommandTest, make_model

PROMPT = "> "
LEAKS = pathlib.Path(__file__).parent / "leaks_of_libedit.txt"


class Terminal:
    """with Terminal([...], env) as t: t.line("hello"); t.expect("...")"""

    def __init__(self, arguments, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(arguments[0], arguments, {**env, "TERM": "xterm", "LC_ALL": "C.UTF-8",
                                                   "LSAN_OPTIONS": f"suppressions={LEAKS}:print_suppressions=0"})
        self.seen = ""
        self.status = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def type(self, text):
        os.write(self.fd, text.encode())

    def line(self, text):
        self.type(text + "\r")

    def expect(self, pattern, seconds=60):
        """Waits for the pattern. Returns and consumes the output up to and including it."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"expected {pattern!r}, got {self.seen!r}")
            try:
                data = os.read(self.fd, 65536)
            except OSError:  # the program has exited
                raise AssertionError(f"the program exited before it printed {pattern!r}; it printed {self.seen!r}") from None
            self.seen += data.decode(errors="replace")
        before, self.seen = self.seen[:found.end()], self.seen[found.end():]
        return before

    def end(self):
        """The rest of the output until the program exits, and its exit status."""
        rest = self.seen
        while True:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                break
            if not data:
                break
            rest += data.decode(errors="replace")
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return rest, self.status


class ChatTest(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        help_text = subprocess.run([KVICK, "chat", "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
                                   timeout=60).stdout
        cls.editing = "without libedit" not in help_text

    def setUp(self):
        super().setUp()
        self.env["XDG_STATE_HOME"] = str(self.top / "state")

    def chat(self, *arguments, model=None):
        terminal = Terminal([KVICK, "chat", model or self.model, "--threads", "2", "--temp", "0", *map(str, arguments)], self.env)
        self.addCleanup(terminal.__exit__)
        terminal.expect("/help lists commands")
        terminal.expect(PROMPT)
        return terminal

    def needs_editing(self):
        if not self.editing:
            self.skipTest("built without libedit")

    def test_an_answer_is_followed_by_speed_and_cache(self):
        terminal = self.chat("-n", "4")
        terminal.line("one two")
        shown = terminal.expect(r"\[\d+ tokens, \d+/s; cache \d+ of 256 tokens, [^\]]*\]")
        self.assertIn("\033[2m", shown, "it is dim")
        terminal.line("/bye")
        self.assertEqual(terminal.end()[1], 0)

    def test_commands(self):
        terminal = self.chat("-n", "4")
        file = self.top / "talk.json"
        for line, says in (("/help", "/retry"), ("/set top_k 5", PROMPT), ("/set", r"top_k +5\r?\n"), ("/set top_k much", "not a whole"),
                           ("/set tmperature 1", "did you mean 'temperature'"), ("/hlep", "did you mean /help"),
                           ("/retry", "no message to answer"), ("/kv", r"virtual, f16: 0 of 256 tokens"),
                           ("/kv paged f32", r"paged, f32: 0 of 256 tokens"), ("/kv nonsense", "nonsense"),
                           ("/load none.json", "cannot read none.json"), ("one two", r"\[\d+ tokens"),
                           ("/retry", r"\[\d+ tokens"), ("/stats", r"\d+ prompt tokens")):
            with self.subTest(line=line):
                terminal.line(line)
                terminal.expect(says)
        self.assertIn("2 messages are in", self.says(terminal, f"/save {file}"))
        self.assertEqual([m["role"] for m in json.loads(file.read_text())["messages"]], ["user", "assistant"])
        self.assertIn("forgotten", self.says(terminal, "/clear"))
        self.assertIn("2 messages from", self.says(terminal, f"/load {file}"))
        self.assertRegex(self.says(terminal, "/kv"), r": [1-9]\d* of 256 tokens")
        terminal.line("/system Be brief.")
        self.assertIn("(Be brief.)", self.says(terminal, "/system"))
        self.assertIn("forgotten", self.says(terminal, "/clear"))
        terminal.line("/exit")
        self.assertEqual(terminal.end()[1], 0)

    def says(self, terminal, line):
        terminal.line(line)
        return terminal.expect(r"\([^)]*\)")

    def test_several_lines_are_one_message(self):
        terminal = self.chat("-n", "2")
        for lines in (('"""', "one", 'two"""'), ("one\\", "two")):
            for line in lines:
                terminal.line(line)
            terminal.expect(r"\[\d+ tokens")
            terminal.line("/stats")
            terminal.expect("last turn")
        terminal.line("/bye")
        rest, status = terminal.end()
        self.assertEqual(status, 0)
        self.assertNotRegex(rest, r"\[\d+ tokens", "a single line was sent as a message")

    def test_pasted_lines_are_one_message(self):
        self.needs_editing()
        terminal = self.chat("-n", "2")
        terminal.type("\033[200~one\rtwo\rthree\r\033[201~")
        terminal.expect("three")
        terminal.type("\r")
        terminal.expect(r"\[\d+ tokens")
        terminal.line("/bye")
        rest, status = terminal.end()
        self.assertEqual(status, 0)
        self.assertNotRegex(rest, r"\[\d+ tokens")

    def test_editing_completion_and_history(self):
        self.needs_editing()
        terminal = self.chat("-n", "2")
        terminal.type("/sett\x7f top_")  # backspace
        terminal.line("k 7")
        terminal.line("/he\t")
        terminal.expect("/retry")
        terminal.line("/set")
        terminal.expect(r"top_k +7\r?\n")
        terminal.line("/bye")
        self.assertEqual(terminal.end()[1], 0)
        history = self.top / "state" / "kvick" / "history"
        self.assertEqual(history.stat().st_mode & 0o077, 0, "other users can read the history")
        again = self.chat("-n", "2")
        again.type("\033[A\033[A")  # up: /bye, /set
        again.type("\r")
        again.expect(r"top_k +40\r?\n")
        again.line("/bye")
        self.assertEqual(again.end()[1], 0)

    def test_ctrl_c_clears_a_line_and_exits_on_an_empty_one(self):
        self.needs_editing()
        terminal = self.chat("-n", "2")
        terminal.type("not sent\x03")
        terminal.expect(r"not sent[^>]*" + PROMPT)
        terminal.type("\x03")
        rest, status = terminal.end()
        self.assertEqual(status, 0)
        self.assertNotRegex(rest, r"\[\d+ tokens")

    def test_ctrl_c_stops_an_answer_but_not_the_chat(self):
        roomy = self.top / "roomy.gguf"
        make_model(roomy, "--layers", "4", "--dim", "256", "--ffn", "512", "--heads", "4", "--vocab", "512", "--context", "32768")
        message = next(m for m in ("one two", "three", "four five six", "seven") if self.goes_on(roomy, m))
        terminal = self.chat("-n", "0", "--allow-loops", model=roomy)
        terminal.line(message)
        terminal.expect(re.escape(message))
        time.sleep(0.5)
        terminal.type("\x03")
        terminal.expect(r"; stopped\]")
        terminal.line("/stats")
        terminal.expect("last turn")
        terminal.line("/bye")
        self.assertEqual(terminal.end()[1], 0)

    def goes_on(self, model, message):
        """Whether the model's answer reaches its maximum length, without an end token."""
        done = subprocess.run([KVICK, "run", "-m", model, "--threads", "2", "--temp", "0", "-n", "400", "--allow-loops", "--json", message],
                              env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=120)
        return json.loads(done.stdout)["finish_reason"] == "length"

    def test_ctrl_d_exits(self):
        terminal = self.chat("-n", "2")
        terminal.type("\x04")
        self.assertEqual(terminal.end()[1], 0)

    def test_run_without_a_prompt_starts_a_chat(self):
        terminal = Terminal([KVICK, "run", self.model, "-n", "2", "--threads", "2"], self.env)
        self.addCleanup(terminal.__exit__)
        terminal.expect(PROMPT)
        terminal.line("/bye")
        self.assertEqual(terminal.end()[1], 0)

    def test_with_a_pipe_lines_are_messages_and_there_are_no_escape_sequences(self):
        done = subprocess.run([KVICK, "chat", self.model, "-n", "2", "--temp", "0"], env=self.env, input='"""\none\n/stats\n/quit\nno\n',
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done)
        self.assertNotIn("\033", done.stdout + done.stderr)
        self.assertNotIn(PROMPT, done.stdout)
        self.assertEqual(done.stderr.count("last turn"), 1)
        self.assertFalse((self.top / "state").exists())

    def test_a_failed_retry_keeps_the_turn(self):
        file = self.top / "talk.json"
        lines = ("one two", "word " * 400, "/system " + "word " * 400, "/retry", f"/save {file}")
        done = subprocess.run([KVICK, "chat", self.model, "-n", "2", "--temp", "0"], env=self.env, input="\n".join(lines) + "\n",
                              capture_output=True, text=True, errors="replace", timeout=120)
        self.assertEqual((done.returncode, done.stderr.count("the context holds 256; shorten it")), (2, 2), done)
        self.assertRegex(done.stderr, "the context holds 256; shorten it\n\\(the prompt is the whole conversation; /clear makes room\\)")
        self.assertEqual([m["role"] for m in json.loads(file.read_text())["messages"]], ["system", "user", "assistant"])

    def test_wrong_arguments_are_refused(self):
        for arguments, says in ((("chat", "--json", self.model), "use kvick run with a prompt"),
                                (("chat", self.model, "-m", self.model), "MODEL and --model cannot be given together"),
                                (("chat", "llama-none"), "there is no file or model 'llama-none'")):
            done = subprocess.run([KVICK, *arguments], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
