#!/usr/bin/env python3
"""Events of the prefix cache, read in vLLM's format: by pyzmq and msgpack, and by vLLM's router with its policy kv_aware.

    KVICK=build/release/kvick MAKE_MODEL=build/release/tools/make_model/make_model PEERS=build/release/peers \\
        tests/peers/kv_events_test.py

PEERS is the folder for packages from PyPI. If PyPI cannot be reached, the exit status is 77.
"""

import http.client
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from peer_packages import ROOT, free_ports, run_with_packages  # noqa: E402

PYTHON = run_with_packages()
import msgpack  # noqa: E402
import zmq  # noqa: E402
from made_model import SMALL, make_model  # noqa: E402
from redis_process import free_port  # noqa: E402
from server_process import SECONDS, Server  # noqa: E402

BLOCK = 16
TEXT = "is how it begins, and it goes on for some blocks of tokens, so that a server may hold what another does not. "
END = b"\xff" * 8


class Held:
    """The blocks that a reader of all events believes to be cached: id -> the tokens from the beginning to the end of the block."""

    def __init__(self):
        self.blocks, self.next = {}, 0

    def take(self, number, payload):
        assert number == self.next, (number, self.next)
        self.next += 1
        seconds, events, rank = msgpack.unpackb(payload)
        assert abs(seconds - time.time()) < 3600 and rank == 0
        for event in events:
            getattr(self, event.pop("type"))(**event)

    def BlockStored(self, block_hashes, parent_block_hash, token_ids, block_size, lora_id, medium, lora_name):
        ids, parent, tokens, size = block_hashes, parent_block_hash, token_ids, block_size
        assert (size, lora_id, medium, lora_name) == (BLOCK, None, "GPU", None)
        assert len(tokens) == size * len(ids)
        path = [] if parent is None else self.blocks[parent]
        for at, one in enumerate(ids):
            path = path + tokens[at * size:(at + 1) * size]
            assert one not in self.blocks
            self.blocks[one] = path

    def BlockRemoved(self, block_hashes, medium):
        assert medium == "GPU"
        for one in block_hashes:
            del self.blocks[one]

    def AllBlocksCleared(self):
        self.blocks.clear()

    def has(self, tokens):
        return tokens in self.blocks.values()


