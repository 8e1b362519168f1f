"""A proxy between a client and `kvick serve`. It forwards and records requests, and chooses which of the server's models answers.

The server has three models that each give one fixed answer (replay_model.py): `call` calls the client's tool, `form` writes a JSON
object, and `kvick`, the name that clients send, writes a sentence. A request with a tool's result goes to `kvick`, one that
offers the tool to `call`, one that asks for JSON to `form`, and any other to `kvick`.
"""

import http.client
import http.server
import json
import threading

HOP = {"connection", "content-length", "host", "transfer-encoding", "accept-encoding"}
SECONDS = 300


def blocks_of(message):
    content = message.get("content")
    return content if isinstance(content, list) else []


def has_result(body):
    """Whether the request contains the result of a tool."""
    items = body.get("messages") or body.get("input")
    items = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    kinds = {item.get("type") for item in items} | {item.get("role") for item in items}
    kinds |= {block.get("type") for item in items for block in blocks_of(item)}
    return bool(kinds & {"tool", "tool_result", "function_call_output"})


def asks_form(body):
    """Whether the request asks for JSON, by the fields of four APIs: chat completions, responses, Anthropic's messages, Ollama's."""
    asked = (body.get("response_format"), (body.get("text") or {}).get("format") if isinstance(body.get("text"), dict) else None,
             (body.get("output_config") or {}).get("format"), body.get("output_format"), body.get("format"))
    return any(form if isinstance(form, str) else form and form.get("type", "") not in ("", "text") or form and "properties" in form
               for form in asked)


def offered(body):
    """The names of the request's tools, as the model sees them."""
    names = set()
    for tool in body.get("tools") or []:
        name = tool.get("name") or tool.get("function", {}).get("name")
        names |= {f"{name}__{inner['name']}" for inner in tool["tools"]} if tool.get("type") == "namespace" else {name}
    return names


class Exchange:
    def __init__(self, method, path, headers, body):
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.status, self.ignored, self.answer = 0, None, b""


class Recorder:
    """with Recorder(port, tool) as recorder: recorder.url, recorder.exchanges. tool: the tool that the model `call` calls."""

    def __init__(self, port, tool):
        self.upstream, self.tool, self.exchanges = port, tool, []
        handler = type("Handler", (Handler,), {"owner": self})
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def model_for(self, body):
        if has_result(body):
            return "kvick"
        if self.tool in offered(body) and body.get("tool_choice") != "none":
            return "call"
        return "form" if asks_form(body) else "kvick"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner = None

    def hand_on(self):
        length = int(self.headers.get("Content-Length") or 0)
        data = self.rfile.read(length)
        headers = {name.lower(): value for name, value in self.headers.items() if name.lower() not in HOP}
        try:
            body = json.loads(data) if data else None
        except ValueError:
            body = data.decode(errors="replace")
        exchange = Exchange(self.command, self.path, headers, body)
        self.owner.exchanges.append(exchange)
        if isinstance(body, dict) and "model" in body:
            data = json.dumps({**body, "model": self.owner.model_for(body)}).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.owner.upstream, timeout=SECONDS)
        try:
            connection.request(self.command, self.path, data or None, headers)
            self.answer(exchange, connection.getresponse())
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            connection.close()

    do_GET = do_POST = do_DELETE = do_HEAD = do_OPTIONS = hand_on

    def answer(self, exchange, response):
        exchange.status, exchange.ignored = response.status, response.headers["X-Kvick-Ignored-Fields"]
        self.send_response(response.status)
        for name, value in response.headers.items():
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "server", "date"):
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        while piece := response.read1(1 << 16):
            exchange.answer += piece
            self.wfile.write(piece)
            self.wfile.flush()

    def log_message(self, *_):
        pass
