#!/usr/bin/env python3
"""`kvick serve --kv-store` with a real Redis: replicas share prompts, the store fails in every way under load, and one server processes
a prompt that another one answers."""

import concurrent.futures
import random
import signal
import subprocess
import sys
import threading
import time
import unittest

from made_model import CommandTest, make_model
from redis_process import PROGRAM, Redis
from server_process import SECONDS, Server

MODEL = ("--layers", "2", "--dim", "64", "--ffn", "96", "--heads", "2", "--vocab", "512", "--context", "4096", "--type", "Q8_0")
GREEDY = {"temperature": 0, "ignore_eos": True}
GIVE = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None, "remote_block_ids": None,
        "remote_host": None, "remote_port": None}


def tokens(count, seed):
    generator = random.Random(seed)
    return [generator.randrange(500) for _ in range(count)]


class StoreTest(CommandTest):
    COMMAND = "serve"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        make_model(cls.model, *MODEL)

    def redis(self, *arguments, **options):
        redis = Redis(self.top, *arguments, **options)
        self.addCleanup(redis.stop)
        return redis

    def serve(self, *arguments):
        server = Server(self.top, self.env, self.model, *arguments)
        self.addCleanup(server.kill)
        return server

    def complete(self, server, prompt, **body):
        status, answer = server.post("/v1/completions", prompt=prompt, **{"max_tokens": 16, "logprobs": 5, **GREEDY, **body})
        self.assertEqual(status, 200, answer)
        return answer

    def cached(self, answer):
        return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def event(self, server, name):
        return server.metric(f'kv_store_events_total{{event="{name}"}}')

    def wait_for(self, what, condition):
        until = time.monotonic() + SECONDS
        while not condition():
            self.assertLess(time.monotonic(), until, f"timeout: waited until {what}")
            time.sleep(0.01)

    def log(self):
        return (self.top / "serve.log").read_text()