class KvEvents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.top = pathlib.Path(folder.name)
        cls.env = {**os.environ, "XDG_CACHE_HOME": str(cls.top)}
        cls.model = str(cls.top / "model.gguf")
        make_model(cls.model, *SMALL, "--type", "Q8_0")
        cls.context = zmq.Context()
        cls.addClassCleanup(cls.context.destroy, linger=0)

    def serve(self, *more):
        self.events, self.replay = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
        server = Server(self.top, self.env, self.model, "--name", "served", "--kv", f"paged:block={BLOCK}", "--kv-events",
                        self.events, "--kv-events-replay", self.replay, *more)
        self.addCleanup(server.kill)
        return server

    def replayed(self, first):
        batches = []
        asking = self.context.socket(zmq.DEALER)
        asking.setsockopt(zmq.RCVTIMEO, SECONDS * 1000)
        asking.connect(self.replay)
        asking.send_multipart([b"", first.to_bytes(8, "big")])
        while True:
            empty, number, payload = asking.recv_multipart()
            self.assertEqual(empty, b"")
            if number == END:
                self.assertEqual(payload, b"")
                asking.close(0)
                return batches
            batches.append((int.from_bytes(number, "big"), payload))

    def read_all(self):
        held = Held()
        self.stored = 0
        for number, payload in self.replayed(0):
            held.take(number, payload)
            self.stored += sum(len(event["block_hashes"]) for event in msgpack.unpackb(payload)[1]
                               if event["type"] == "BlockStored")
        return held

    def wait_for(self, condition):
        until = time.monotonic() + SECONDS
        while not condition():
            self.assertLess(time.monotonic(), until, "the condition was not met in time")
            time.sleep(0.02)

    def tokens(self, server, text):
        return server.post("/tokenize", prompt=text)[1]["tokens"]

    def test_a_reader_knows_what_the_cache_holds(self):
        server = self.serve("--kv-events-topic", "kv@one")
        reader = self.context.socket(zmq.SUB)
        self.addCleanup(reader.close, 0)
        reader.setsockopt(zmq.RCVTIMEO, SECONDS * 1000)
        reader.setsockopt(zmq.SUBSCRIBE, b"kv@")
        reader.connect(self.events)
        text = "A long beginning that several prompts have, and that fills some blocks of tokens. "
        tokens = self.tokens(server, text)
        whole = len(tokens) // BLOCK * BLOCK
        self.assertGreaterEqual(whole, 2 * BLOCK)
        self.assertEqual(server.post("/v1/completions", prompt=text, max_tokens=4)[0], 200)
        self.wait_for(lambda: self.read_all().has(tokens[:whole]))
        held = self.read_all()
        for length in range(BLOCK, whole + 1, BLOCK):
            self.assertTrue(held.has(tokens[:length]))
        # Blocks of a request with a cache_salt are not published.
        before = dict(held.blocks)
        server.post("/v1/completions", prompt="Something else that is secret. " + text, max_tokens=4, cache_salt="s")
        server.post("/v1/completions", prompt=text + "More of it, which is a block. And more.", max_tokens=4)
        self.wait_for(lambda: len(self.read_all().blocks) > len(before))
        secret = self.tokens(server, "Something else that is secret. " + text)[:BLOCK]
        self.assertFalse(self.read_all().has(secret))
        self.assertEqual(server.ask("POST", "/flush_cache"), (200, {"success": True}))
        self.wait_for(lambda: not self.read_all().blocks)
        # A replay gives the published batches with the same numbers.
        batches = dict(self.replayed(0))
        topic, number, payload = reader.recv_multipart()
        self.assertEqual(topic, b"kv@one")
        number = int.from_bytes(number, "big")
        self.assertEqual(batches[number], payload)
        self.assertEqual([at for at, _ in self.replayed(2)], list(range(2, len(batches))))
        # Malformed replay requests get no answer, and the server goes on.
        asking = self.context.socket(zmq.DEALER)
        self.addCleanup(asking.close, 0)
        asking.connect(self.replay)
        for wrong in ([b"x"], [b"", b"short"], [b"", b"a" * 8, b"more"], [b"x", b"a" * 8]):
            asking.send_multipart(wrong)
        self.assertEqual(self.replayed(len(batches) - 1)[0][0], len(batches) - 1)
        self.assertEqual(server.stop(), 0)

    def test_evicted_blocks_are_removed(self):
        server = self.serve("--kv-memory", "96KiB", "--ctx", 128)
        for number in range(24):
            self.assertEqual(server.post("/v1/completions", prompt=f"{number} is where this one begins, and on it goes "
                                         f"for some blocks, as all others do.", max_tokens=2)[0], 200)
        self.wait_for(lambda: self.read_all().blocks)
        # Held raises if a block is stored twice, or removed without having been stored.
        held = self.read_all()
        room = re.search(r'vllm:cache_config_info{.*block_size="16",num_gpu_blocks="(\d+)"} 1', server.ask("GET", "/metrics")[1])
        self.assertLessEqual(len(held.blocks), int(room[1]))
        self.assertGreater(self.stored, int(room[1]), "no block had to be evicted")

    def test_an_invalid_endpoint_is_refused(self):
        server = self.serve()
        for options, says in ((("--kv-events", "nonsense"), "--kv-events nonsense"),
                              (("--kv-events", self.events), "Address already in use"),
                              (("--kv-events-replay", self.events), "need --kv-events")):
            with self.assertRaisesRegex(AssertionError, says):
                Server(self.top, self.env, self.model, *options)
        server.kill()

    def test_vllms_router_sends_a_prompt_to_the_server_that_cached_it(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            port = free_ports(8)
            with open(log, "wb") as out:
                manager = subprocess.Popen(
                    [sys.executable, ROOT / "scripts" / "replicas", "2", "--policy", "kv_aware", "--python", str(PYTHON),
                     "--port", str(port), "--first-port", str(port + 2), "--folder", folder, "--", "-m", self.model, "--name",
                     "served", "--threads", "1", "--kv", f"paged:block={BLOCK}"], env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            try:
                self.wait_for(lambda: "servers behind" in log.read_text() or manager.poll() is not None)
                # One of the servers has cached each prompt, and the router gets each prompt once, so that it can know only from
                # events where it is cached; by chance it would find half of them. All prompts are cached before the first goes to
                # the router, because events take some milliseconds to reach it.
                which = random.Random(1)
                for number in range(40):
                    server = which.randrange(2)
                    self.replay = f"tcp://127.0.0.1:{port + 5 + 2 * server}"
                    before = len(self.read_all().blocks)
                    self.complete(port + 2 + server, f"{number} {TEXT}")
                    self.wait_for(lambda: len(self.read_all().blocks) > before)
                found = sum(self.complete(port, f"{number} {TEXT}") >= BLOCK for number in range(40))
                self.assertGreaterEqual(found, 34)
            finally:
                manager.send_signal(signal.SIGINT)
                self.assertEqual(manager.wait(SECONDS), 0, log.read_text())

    def complete(self, port, prompt):
        """The number of the prompt's tokens that were cached."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        try:
            connection.request("POST", "/v1/completions", json.dumps({"model": "served", "prompt": prompt, "max_tokens": 1}),
                               {"Content-Type": "application/json"})
            return json.loads(connection.getresponse().read())["usage"]["prompt_tokens_details"]["cached_tokens"]
        finally:
            connection.close()


if __name__ == "__main__":
    unittest.main(verbosity=1)
