#!/usr/bin/env python3
"""`kvick serve` under overload: limits for each key and each address, and a full queue."""

import unittest

from server_process import ServedTest

MODEL = ("--layers", "2", "--dim", "64", "--ffn", "96", "--heads", "2", "--vocab", "512", "--context", "2048", "--type", "Q8_0")
LONG = {"prompt": "a", "max_tokens": 2000, "temperature": 0, "ignore_eos": True, "stream": True}
SHORT = {"prompt": "a", "max_tokens": 1}


class Overload(ServedTest):
    MODEL = MODEL

    def held(self, server, **with_key):
        """Starts a long stream and returns its connection and response. Closing the connection ends the stream."""
        connection = server.connect()
        response = server.send(connection, "POST", "/v1/completions", LONG, **with_key)
        self.assertEqual(response.status, 200)
        return connection, response

    def refusal(self, server, **with_key):
        connection = server.connect()
        try:
            response = server.send(connection, "POST", "/v1/completions", SHORT, **with_key)
            text = response.read().decode()
            if response.status != 200:
                self.assertGreaterEqual(int(response.headers["Retry-After"]), 1)
            return response.status, text
        finally:
            connection.close()

    def until_taken(self, server, **with_key):
        while self.refusal(server, **with_key)[0] != 200:  # ends once the server notices the closed connection
            pass

    def test_concurrent_requests_are_limited_per_address(self):
        server = self.serve("--max-requests-per-address", 1)
        connection, response = self.held(server)
        status, text = self.refusal(server)
        self.assertEqual(status, 429, text)
        self.assertIn("--max-requests-per-address", text)
        self.assertEqual(server.ask("GET", "/metrics")[0], 200)
        response.close(), connection.close()
        self.until_taken(server)

    def test_concurrent_requests_are_limited_per_key(self):
        keys = self.top / "keys"
        keys.write_text("one\ntwo\n")
        server = self.serve("--api-key-file", keys, "--max-requests-per-key", 1)
        connection, response = self.held(server, key="one")
        self.assertEqual(self.refusal(server, key="one")[0], 429)
        self.assertEqual(self.refusal(server, key="two")[0], 200)
        response.close(), connection.close()
        self.until_taken(server, key="one")

    def test_a_full_queue_refuses_at_once_with_retry_after(self):
        server = self.serve("--max-queue", 0)
        status, text = self.refusal(server)
        self.assertEqual(status, 503, text)

    def test_wrong_limits_are_refused(self):
        self.refused("--max-requests-per-key", 2, says="--api-key-file")
        self.refused("--max-wait", "nan", says="--max-wait")


if __name__ == "__main__":
    unittest.main()
