"""Runs a `redis-server` for a test on a free port and talks to it. Tests are skipped if it is not installed."""

import shutil
import signal
import socket
import subprocess
import time

SECONDS = 60
PROGRAM = shutil.which("redis-server") or shutil.which("valkey-server")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


class Redis:
    def __init__(self, folder, *arguments, password="", tls=False):
        self.port, self.password, self.folder = free_port(), password, folder
        self.arguments = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder), *arguments]
        if password:
            self.arguments += ["--requirepass", password]
        self.arguments += ["--port", "0", "--tls-port", str(self.port)] if tls else ["--port", str(self.port)]
        self.tls = tls
        self.start()

    @property
    def url(self):
        secret = f":{self.password}@" if self.password else ""
        return f"{'rediss' if self.tls else 'redis'}://{secret}127.0.0.1:{self.port}"

    def start(self):
        """Starts the server; after stop(), again on the same port."""
        log = open(self.folder / "redis.log", "ab")
        self.process = subprocess.Popen([PROGRAM, *self.arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        until = time.monotonic() + SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self.process.poll() is None and time.monotonic() < until, (self.folder / "redis.log").read_text()
                time.sleep(0.01)

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.send_signal(signal.SIGCONT)
        self.process.wait()

    def ask(self, *command):
        """Sends one command and returns the reply: bytes, a number, None, or a list of these."""
        with socket.create_connection(("127.0.0.1", self.port), SECONDS) as connection:
            file = connection.makefile("rb")
            for words in ([["AUTH", self.password]] if self.password else []) + [command]:
                parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
                connection.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
                answer = self.read(file)
            return answer

    def read(self, file):
        line = file.readline().strip()
        kind, rest = line[:1], line[1:]
        if kind in (b"+", b"-"):
            assert kind == b"+", rest
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"*":
            return [self.read(file) for _ in range(int(rest))]
        if int(rest) < 0:
            return None
        return file.read(int(rest) + 2)[:-2]
