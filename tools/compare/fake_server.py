"""For tests: a program of a few lines in place of kvick or llama-server, and tests that run a tool of this folder with it."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent

# `bench` prints fixed rates. `serve` streams as many tokens as a request asks for, one every few milliseconds, and appends each
# temperature and prompt to the file `asked` beside the program. A model file whose name contains "slow" needs ten seconds for a
# token (but not in the warm-up), one with "full" refuses each request, and one with "broken" returns status 500.
PROGRAM = r"""#!/usr/bin/env python3
import http.server, json, pathlib, sys, time
arguments = sys.argv[1:]
if arguments[0] == "bench":
    print(json.dumps({"prefill_tok_s": 2000.0, "decode_tok_s": 1000.0}))
    sys.exit()
model = arguments[arguments.index("-m") + 1]

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"data": [{"id": "a-model"}]}).encode())
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open(pathlib.Path(__file__).parent / "asked", "a") as asked:
            asked.write(json.dumps([body["temperature"], body["prompt"]]) + "\n")
        status = 429 if "full" in model else 500 if "broken" in model else 200
        self.send_response(status)
        self.send_header("Connection", "close")
        self.end_headers()
        if status != 200:
            return
        for i in range(body["max_tokens"]):
            time.sleep(10 if "slow" in model and body["max_tokens"] > 2 else 0.002)
            self.wfile.write(b'data: {"choices": [{"text": "x", "finish_reason": null}]}\n\n')
            self.wfile.flush()
        usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": body["max_tokens"]}}
        self.wfile.write(f"data: {json.dumps(usage)}\n\ndata: [DONE]\n\n".encode())
    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(arguments[arguments.index("--port") + 1])), Handler).serve_forever()
"""


class ToolTest(unittest.TestCase):
    """TOOL is the file of the tool in this folder. Each test has a folder of its own with the program."""

    TOOL = ""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program = self.folder / "kvick"
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)

    def run_it(self, *arguments):
        return subprocess.run([sys.executable, HERE / self.TOOL, "--program", self.program, *arguments],
                              capture_output=True, text=True, timeout=120)
