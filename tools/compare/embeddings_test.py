#!/usr/bin/env python3
"""Tests tools/compare/embeddings.py with a fake server: what is sent and what is counted."""

import http.server
import json
import threading
import types
import unittest

import embeddings


class Fake(http.server.BaseHTTPRequestHandler):
    """A fake server. The vector of a text is [first token, length], and vectors are returned in reverse order."""
    protocol_version = "HTTP/1.0"
    more = 0  # number of tokens by which the server's count is too high

    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        data = [{"index": i, "embedding": [text[0], len(text)]} for i, text in enumerate(texts)]
        answer = json.dumps({"data": data[::-1], "usage": {"prompt_tokens": sum(map(len, texts)) + self.more}})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_):
        pass


class EmbeddingsTest(unittest.TestCase):
    args = types.SimpleNamespace(texts=10, shortest=2, longest=9, batch=4, connections=2, vocab=2000, seed=3)

    def served(self, more=0):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Some", (Fake,), {"more": more}))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server.server_address[1]

    def test_texts_are_the_same_for_both_servers_and_of_the_lengths_asked_for(self):
        texts = embeddings.texts(self.args)
        self.assertEqual(texts, embeddings.texts(self.args))
        self.assertNotEqual(texts, embeddings.texts(self.args, turn=1))
        self.assertTrue(all(2 <= len(text) <= 9 for text in texts))

    def test_vectors_come_in_the_order_of_the_texts(self):
        texts = embeddings.texts(self.args)
        vectors, rate = embeddings.run(self.args, self.served(), texts)
        self.assertEqual(vectors, [[text[0], len(text)] for text in texts])
        self.assertGreater(rate, 0)

    def test_a_server_that_reads_other_tokens_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "counts"):
            embeddings.run(self.args, self.served(more=1), embeddings.texts(self.args))

    def test_the_table_has_medians(self):
        row = {"file": "x.gguf", "rates": {"kvick": [1, 3, 2000], "llama-server": [1, 1, 1]}, "ratio": 3, "cosine": 0.99991}
        self.assertIn("| x.gguf | 3 | 1 | 3.00 | 0.9999 |", embeddings.table({"files": [row]}))


if __name__ == "__main__":
    unittest.main()
