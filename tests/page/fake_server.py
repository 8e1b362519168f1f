"""A fake `kvick serve` without a model: serves the page's files, scripted answers, and a made-up state of the cache.

    tests/page/fake_server.py [PORT]        serves the page, to look at it while working on it

The answer depends on words in the last message: "markdown", "think", "tool", "json", "slow", "break" or "fail"; otherwise it is a
plain sentence. Tests use the class FakeServer, whose `requests` are the bodies of the received requests.
"""

import http.server
import json
import pathlib
import sys
import threading
import time

PAGE = pathlib.Path(__file__).resolve().parents[2] / "src" / "server" / "page"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
POLICY = "default-src 'self'; img-src data:; frame-ancestors 'none'"
MARKDOWN = """## Reversing a list

There are **two ways**, one *in place*:

1. `items.reverse()` changes the list itself.
2. `items[::-1]` makes a new one:
   - slower for long lists
   - leaves the first one as it was

```python
def reversed_copy(items):
    \"\"\"A new list, from the last to the first.\"\"\"
    return items[::-1]


print(reversed_copy([1, 2, 3]))  # [3, 2, 1]
```

| way | memory | changes the list |
|---|---:|---|
| `reverse()` | none | yes |
| `[::-1]` | one copy | no |

> The [documentation](https://docs.python.org/3/) says more.

<script>document.title = "broken"</script> [no](javascript:document.title='broken') ![p](https://example.org/p.png)
"""
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}