class Replicas(StoreTest):
    def test_a_replica_reads_the_rows_of_another_and_gives_the_same_bits(self):
        redis, prompt = self.redis(), tokens(4000, 1)
        right = self.complete(self.serve(), prompt)
        for kv in ("paged", "virtual"):
            redis.ask("FLUSHALL")
            one, two = (self.serve("--kv-store", redis.url, "--kv", kv) for _ in range(2))
            first = self.complete(one, prompt)
            self.assertEqual((self.cached(first), first["choices"]), (0, right["choices"]))
            self.wait_for("all is written", lambda: redis.ask("DBSIZE") == 31)
            second = self.complete(two, prompt)
            self.assertGreaterEqual(self.cached(second), 0.95 * len(prompt))
            self.assertEqual(second["choices"], right["choices"])
            self.assertEqual((self.event(two, "hit"), self.event(one, "write")), (31, 31))
            self.assertEqual(self.cached(self.complete(two, prompt, cache_salt="other")), 0)

    def test_the_folder_is_read_before_the_store_and_both_are_written(self):
        redis, prompt = self.redis(), tokens(1000, 2)
        one = self.serve("--kv-store", redis.url)
        right = self.complete(one, prompt)
        self.wait_for("all is written", lambda: redis.ask("DBSIZE") == 7)
        folder = ("--kv-dir", self.top / "kv")
        two = self.serve("--kv-store", redis.url, *folder)
        answer = self.complete(two, prompt)
        self.assertEqual((self.cached(answer), answer["choices"]), (896, right["choices"]))
        self.assertEqual(self.event(two, "hit"), 7)
        self.wait_for("the folder has it", lambda: two.metric("kv_file_blocks") == 7)
        two.stop()
        two = self.serve("--kv-store", redis.url, *folder)
        answer = self.complete(two, prompt)
        self.assertEqual((self.cached(answer), answer["choices"]), (896, right["choices"]))
        self.assertEqual((self.event(two, "hit"), two.metric('kv_file_events_total{event="hit"}')), (0, 7))

    def test_other_weights_do_not_find_them(self):
        redis, prompt = self.redis(), tokens(300, 3)
        self.complete(self.serve("--kv-store", redis.url), prompt)
        self.wait_for("all is written", lambda: redis.ask("DBSIZE") == 2)
        self.model = str(self.top / "other.gguf")
        make_model(self.model, *MODEL, "--seed", "9")
        self.assertEqual(self.cached(self.complete(self.serve("--kv-store", redis.url), prompt)), 0)

    def test_a_password_tls_and_a_database(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", self.top / "key.pem", "-out", self.top / "cert.pem", "-days", "2", "-subj", "/CN=store",
                        "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True, stdin=subprocess.DEVNULL)
        redis = self.redis("--tls-cert-file", str(self.top / "cert.pem"), "--tls-key-file", str(self.top / "key.pem"),
                           "--tls-auth-clients", "no", password="s e/c@ret", tls=True)
        (self.top / "password").write_text("s e/c@ret\n")
        url, ca = f"rediss://127.0.0.1:{redis.port}/2", ("--kv-store-ca", self.top / "cert.pem")
        password = ("--kv-store-password-file", self.top / "password")
        prompt = tokens(300, 4)
        one, two = (self.serve("--kv-store", url, *password, *ca) for _ in range(2))
        right = self.complete(one, prompt)
        self.wait_for("all is written", lambda: self.event(one, "write") == 2)
        answer = self.complete(two, prompt)
        self.assertEqual((self.cached(answer), answer["choices"]), (256, right["choices"]))
        # Without the certificate or the password the server does not use the store and logs the reason.
        for arguments, says in (((*password,), "certificate verify failed"), (ca, "NOAUTH")):
            other = self.serve("--kv-store", url, *arguments)
            self.assertEqual(self.complete(other, prompt)["choices"], right["choices"])
            self.assertEqual(other.metric("kv_store_connected"), 0)
            self.assertIn(says, self.log())
        self.assertNotIn("s e/c@ret", self.log())

    def test_a_full_store_is_detected_and_one_that_evicts_is_written(self):
        redis = self.redis("--maxmemory", "3mb", "--maxmemory-policy", "noeviction")
        server = self.serve("--kv-store", redis.url)
        prompts = [tokens(1000, seed) for seed in range(8)]
        right = [self.complete(server, prompt)["choices"] for prompt in prompts]
        self.wait_for("it is full", lambda: self.event(server, "full") > 0)
        redis.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        other = self.serve("--kv-store", redis.url)
        self.assertEqual([self.complete(other, prompt)["choices"] for prompt in prompts], right)
        self.wait_for("it is written again", lambda: self.event(other, "write") > 0)

    def test_wrong_options_are_refused(self):
        for url, says in (("http://store", "neither redis:// nor rediss://"), ("redis://:secret@store:x", "port must be"),
                          ("redis://secret@store", "a user but no password")):
            self.refused("--kv-store", url, says=f"--kv-store: .*{says}")
        self.refused("--kv-store-ca", self.top / "x", says="need --kv-store")
        self.refused("--kv-store", "redis://store", "--kv-store-ca", self.top / "x", says="rediss://")
        self.refused("--kv-store", "rediss://store", "--kv-store-ca", self.top / "none.pem", says="none.pem cannot be read")
        self.refused("--kv-store", "redis://store", "--kv-store-password-file", self.top / "none", says="none must be the password, but it is empty or cannot be read")

    def test_a_store_that_is_down_at_the_start_is_used_later(self):
        redis = self.redis()
        redis.stop()
        server, prompt = self.serve("--kv-store", redis.url), tokens(300, 5)
        right = self.complete(server, prompt)
        self.assertIn("is not used until it answers", self.log())
        redis.start()
        self.wait_for("it is connected", lambda: server.metric("kv_store_connected") == 1)

        def written():
            self.assertEqual(self.complete(server, prompt)["choices"], right["choices"])
            return redis.ask("DBSIZE") == 2
        self.wait_for("it is filled", written)


class Faults(StoreTest):
    """Store faults under load, with two servers that keep nothing in memory and therefore read rows from the store repeatedly."""

    def setUp(self):
        super().setUp()
        self.prompts = [tokens(500, seed) for seed in range(10, 18)]
        server = self.serve()
        self.right = [self.complete(server, prompt)["choices"] for prompt in self.prompts]
        self.assertEqual(server.stop(), 0)
        self.store = self.redis()
        self.servers = [self.serve("--kv-store", self.store.url, "--kv", "paged:prefix=off") for _ in range(2)]

    def hits(self):
        return sum(self.event(server, "hit") for server in self.servers)

    def flip(self):
        generator = random.Random(7)
        for key in self.store.ask("KEYS", "*"):
            value = bytearray(self.store.ask("GET", key) or b"x")
            value[generator.randrange(len(value))] ^= 1 << generator.randrange(8)
            self.store.ask("SET", key, bytes(value))

    def other_types(self):
        for key in self.store.ask("KEYS", "*"):
            # One atomic script, because otherwise a server could write the key in between.
            self.store.ask("EVAL", "redis.call('DEL', KEYS[1]) return redis.call('LPUSH', KEYS[1], 'x')", "1", key)

    def stall(self):
        self.store.signal(signal.SIGSTOP)
        time.sleep(5)
        self.store.signal(signal.SIGCONT)

    def restart(self):
        self.store.stop()
        time.sleep(0.5)
        self.store.start()

    def test_no_fault_of_the_store_changes_an_answer_or_stops_the_server(self):
        stop, answered = threading.Event(), [0]

        def load(i):
            generator = random.Random(i)
            while not stop.is_set():
                which = generator.randrange(len(self.prompts))
                choices = self.complete(self.servers[i % 2], self.prompts[which])["choices"]
                self.assertEqual(choices, self.right[which])
                answered[0] += 1

        faults = {"kill -9": self.restart, "CLIENT KILL": lambda: self.store.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"),
                  "FLUSHALL": lambda: self.store.ask("FLUSHALL"), "flipped bits": self.flip, "other types": self.other_types,
                  "a stall of 5 s": self.stall}
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            loads = [pool.submit(load, i) for i in range(4)]
            try:
                self.wait_for("the store is used", lambda: self.hits() > 20)
                for name, fault in faults.items():
                    before = answered[0]
                    began = time.monotonic()
                    fault()
                    during, hits, ended = answered[0] - before, self.hits(), time.monotonic()
                    self.wait_for(f"the store is used after {name}", lambda h=hits: self.hits() > h + 5)
                    after = answered[0]
                    self.wait_for(f"answers come after {name}", lambda a=after: answered[0] > a + 10)
                    print(f"{name}: {during} answers during the fault of {ended - began:.1f} s; rows came from the store again "
                          f"{time.monotonic() - ended:.1f} s later")
                    for one in loads:
                        self.assertFalse(one.done(), one.done() and one.exception())
            finally:
                stop.set()
            for one in loads:
                one.result(SECONDS)
        self.assertGreater(sum(self.event(server, "torn") for server in self.servers), 0)
        self.assertGreater(sum(self.event(server, "foreign") for server in self.servers), 0)
        self.assertGreater(sum(self.event(server, "failure") for server in self.servers), 0)
        for server in self.servers:
            self.assertEqual(server.stop(), 0)


class Handover(StoreTest):
    def test_one_server_prefills_and_another_decodes(self):
        redis = self.redis()
        prefill, decode = (self.serve("--kv-store", redis.url, "--strict-fields") for _ in range(2))
        plain = self.serve()
        for count in (2, 100, 128, 129, 256, 257, 500):
            prompt = tokens(count, count)
            read = self.complete(prefill, prompt, max_tokens=1, kv_transfer_params=GIVE)
            params = read["kv_transfer_params"]
            self.assertTrue(params["do_remote_prefill"])
            answer = self.complete(decode, prompt, kv_transfer_params=params)
            self.assertEqual(self.cached(answer), count - 1, "all but the last token, which gives the logits")
            self.assertEqual(answer["choices"], self.complete(plain, prompt)["choices"])
            self.assertNotIn("kv_transfer_params", answer)
        self.assertEqual(prefill.metric('handovers_total{end="given"}'), 7)
        self.assertEqual(decode.metric('handovers_total{end="taken"}'), 7)

    def test_a_chat_and_a_stream_are_handed_over(self):
        redis = self.redis()
        prefill, decode = (self.serve("--kv-store", redis.url) for _ in range(2))
        body = {"messages": [{"role": "user", "content": "Who are you? " * 40}], **GREEDY}
        status, read = prefill.post("/v1/chat/completions", max_tokens=1, kv_transfer_params=GIVE, **body)
        self.assertEqual(status, 200, read)
        *pieces, usage = decode.events("/v1/chat/completions", max_tokens=8, stream_options={"include_usage": True},
                                       kv_transfer_params=read["kv_transfer_params"], **body)
        self.assertEqual(self.cached(usage), usage["usage"]["prompt_tokens"] - 1)
        status, right = self.serve().post("/v1/chat/completions", max_tokens=8, **body)
        self.assertEqual("".join(piece["choices"][0]["delta"].get("content", "") for piece in pieces),
                         right["choices"][0]["message"]["content"])

    def test_missing_rows_are_computed_and_counted(self):
        redis, prompt = self.redis(), tokens(300, 1)
        prefill = self.serve("--kv-store", redis.url)
        decode = self.serve("--kv-store", redis.url, "--kv-dir-seconds", "0.2")
        read = self.complete(prefill, prompt, max_tokens=1, kv_transfer_params=GIVE)
        right = self.complete(prefill, prompt)["choices"]
        self.wait_for("all is written", lambda: redis.ask("DBSIZE") == 3)
        redis.ask("FLUSHALL")
        params = read["kv_transfer_params"]
        self.assertEqual(self.complete(decode, prompt, kv_transfer_params=params)["choices"], right)
        redis.stop()
        self.assertEqual(self.complete(decode, tokens(300, 2), kv_transfer_params=params)["usage"]["completion_tokens"], 16)
        self.assertEqual(decode.metric('handovers_total{end="computed"}'), 2)
        # A server without a store cannot hand over rows and does not offer to.
        alone = self.serve()
        self.assertNotIn("kv_transfer_params", self.complete(alone, prompt, max_tokens=1, kv_transfer_params=GIVE))
        self.assertEqual(self.complete(alone, prompt, kv_transfer_params=params)["choices"], right)

    def test_rows_of_another_arithmetic_are_used_for_their_request_only(self):
        redis, prompt = self.redis(), tokens(300, 1)
        self.env["KVICK_ISA"] = "scalar"
        prefill = self.serve("--kv-store", redis.url)
        del self.env["KVICK_ISA"]
        decode = self.serve("--kv-store", redis.url)
        read = self.complete(prefill, prompt, max_tokens=1, kv_transfer_params=GIVE)
        answer = self.complete(decode, prompt, kv_transfer_params=read["kv_transfer_params"])
        self.assertEqual(self.cached(answer), 299)
        own = self.complete(decode, prompt)
        self.assertEqual(self.cached(own), 0)
        self.assertEqual(own["choices"], self.complete(self.serve(), prompt)["choices"])

    def test_wrong_parameters_are_refused(self):
        server = self.serve()
        for params, says in ((7, "kv_transfer_params"), ({"do_remote_decode": 1}, "do_remote_decode"),
                             ({"do_remote_decode": True, "do_remote_prefill": True}, "set only one of them"),
                             ({"do_remote_prefill": True, "kvick_arithmetic": "A b"}, "kvick_arithmetic"),
                             ({"do_remote_prefill": True, "kvick_arithmetic": "a" * 65}, "kvick_arithmetic")):
            status, answer = server.post("/v1/completions", prompt="x", max_tokens=1, kv_transfer_params=params)
            self.assertEqual(status, 400, answer)
            self.assertIn(says, answer["error"]["message"])


if __name__ == "__main__":
    if PROGRAM is None:
        print("skipped: neither redis-server nor valkey-server is installed (scripts/setup test)")
        sys.exit(77)
    unittest.main(verbosity=1)
