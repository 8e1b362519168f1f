"""A web server for the tests of `kvick pull`. A test defines what each path does; the server records the requests."""

import http.server
import random
import threading

DEFAULT_ETAG = '"first"'


def model_bytes(count=300_000, seed=1):
    """Random bytes that begin like a GGUF file."""
    return b"GGUF" + random.Random(seed).randbytes(count - 4)


class ModelServer:
    """with ModelServer() as server: server.routes["/x.gguf"] = send_file(data); ... server.url + "/x.gguf" """

    def __init__(self):
        self.routes = {}
        self.requests = []  # (path, headers with lower-case names), in order of arrival
        handler = type("Handler", (Handler,), {"owner": self})
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def headers_of(self, path):
        return [headers for asked, headers in self.requests if asked == path]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner = None

    def do_GET(self):
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.owner.requests.append((self.path, headers))
        self.close_connection = True
        route = self.owner.routes.get(self.path)
        try:
            if route is None:
                reply(self, 404, b"no such file")
            else:
                route(self, headers)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client closed the connection

    def log_message(self, *_):
        pass


def reply(handler, status, body=b"", length=None, **headers):
    """Sends a response. length: value of Content-Length (default: the body's length; False: no Content-Length, closing the connection
    ends the body)."""
    handler.send_response(status)
    if length is not False:
        handler.send_header("Content-Length", str(len(body) if length is None else length))
    handler.send_header("Connection", "close")
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), str(value))
    handler.end_headers()
    handler.wfile.write(body)


def send_file(data, etag=DEFAULT_ETAG, ranges=True, cut=None, if_range=True, before=None, **headers):
    """A route that sends a file and supports ranges (RFC 9110).

    cut: closes the connection after this many bytes of each response. if_range=False: ignores If-Range. before(handler): called
    between headers and body.
    """

    def route(handler, asked):
        extra = dict(headers)
        if etag:
            extra["ETag"] = etag
        begin, status = 0, 200
        same = not if_range or asked.get("if-range") in (None, etag)
        if ranges and same and asked.get("range", "").startswith("bytes="):
            begin, status = int(asked["range"][6:].split("-")[0]), 206
            if begin >= len(data):
                return reply(handler, 416, Content_Range=f"bytes */{len(data)}", **extra)
            extra["Content_Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        body = data[begin:]
        reply(handler, status, b"", len(body), **extra)
        handler.wfile.flush()
        if before:
            before(handler)
        handler.wfile.write(body if cut is None else body[:cut])

    return route


def send_status(status, body=b"", **headers):
    return lambda handler, _: reply(handler, status, body, **headers)


def redirect(to, status=302, **headers):
    return send_status(status, Location=to, **headers)


def in_turn(*routes):
    """A route that handles the first request with the first of these routes, and so on. The last one handles all further requests."""
    left = list(routes)
    return lambda handler, asked: (left.pop(0) if len(left) > 1 else left[0])(handler, asked)


def stall(handler):
    """Sends nothing more and keeps the connection open until the test ends."""
    handler.wfile.flush()
    handler.owner.stopping.wait(60)