def answer_to(messages):
    """(deltas of the scripted answer, its finish reason)."""
    last = messages[-1]
    text = last["content"].lower()
    words = lambda content: [{"content": word + " "} for word in content.split(" ")]
    if last["role"] == "tool":
        return words(f"The tool says: {last['content']}."), "stop"
    if "markdown" in text or "python" in text:
        return [{"content": MARKDOWN[i:i + 7]} for i in range(0, len(MARKDOWN), 7)], "stop"
    if "think" in text:
        return [{"reasoning_content": "The question is **short**, "}, {"reasoning_content": "so the answer may be too."}] + words("It is 42."), "stop"
    if "tool" in text:
        parts = ['{"place": ', '"Paris", "days"', ": 3}"]
        return [{"tool_calls": [CALL]}] + [{"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in parts], "tool_calls"
    if "json" in text:
        return [{"content": part} for part in ('{"name": "kvick", ', '"tags": ["cache", ', '"engine"]}')], "stop"
    if "slow" in text:
        return [{"content": f"word{i} "} for i in range(2000)], "length"
    if "break" in text:
        return words("This answer is cut in the middle") + [None], ""
    return words(f"You said {last['content']!r}, as message {len(messages)}."), "stop"


class Cache:
    """Made-up counters and a made-up cache map, which change over time."""

    def __init__(self):
        self.began, self.steps, self.written, self.read, self.found, self.finished = time.monotonic(), 0, 0, 0, 0, 0
        self.kvick_requests = 0

    def pieces(self):
        block = {"bytes": 393216, "tokens": 16}
        held = lambda n, used, users, job: [{**block, "used_tokens": used, "users": users, "job": job}] * n
        return (held(6, 16, 3, 12) + held(9, 16, 1, 12) + held(1, 7, 1, 12) + held(8, 16, 1, 13) + held(1, 3, 1, 13) +
                held(12, 16, 1, 14) + held(1, 11, 1, 14) + held(22, 16, 0, 0))

    def state(self):
        pieces = self.pieces()
        sums = lambda chosen: sum(piece["bytes"] for piece in pieces if chosen(piece))
        usage = {"used_bytes": sums(lambda p: p["users"] > 0) - 700000, "allocated_bytes": sums(lambda p: True), "wasted_bytes": 700000,
                 "shared_bytes": sums(lambda p: p["users"] > 1), "cached_bytes": sums(lambda p: p["users"] == 0),
                 "evicted_bytes": 393216 * (40 + int((time.monotonic() - self.began) / 5)), "slow_bytes": 0, "slow_read_bytes": 0,
                 "slow_written_bytes": 0, "copied_bytes": 98304, "page_bytes": 393216, "metadata_bytes": 21000, "read_bytes": 0,
                 "checks": 0, "lost_mass": 0, "sequences": 4}
        other = {**{name: 0 for name in usage}, "used_bytes": 2500000, "allocated_bytes": 3000000, "wasted_bytes": 500000, "sequences": 1,
                 "checks": 40, "lost_mass": 0.6}
        stores = [{"instance": 0, "strategy": "paged:block=16", "type": "f16", "tier": "", "select": "", "usage": usage, "pieces": pieces},
                  {"instance": 0, "strategy": "bmc:r=64", "type": "q8", "tier": "", "select": "quest:budget=512", "usage": other,
                   "pieces": [{"bytes": 3000000, "used_tokens": 210, "tokens": 256, "users": 1, "job": 15}]}]
        one = lambda job, choice, state, store, tokens, prompt, cached: {
            "job": job, "choice": choice, "state": state, "store": store, "tokens": tokens, "prompt_tokens": prompt,
            "cached_tokens": cached, "bytes": tokens * 24576}
        return {"limit_bytes": 64 * 2**20, "stores": stores, "sequences": [
            one(12, 0, "answer", 0, 247, 120, 96), one(12, 1, "answer", 0, 131, 120, 96), one(12, 2, "answer", 0, 128, 120, 96),
            one(14, 0, "prompt", 0, 203, 400, 0), one(15, 0, "answer", 1, 210, 64, 0), one(16, 0, "swapped", 0, 90, 64, 0)]}

    def metrics(self):
        t = time.monotonic() - self.began
        self.kvick_requests += 1
        lines = ["# HELP kvick_jobs Jobs now, by state.", 'kvick_jobs{state="waiting"} 1', f'kvick_jobs{{state="running"}} {3 + int(t / 3) % 3}',
                 'kvick_jobs{state="preempted"} 1', 'kvick_job_tokens 1009', f'kvick_jobs_total{{end="finished"}} {210 + int(t * 1.7)}',
                 'kvick_jobs_total{end="cancelled"} 9', 'kvick_jobs_total{end="failed"} 0', 'kvick_jobs_total{end="refused"} 2',
                 f"kvick_prompt_tokens_total {52000 + int(t * 160)}", f"kvick_cached_tokens_total {31000 + int(t * 100)}",
                 f"kvick_generated_tokens_total {24000 + int(t * 97)}", f"kvick_steps_total {9000 + int(t * 30)}",
                 f"kvick_step_tokens_total {50000 + int(t * 150)}", "kvick_drafted_tokens_total 4000", "kvick_accepted_tokens_total 2900"]
        for name, share in ("queue", 0.002), ("first_token", 0.2), ("between_tokens", 0.03):
            for bound in 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5:
                lines.append(f'kvick_{name}_seconds_bucket{{le="{bound}"}} {int((400 + t * 9) * min(1, (bound / share) / 2))}')
            lines.append(f'kvick_{name}_seconds_bucket{{le="+Inf"}} {int(400 + t * 9)}')
        usage = self.state()["stores"][0]["usage"]
        for what in "used", "allocated", "wasted", "shared", "cached", "slow":
            lines.append(f'kvick_kv_bytes{{what="{what}"}} {usage[what + "_bytes"]}')
        lines += [f"kvick_kv_limit_bytes {64 * 2**20}", f"kvick_kv_evicted_bytes_total {usage['evicted_bytes']}", "kvick_kv_copied_bytes_total 98304",
                  'kvick_preemptions_total{how="swap"} 3', 'kvick_preemptions_total{how="recompute"} 1', "kvick_preemption_seconds_total 0.4",
                  f"kvick_kv_file_bytes {2**29}", f"kvick_kv_file_limit_bytes {2**32}", "kvick_kv_file_blocks 1365",
                  f'kvick_kv_file_events_total{{event="hit"}} {40 + int(t / 7)}', f'kvick_kv_file_events_total{{event="write"}} {300 + int(t / 4)}',
                  "kvick_http_connections 6", f"kvick_http_requests_total {self.kvick_requests}", 'kvick_http_dropped_total{why="too_many"} 0']
        return "\n".join(lines) + "\n"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, kind, body):
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def json(self, value, status=200):
        self.reply(status, "application/json", json.dumps(value))

    def refused(self):
        if not self.server.key or self.headers.get("Authorization") == f"Bearer {self.server.key}":
            return False
        self.json({"error": {"message": "give an API key of this server as the header Authorization: Bearer KEY"}}, 401)
        return True

    def do_GET(self):
        if self.server.gone:
            self.close_connection = True
            return None
        path = self.path.split("?")[0]
        name = {"/": "index.html", "/operator": "operator.html"}.get(path, path.removeprefix("/page/"))
        if "/" not in name and (PAGE / name).is_file():
            return self.reply(200, TYPES[(PAGE / name).suffix], (PAGE / name).read_bytes())
        if self.refused():
            return None
        cache = self.server.cache
        routes = {"/kv": cache.state, "/v1/models": lambda: {"data": self.server.models},
                  "/server_info": lambda: {"served_model_name": "smollm2", "version": "1.0.0", "context_length": 8192}}
        if path == "/metrics":
            return self.reply(200, "text/plain; version=0.0.4", cache.metrics())
        if path in routes:
            return self.json(routes[path]())
        return self.json({"error": {"message": f"there is nothing at {path}"}}, 404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.refused():
            return
        self.server.requests.append(body)
        if "fail" in body["messages"][-1]["content"].lower():
            return self.json({"error": {"message": 'unknown cache strategy "pagd"; there are paged, virtual and bmc'}}, 400)
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            self.stream(body["messages"])
        except (BrokenPipeError, ConnectionResetError):
            self.server.cancelled += 1

    def stream(self, messages):
        def event(value):
            self.wfile.write(f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode())
            self.wfile.flush()
            time.sleep(self.server.pause)

        deltas, end = answer_to(messages)
        for delta in deltas:
            if delta is None:
                return
            event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        event({"choices": [{"index": 0, "delta": {}, "finish_reason": end}]})
        event({"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": len(deltas), "prompt_tokens_details": {"cached_tokens": 16}}})
        event("[DONE]")


class FakeServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port=0, key="", pause=0.005):
        super().__init__(("127.0.0.1", port), Handler)
        self.key, self.pause, self.requests, self.cancelled, self.gone, self.cache = key, pause, [], 0, False, Cache()
        self.models = [{"id": "smollm2"}]
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass  # ignore browsers that close their connections

    def close(self):
        self.gone = True  # ends the connections that are still open
        self.shutdown()
        self.server_close()


if __name__ == "__main__":
    server = FakeServer(int(sys.argv[1]) if len(sys.argv) > 1 else 8081, pause=0.02)
    print(server.url, flush=True)
    threading.Event().wait()
