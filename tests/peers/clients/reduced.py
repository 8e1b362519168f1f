"""Shortens recorded requests of an agent to a fixture of tests/peers/requests. All fields and names are kept, and texts are cut. Of
several tools with the same fields only the first is kept, and the one that the model calls."""

import json
import re
import tempfile

TEXT = 60
HEADERS = {"accept", "anthropic-beta", "anthropic-version", "authorization", "content-type", "originator", "user-agent", "x-api-key", "x-app"}
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32,}")
FOLDER = re.compile(re.escape(tempfile.gettempdir()) + r"/kvick-clients-\w+/home")


def cut(value, key=""):
    if isinstance(value, dict):
        return {name: cut(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [cut(inner, key) for inner in value]
    if not isinstance(value, str) or key == "arguments":
        return value
    value = FOLDER.sub("/home/user", UUID.sub(lambda found: found[0][:8], value))
    return value if len(value) <= TEXT else value[:TEXT] + "..."


def form(tool):
    return json.dumps([tool.get("type"), sorted(tool), sorted(tool.get("function", {}))])


def fewer(tools, called):
    kept, forms = [], set()
    for tool in tools:
        name = tool.get("name") or tool.get("function", {}).get("name")
        if name != called and form(tool) in forms:
            continue
        forms.add(form(tool))
        kept.append({**tool, "tools": tool["tools"][:1]} if "tools" in tool else tool)
    return kept


def numberless(names):
    """The ignored fields without list indices, sorted, each once."""
    return sorted(set(re.sub(r"\[\d+\]", "[]", name) for name in names.split(", "))) if names else []


def reduced(exchange, called):
    """A recorder.Exchange as JSON, shortened. called: the tool that the model calls."""
    body = exchange.body
    if isinstance(body, dict) and body.get("tools"):
        body = {**body, "tools": fewer(body["tools"], called)}
    headers = {name: value for name, value in exchange.headers.items() if name in HEADERS}
    return {"method": exchange.method, "path": exchange.path, "headers": headers, "body": cut(body),
            "ignored": numberless(exchange.ignored)}


def same_but_for_texts(one, other):
    """Whether two requests differ in nothing but texts, so that one of them is enough."""
    def shape(value):
        if isinstance(value, dict):
            return {name: shape(inner) for name, inner in value.items() if name not in ("tools", "input")} | {
                "type": value.get("type"), "input": shape(value["input"]) if isinstance(value.get("input"), list) else None}
        return [shape(inner) for inner in value] if isinstance(value, list) else type(value).__name__
    return one["path"] == other["path"] and shape(one["body"]) == shape(other["body"])


def fixture(version, exchanges, called):
    requests = []
    for exchange in exchanges:
        small = reduced(exchange, called)
        if not any(same_but_for_texts(small, known) for known in requests):
            requests.append(small)
    return {"version": version, "requests": requests}
