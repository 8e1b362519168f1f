"""A `kvick serve` of a test's own: started on a free port, asked over loopback, never left behind."""

import http.client
import json
import signal
import subprocess

from made_model import KVICK, CommandTest, make_model

SECONDS = 60  # for anything that should take a moment


class Server:
    def __init__(self, folder, env, model, *arguments):
        self.log = open(folder / "serve.log", "ab")
        self.process = self.start([KVICK, "--json", "serve", "-m", model, "--port", "0", *map(str, arguments)],
                                  env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log)
        line = self.process.stdout.readline()  # ends with the process, so this wait ends too
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
        """Status and body, which is parsed where it is JSON."""
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
        """The events of a stream as they come; the last must be [DONE]."""
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
        """Exit status, after that signal."""
        self.process.send_signal(number)
        status = self.process.wait(SECONDS)
        self.kill()
        return status

    def kill(self):
        """Also what cleans up: does nothing to a server that has ended."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()


class ServedTest(CommandTest):
    """Servers of a model made as MODEL says, with the options ALWAYS; killed when the test ends."""

    COMMAND = "serve"
    MODEL = ()  # of make_model
    ALWAYS = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        make_model(cls.model, *cls.MODEL)

    def serve(self, *arguments):
        server = Server(self.top, self.env, self.model, *self.ALWAYS, *arguments)
        self.addCleanup(server.kill)
        return server
