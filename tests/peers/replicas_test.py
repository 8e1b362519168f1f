#!/usr/bin/env python3
"""Tests `scripts/replicas` with two servers behind each router. A rolling restart loses no request, and a killed server loses only
the streams that it was answering.

    KVICK=build/release/kvick MAKE_MODEL=build/release/tools/make_model/make_model PEERS=build/release/peers \\
        tests/peers/replicas_test.py

PEERS is the folder for the routers, which come from PyPI. If PyPI cannot be reached, the exit status is 77.
"""

import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from peer_packages import ROOT, free_ports, run_with_packages  # noqa: E402

PYTHON = run_with_packages()
from made_model import SMALL, make_model  # noqa: E402

SECONDS = 90  # time limit of each wait
REQUESTS, AT_ONCE = 200, 8


class Replicas(unittest.TestCase):
    ROUTER = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.top = pathlib.Path(folder.name)
        model = cls.top / "model.gguf"
        make_model(model, *SMALL, "--type", "Q8_0")
        cls.port = free_ports(4)
        cls.log = cls.top / "log"
        cls.options = ["--port", str(cls.port), "--first-port", str(cls.port + 2), "--folder", str(cls.top / "replicas")]
        with open(cls.log, "wb") as log:
            cls.manager = subprocess.Popen(
                [sys.executable, ROOT / "scripts" / "replicas", "2", "--router", cls.ROUTER, "--policy", "round_robin",
                 "--python", str(PYTHON), *cls.options, "--", "-m", model, "--threads", "1", "--name", "served"],
                env={**os.environ, "XDG_CACHE_HOME": str(cls.top)}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        cls.addClassCleanup(cls.end)
        cls.wait_for(lambda: "servers behind" in cls.said())

    @classmethod
    def end(cls):
        """Sends Ctrl-C; afterwards all ports are free and the pid file is gone."""
        if cls.manager.poll() is not None:
            return
        cls.manager.send_signal(signal.SIGINT)
        assert cls.manager.wait(SECONDS) == 0, cls.said()
        for port in range(cls.port, cls.port + 4):
            socket.create_server(("127.0.0.1", port)).close()
        assert not (cls.top / "replicas" / "pid").exists()

    @classmethod
    def said(cls):
        return cls.log.read_text()

    @classmethod
    def wait_for(cls, condition):
        until = time.monotonic() + SECONDS
        while not condition():
            logs = "".join(path.read_text(errors="replace")[-3000:] for path in (cls.top / "replicas").glob("*.log"))
            assert cls.manager.poll() is None and time.monotonic() < until, f"{cls.said()}\n{logs}"
            time.sleep(0.05)

    def ask(self, number, tokens=32):
        """Returns "" if the request is answered completely, else the reason. Odd numbers are streams."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        stream = number % 2 == 1
        body = {"model": "served", "prompt": f"request {number}", "max_tokens": tokens, "temperature": 0, "ignore_eos": True,
                "stream": stream}
        try:
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode()
            if answer.status != 200:
                return f"status {answer.status}: {text[:200]}"
            if stream:
                return "" if text.rstrip().endswith("data: [DONE]") else f"cut: {text[-100:]}"
            return "" if json.loads(text)["usage"]["completion_tokens"] == tokens else text
        except (OSError, http.client.HTTPException, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            connection.close()

    def healthy(self, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def both_answer(self):
        return all(self.healthy(port) for port in (self.port + 2, self.port + 3))

    def test_a_rolling_restart_loses_no_request(self):
        before = set(re.findall(r"is process (\d+)", self.said()))
        restarts = self.said().count("restarted all servers")
        over, failures, done = threading.Event(), [], []

        def load(first):
            number = first
            while not over.is_set():
                if why := self.ask(number):
                    failures.append(why)
                done.append(number)
                number += AT_ONCE

        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            loads = [pool.submit(load, first) for first in range(AT_ONCE)]
            try:
                self.wait_for(lambda: len(done) > AT_ONCE)
                subprocess.run([sys.executable, ROOT / "scripts" / "replicas", "restart", *self.options], check=True,
                               timeout=SECONDS)
                self.wait_for(lambda: self.said().count("restarted all servers") > restarts)
                at = len(done)
                self.wait_for(lambda: len(done) > at + 4 * AT_ONCE)
            finally:
                over.set()
            for one in loads:
                one.result()
        self.assertEqual(failures, [])
        self.assertEqual(len(set(re.findall(r"is process (\d+)", self.said())) - before), 2)

    def test_a_killed_server_loses_only_its_running_answers(self):
        self.wait_for(self.both_answer)
        victim = int(re.findall(rf"port {self.port + 2} is process (\d+)", self.said())[-1])
        begun, ended, lock, killed = {}, {}, threading.Lock(), []

        def one(number):
            with lock:
                begun[number] = time.monotonic()
                kill = len(ended) >= REQUESTS // 3 and not killed
                if kill:
                    killed.append(time.monotonic())
            if kill:
                os.kill(victim, signal.SIGKILL)
            why = self.ask(number, 64)
            with lock:
                ended[number] = why

        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(one, range(REQUESTS)))
        failed = {number: why for number, why in ended.items() if why}
        self.assertEqual(len(ended), REQUESTS)
        self.assertLess(len(failed), AT_ONCE, failed)
        later = {number: why for number, why in failed.items() if begun[number] > killed[0]}
        self.assertEqual(later, {})
        self.assertTrue(all(number % 2 == 1 for number in failed), failed)  # the router retries requests that are not streams
        self.wait_for(self.both_answer)  # the killed server is started again


class Vllm(Replicas):
    ROUTER = "vllm"


class Sglang(Replicas):
    ROUTER = "sglang"


del Replicas  # the base class is not a test


class Script(unittest.TestCase):
    def refused(self, *arguments):
        done = subprocess.run([sys.executable, ROOT / "scripts" / "replicas", *arguments], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(done.returncode, 2, done)
        self.assertEqual((done.stdout, len(done.stderr.splitlines())), ("", 1), done)
        return done.stderr

    def test_a_wrong_option_is_one_line(self):
        self.assertIn("from 1 to 64", self.refused("0"))
        self.assertIn("from 1 to 64", self.refused("many"))
        self.assertIn("kv_aware is vLLM's", self.refused("2", "--policy", "kv_aware", "--router", "sglang", "--", "--name", "m"))
        self.assertIn("--name NAME", self.refused("2", "--policy", "kv_aware"))
        self.assertIn("--port of the servers", self.refused("2", "--", "--port", "1"))
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("no replicas run", self.refused("restart", "--folder", folder))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            self.assertIn(f"port {port} is taken", self.refused("1", "--port", port))

    def test_if_a_server_does_not_start_all_end(self):
        with tempfile.TemporaryDirectory() as folder:
            first = free_ports(4)
            done = subprocess.run(
                [sys.executable, ROOT / "scripts" / "replicas", "2", "--port", str(first), "--first-port", str(first + 2),
                 "--folder", folder, "--python", str(PYTHON), "--", "-m", f"{folder}/none.gguf"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn("did not start: kvick: ", done.stderr)
            self.assertFalse((pathlib.Path(folder) / "pid").exists())


if __name__ == "__main__":
    unittest.main(verbosity=1)
