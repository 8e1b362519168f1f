"""The processes of the chaos test: servers and a store that are stopped, killed and restarted under load."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

STORE = shutil.which("redis-server") or shutil.which("valkey-server")
START_SECONDS = 60


class Server:
    """A `kvick serve` process. Hold `lock` to end and start it; the other methods may be called from any thread."""

    def __init__(self, name, command, folder):
        self.name, self.command, self.folder = name, command, folder
        self.log = folder / f"{name}.log"
        self.files = folder / f"{name}-files"
        self.lock = threading.Lock()
        self.process, self.port, self.down = None, 0, True
        self.since = 0.0  # time of the last start (time.monotonic)
        self.lives, self.trouble = 0, []  # number of starts; messages about failed starts and ends

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        line = self.process.stdout.readline()  # returns when the server listens or exits
        if not line:
            self.process.wait()
            self.trouble.append(f"{self.name} did not start: status {self.process.returncode}")
            return
        self.port = json.loads(line)["port"]
        self.lives += 1
        self.since, self.down = time.monotonic(), False

    def end(self, number, bound):
        """Sends a signal, waits at most `bound` seconds for the exit, and returns the exit status. From now on broken connections are
        expected."""
        self.down = True
        self.process.send_signal(number)
        self.process.send_signal(signal.SIGCONT)
        try:
            status = self.process.wait(bound)
        except subprocess.TimeoutExpired:
            self.trouble.append(f"{self.name} did not end within {bound} s of signal {number}")
            self.process.kill()
            status = self.process.wait()
        self.process.stdout.close()
        return status

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def died(self):
        """Whether the server exited although it was not told to."""
        return not self.down and self.process.poll() is not None

    def excuses(self, began):
        """Whether a request that began at that time may go unanswered because the server is down or was restarted."""
        return self.down or began < self.since

    def connect(self, seconds):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)

    def metrics(self):
        connection = self.connect(START_SECONDS)
        try:
            connection.request("GET", "/metrics")
            lines = connection.getresponse().read().decode().splitlines()
        finally:
            connection.close()
        return {name.removeprefix("kvick_"): float(value)
                for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}

    def resident(self):
        """Resident memory in MB, or None if the process has ended."""
        try:
            with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
                return next((int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS")), None)
        except OSError:
            return None

    def use_cores(self, cores):
        """Restricts all existing threads of the server to these cores."""
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            os.sched_setaffinity(int(task), cores)

    def kill(self):
        if self.alive():
            self.down = True
            self.process.kill()
            self.process.wait()


class Store:
    """A Redis or Valkey server without files: empty at each start, always on the same port."""

    def __init__(self, folder):
        with socket.create_server(("127.0.0.1", 0)) as one:
            self.port = one.getsockname()[1]
        self.folder, self.process, self.lock = folder, None, threading.Lock()

    def start(self):
        with open(self.folder / "store.log", "ab") as log:
            self.process = subprocess.Popen([STORE, "--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no",
                                             "--dir", str(self.folder)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            try:
                return socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.02)

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def ask(self, *command):
        """The reply to one command. Raises OSError if there is none, for example while the store is killed or stopped."""
        with socket.create_connection(("127.0.0.1", self.port), 2) as connection:
            parts = [word if isinstance(word, bytes) else str(word).encode() for word in command]
            connection.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
            with connection.makefile("rb") as file:
                return self.read(file)

    def read(self, file):
        line = file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the store closed the connection")
        kind, rest = line[:1], line[1:].strip()
        if kind == b"*":
            return [self.read(file) for _ in range(int(rest))]
        if kind != b"$" or int(rest) < 0:
            return None if kind == b"$" else rest
        return file.read(int(rest) + 2)[:-2]
