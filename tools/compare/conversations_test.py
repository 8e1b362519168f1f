#!/usr/bin/env python3
"""Tests tools/compare/conversations.py with a fake server: which tokens count as read again, and which history is sent."""

import http.server
import json
import pathlib
import tempfile
import threading
import types
import unittest

from conversations import Conversation, Run, Seen, figures, table


class Fake(http.server.BaseHTTPRequestHandler):
    """A fake server whose tokens are characters and which reports 10 cached tokens for each prompt."""
    protocol_version = "HTTP/1.0"
    counts_otherwise = "no such text"  # in prompts with this text it counts one token more

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = json.dumps(body["messages"])
        if self.path == "/tokenize":
            answer = json.dumps({"tokens": list(map(ord, text))})
        else:
            usage = {"prompt_tokens": len(text) + (self.counts_otherwise in text), "prompt_tokens_details": {"cached_tokens": 10}}
            events = [{"choices": [{"delta": {"role": "assistant"}}]}, {"choices": [{"delta": {"content": "said"}}]},
                      {"choices": [], "usage": usage}]
            answer = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_):
        pass


class ConversationsTest(unittest.TestCase):
    def test_a_stripped_history_has_the_files_answer_and_a_kept_one_the_servers(self):
        for strips, said in (True, "file's"), (False, "server's"):
            talk = Conversation("system", [("question", "file's"), ("more", "")], strips)
            self.assertEqual([m["content"] for m in talk.ask()], ["system", "question"])
            talk.answered("server's")
            self.assertEqual([m["content"] for m in talk.ask()], ["system", "question", said, "more"])

    def test_what_two_prompts_have_in_common_is_their_longest_beginning(self):
        seen = Seen()
        seen.add([1, 2, 3])
        seen.add([1, 4])
        self.assertEqual([seen.common(t) for t in ([1, 2, 5], [1, 4, 9], [2], [])], [2, 2, 0, 0])

    def run_against(self, fake):
        """Runs four conversations of two turns each. Returns the run and the rows of both halves."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), fake)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with tempfile.TemporaryDirectory() as folder:
            data = pathlib.Path(folder)
            for name in "gsm8k", "text":
                (data / name).mkdir()
            (data / "gsm8k/test.jsonl").write_text(
                "".join(json.dumps({"question": f"question {i}", "answer": f"answer {i}"}) + "\n" for i in range(8)))
            (data / "text/wikitext2-valid.txt").write_text("words " * 400)
            args = types.SimpleNamespace(data=folder, conversations=4, turns=2, streams=3, answer=4, seed=1)
            port = server.server_address[1]
            run = Run(args, types.SimpleNamespace(label="fake", port=port), port)
            rows = run.part(4) + run.part(0)
        server.shutdown()
        server.server_close()
        return run, rows

    def test_a_conversation_whose_tokens_are_counted_otherwise_is_left_out_and_reported(self):
        run, rows = self.run_against(type("Other", (Fake,), {"counts_otherwise": "question 2"}))
        self.assertEqual((len(rows), run.left, run.left_out), (6, 0, 2))
        sums = figures(rows)
        self.assertIn("fake: 2 turns are left out",
                      table({"kill": False, "runs": [{"server": "fake", "first_half": sums, "second_half": sums, "left_out": 2}]}))

    def test_a_run_sends_every_turn_once_and_counts_what_was_read_again(self):
        run, rows = self.run_against(Fake)
        self.assertEqual((run.left, run.left_out), (0, 0))
        self.assertEqual(len(rows), 8)
        first = sorted(r["again"] for r in rows)[0]
        self.assertEqual(first, 0)  # the very first prompt repeats nothing
        again = [r for r in rows if r["again"]]
        self.assertGreaterEqual(len(again), 4)  # at least the second turn of each conversation repeats its first
        sums = figures(rows)
        self.assertEqual(sums["requests"], 8)
        self.assertAlmostEqual(sums["read_again_share"], sum(r["again"] for r in rows) / sum(r["prompt"] for r in rows))
        self.assertEqual(sums["cached_tokens"], 80)
        self.assertIn("| fake | second half, after kill -9 | 8 |",
                      table({"kill": True, "runs": [{"server": "fake", "first_half": sums, "second_half": sums}]}))


if __name__ == "__main__":
    unittest.main()
