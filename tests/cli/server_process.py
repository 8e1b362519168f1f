"""Runs `kvick serve` for a test on a free loopback port, and always ends it."""

import http.client
import json
import signal
import subprocess

from made_model import KVICK, CommandTest, make_model

SECONDS = 60  # time limit for operations that usually take a moment


class Server:
    def __init__(self, folder, env, model, *arguments):
        self.log = open(folder / "serve.log", "ab")
        self.process = self.start([KVICK, "--json", "serve", "-m", model, "--port", "0", *map(str, arguments)],
                                  env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log)
        line = self.process.stdout.readline()  # returns when the server listens or exits
        if not line:
            self.kill()
            raise AssertionError(f"the server did not start: {(folder / 'serve.log').read_text()}")
        self.port = json.loads(line)["port"]

    def start(self, command, **options):
        return subprocess.Popen([*command, "--threads", "2"], **options)

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)

    def send(self, connection, method, path, body=None, key=None, headers=None):
        headers = dict(headers or {}, **({"Authorization": f"Bearer {key}"} if key else {}))
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, body if isinstance(body, (str, bytes, type(None))) else json.dumps(body), headers)
        return connection.getresponse()

    def ask(self, method, path, body=None, key=None, headers=None):
        """(status, body) of a response. A JSON body is parsed."""
        connection = self.connect()
        try:
            response = self.send(connection, method, path, body, key, headers)
            text = response.read().decode()
            return response.status, json.loads(text) if response.headers["Content-Type"] == "application/json" else text
        finally:
            connection.close()

    def post(self, path, key=None, **body):
        return self.ask("POST", path, body, key)

    def events(self, path, **body):
        """Yields the events of a stream as they arrive. Checks that it ends with [DONE]."""
        connection = self.connect()
        try:
            response = self.send(connection, "POST", path, {**body, "stream": True})
            assert response.status == 200, response.read()
            last = None
            for line in response:
                if line.startswith(b"data: "):
                    last = line[6:].strip()
                    if last != b"[DONE]":
                        yield json.loads(last)
            assert last == b"[DONE]", last
        finally:
            connection.close()

    def metric(self, name):
        status, text = self.ask("GET", "/metrics")
        assert status == 200
        return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"kvick_{name} "))

    def stop(self, number=signal.SIGTERM):
        """Sends a signal, waits for the exit, and returns the exit status."""
        self.process.send_signal(number)
        status = self.process.wait(SECONDS)
        self.kill()
        return status

    def kill(self):
        """Kills the server, if it still runs. Also called for cleanup."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()


class ServedTest(CommandTest):
    """Tests with servers of the model MODEL and the options ALWAYS. Servers are killed when a test ends."""

    COMMAND = "serve"
    MODEL = ()  # arguments of make_model
    ALWAYS = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        make_model(cls.model, *cls.MODEL)

    def serve(self, *arguments):
        server = Server(self.top, self.env, self.model, *self.ALWAYS, *arguments)
        self.addCleanup(server.kill)
        return server
