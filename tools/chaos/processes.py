"""The processes of the chaos test: servers, a router and a store that are stopped, killed and restarted under load."""

import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

STORE = shutil.which("redis-server") or shutil.which("valkey-server")
START_SECONDS = 60
HERE = pathlib.Path(__file__).resolve().parent


def free_port():
    """A port for a process that is restarted on the same port. The system gives ports from its range to outgoing connections, which
    could take the port while the process is down, so this one is below the range."""
    low = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        try:
            with socket.create_server(("127.0.0.1", random.randrange(min(10000, low - 1000), low))) as one:
                return one.getsockname()[1]
        except OSError:  # taken
            pass


class Server:
    """A `kvick serve` process. Hold `lock` to end and start it, and `pausing` to stop it and let it continue; the other methods may be
    called from any thread. model: the name of its model, or None if each request names one. own_port: a port that it keeps, or 0."""

    def __init__(self, name, command, folder, model=None, own_port=0):
        self.name, self.command, self.folder, self.model, self.own_port = name, command, folder, model, own_port
        self.log = folder / f"{name}.log"
        self.files = folder / f"{name}-files"
        self.lock, self.pausing = threading.Lock(), threading.Lock()
        self.process, self.port, self.down = None, 0, True
        self.since = 0.0  # time of the last start (time.monotonic)
        self.lives, self.trouble = 0, []  # number of starts; messages about failed starts and ends
        self.policy = None  # its own policy, for requests that name none; "" if it differs between the servers behind a router
        self.reports_others = False  # whether it reports failures of other servers as its own, with a status of 500 or above
        self.environment = None  # environment variables of the process; None: those of this one

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            env=self.environment)
        line = self.process.stdout.readline()  # returns when the server listens or exits
        if not line:
            self.process.wait()
            self.trouble.append(f"{self.name} did not start: status {self.process.returncode}")
            return
        self.port = json.loads(line)["port"]
        self.lives += 1
        self.since, self.down = time.monotonic(), False

    def take_down(self):
        """From now on broken connections are expected. A server that has exited by itself before counts as a failure."""
        if self.died():
            self.trouble.append(f"{self.name} exited by itself with status {self.process.returncode}")
        self.down = True

    def end(self, number, bound):
        """Sends a signal, waits at most `bound` seconds for the exit, and returns the exit status. From now on broken connections are
        expected."""
        self.take_down()
        self.process.send_signal(number)
        self.process.send_signal(signal.SIGCONT)
        return self.wait(bound, f"signal {number}")

    def wait(self, bound, cause):
        """Waits for the exit, and returns the exit status. A server that does not exit within `bound` seconds is killed, which counts as
        a failure."""
        try:
            status = self.process.wait(bound)
        except subprocess.TimeoutExpired:
            self.trouble.append(f"{self.name} did not end within {bound} s of {cause}")
            self.kill()
            status = self.process.returncode
        if self.process.stdout:
            self.process.stdout.close()
        return status

    def pause(self):
        """Stops the process, and returns a function that lets it continue."""
        process = self.process
        process.send_signal(signal.SIGSTOP)
        return lambda: process.send_signal(signal.SIGCONT)

    def ids(self):
        """The ids of the processes that do the work."""
        return [self.process.pid]

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
        """Resident memory of all its processes in MB, or None if one has ended."""
        total = 0
        processes = self.ids()
        for process in processes:
            try:
                with open(f"/proc/{process}/status", encoding="ascii") as status:
                    kb = next((int(line.split()[1]) for line in status if line.startswith("VmRSS")), None)
            except OSError:
                return None
            if kb is None:  # a process that has ended, but whose status nobody has read yet
                return None
            total += kb / 1024
        return total if processes else None

    def use_cores(self, cores):
        """Restricts all existing threads of the server to these cores."""
        for process in self.ids():
            for task in os.listdir(f"/proc/{process}/task"):
                os.sched_setaffinity(int(task), cores)

    def kill(self):
        if self.alive():
            self.down = True
            self.process.kill()
            self.process.wait()


class Router(Server):
    """A router in front of servers of one model: router.py, or vllm-router with the path `program`. It stays on its port."""

    def __init__(self, folder, replicas, program):
        self.replicas, self.program = replicas, program
        port, ports = free_port(), [str(replica.own_port) for replica in replicas]
        command = [sys.executable, HERE / "router.py", str(port), *ports] if program is None else [
            program, "--host", "127.0.0.1", "--port", str(port), "--policy", "round_robin",
            "--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port()),
            # As scripts/replicas: a failed request shows the router that a server is gone, the health checks that it is back.
            "--health-check-interval-secs", "1", "--health-failure-threshold", "1", "--health-success-threshold", "1",
            "--cb-timeout-duration-secs", "1", "--worker-startup-check-interval", "1",
            "--worker-urls", *(f"http://127.0.0.1:{port}" for port in ports)]
        super().__init__("router", command, folder, replicas[0].model, port)
        self.reports_others, self.policy = program is not None, ""

    def start(self):
        if self.program is None:
            return super().start()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.port = self.own_port
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self.alive():
            if self.healthy():
                self.lives += 1
                self.since, self.down = time.monotonic(), False
                return
            time.sleep(0.05)
        self.trouble.append(f"{self.name} did not start within {START_SECONDS} s")

    def healthy(self):
        connection = self.connect(2)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def excuses(self, began):
        return super().excuses(began) or any(replica.excuses(began) for replica in self.replicas)


class Store:
    """A Redis or Valkey server without files: empty at each start, always on the same port."""

    def __init__(self, folder):
        self.port = free_port()
        self.folder, self.process, self.lock = folder, None, threading.Lock()
        self.lives = 0  # number of starts

    def start(self):
        self.lives += 1
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
