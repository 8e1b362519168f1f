#!/usr/bin/env python3
"""Measures how many prompt tokens a server computes again in multi-turn conversations, compared with llama.cpp's server.

    tools/compare/conversations.py --data FOLDER --kvick LABEL=FILE [--llama-server LABEL=FILE] [--kv-memory 48M]
                                   [--llama-options "-c 16384 --cache-ram 16"] [--kill] [--rounds 1] [-o MACHINE/NAME]

The trace has --conversations (40) conversations of --turns (6) turns. Each has one of four system prompts, two of which describe
tools. Questions and answers come from FOLDER/gsm8k/test.jsonl. In half of the conversations the history has the server's own answers.
In the others the server's answers stand for thinking, which chat templates strip: the history has the file's answers instead.
--streams (8) requests run at a time. The next conversation is chosen at random (--seed), so conversations wait while others
evict their rows.

A prompt token counts as read again if an earlier prompt had the same tokens up to and including it, but the server did not take it
from its cache (usage.prompt_tokens_details.cached_tokens). With --kill the server is killed (SIGKILL) after half of the requests and
started again. The figures of the two halves are separate.

Prints a table; with -o MACHINE/NAME writes docs/results/MACHINE/DATE/NAME.json.
"""
import argparse
import http.client
import json
import os
import pathlib
import random
import re
import shlex
import signal
import statistics
import sys
import tempfile
import threading
import time

import kept
from compare import ROOT, machine
from servers import Server

TOOLS = ("get_weather", "search", "send_mail", "calendar", "run_python", "read_file", "write_file", "list_folder")


def system_prompts(data):
    """The four system prompts: two without tools, and two with descriptions of tools, as agents send them."""
    def tool(name):
        return json.dumps({"type": "function", "function": {
            "name": name, "description": f"Calls {name.replace('_', ' ')} and gives back what it says.",
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}, "count": {"type": "integer"}}}}})
    words = (data / "text/wikitext2-valid.txt").read_text().split()
    return ["You are a helpful assistant. Answer in one sentence.",
            "You teach mathematics. " + " ".join(words[:120]),
            "You may call tools:\n" + "\n".join(map(tool, TOOLS[:4])),
            "You may call tools:\n" + "\n".join(map(tool, TOOLS)) + "\nWhat you know: " + " ".join(words[200:320])]


class Conversation:
    """A conversation and its history. turns: (question, answer) pairs. strips: the history gets these answers instead of the
    server's."""

    def __init__(self, system, turns, strips):
        self.messages = [{"role": "system", "content": system}]
        self.turns, self.strips = turns, strips

    def ask(self):
        self.messages.append({"role": "user", "content": self.turns[0][0]})
        return list(self.messages)

    def answered(self, text):
        answer = self.turns.pop(0)[1] if self.strips else (self.turns.pop(0) and text)
        self.messages.append({"role": "assistant", "content": answer})


def conversations(args):
    data = pathlib.Path(args.data)
    lines = (data / "gsm8k/test.jsonl").read_text().splitlines()
    pairs = [(entry["question"], entry["answer"]) for entry in map(json.loads, lines)]
    prompts = system_prompts(data)
    return [Conversation(prompts[i % len(prompts)], pairs[i * args.turns:(i + 1) * args.turns], i // 4 % 2 == 0)
            for i in range(args.conversations)]


def post(port, path, body, timeout=600):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    return connection.getresponse()


def tokens_of(port, messages):
    """The tokens of a prompt, from kvick's /tokenize, which accepts messages."""
    answer = post(port, "/tokenize", {"messages": messages})
    if answer.status != 200:
        sys.exit(f"/tokenize: {answer.status} {answer.read()[:300]}")
    return json.loads(answer.read())["tokens"]


def complete(port, messages, answer_tokens):
    """(answer, number of prompt tokens, number of cached prompt tokens, seconds to the first token)"""
    began, first, text, usage = time.monotonic(), None, "", None
    answer = post(port, "/v1/chat/completions", {
        "messages": messages, "max_tokens": answer_tokens, "temperature": 0, "stream": True, "ignore_eos": True,
        "stream_options": {"include_usage": True}})
    if answer.status != 200:
        sys.exit(f"{answer.status} {answer.read()[:300]}")
    for line in answer:
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        event = json.loads(line[6:])
        usage = event.get("usage") or usage
        for choice in event.get("choices", ()):
            delta = choice["delta"].get("content") or choice["delta"].get("reasoning_content") or ""
            if delta and first is None:
                first = time.monotonic() - began
            text += delta
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return text, usage["prompt_tokens"], cached, first if first is not None else time.monotonic() - began


class Seen:
    """All prompts so far as a prefix tree, to find the longest prefix that a prompt has in common with an earlier one."""

    def __init__(self):
        self.root, self.lock = {}, threading.Lock()

    def common(self, tokens):
        with self.lock:
            node, length = self.root, 0
            for token in tokens:
                if token not in node:
                    break
                node, length = node[token], length + 1
            return length

    def add(self, tokens):
        with self.lock:
            node = self.root
            for token in tokens:
                node = node.setdefault(token, {})


class Run:
    """One run of the trace on one server."""

    def __init__(self, args, server, tokenizer):
        self.args, self.server, self.tokenizer = args, server, tokenizer
        self.ready, self.rows, self.seen = conversations(args), [], Seen()
        self.random, self.lock = random.Random(args.seed), threading.Lock()
        self.left = sum(len(c.turns) for c in self.ready)
        self.left_out = 0  # turns of conversations whose tokens the server counts differently

    def next(self, until):
        with self.lock:
            if self.left <= until:
                return None
            ready = [c for c in self.ready if c.turns]
            if not ready:
                return None  # all remaining turns are in conversations that wait for an answer
            self.left -= 1
            chosen = self.random.choice(ready)
            self.ready.remove(chosen)
            return chosen

    def work(self, until):
        while (talk := self.next(until)) is not None:
            messages = talk.ask()
            tokens = tokens_of(self.tokenizer, messages)
            common = self.seen.common(tokens)
            text, prompt, cached, first = complete(self.server.port, messages, self.args.answer)
            if prompt != len(tokens):
                print(f"{self.server.label} counts {prompt} tokens in a prompt of {len(tokens)}; leaving out its conversation",
                      file=sys.stderr)
                with self.lock:
                    self.left -= len(talk.turns) - 1  # next() has counted this turn
                    self.left_out += len(talk.turns)
                continue
            self.seen.add(tokens)
            with self.lock:
                talk.answered(text)
                self.ready.append(talk)
                self.rows.append({"prompt": prompt, "cached": cached, "again": max(0, common - cached), "ttft": first})

    def part(self, until):
        """Sends requests until `until` turns are left. Returns one row for each request."""
        self.rows = []
        threads = [threading.Thread(target=self.work, args=(until,)) for _ in range(self.args.streams)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.left > until:  # the threads ended because all conversations waited for an answer
            self.work(until)
        return self.rows


def figures(rows):
    prompt, ttft = sum(r["prompt"] for r in rows), sorted(r["ttft"] for r in rows)
    return {"requests": len(rows), "prompt_tokens": prompt, "cached_tokens": sum(r["cached"] for r in rows),
            "read_again_share": sum(r["again"] for r in rows) / prompt,
            "ttft_s_p50": statistics.median(ttft), "ttft_s_p95": ttft[int(0.95 * (len(ttft) - 1))]}


def held_bytes(port):
    """Bytes that the server has allocated for keys, values and states, in use or cached. With a large --kv-memory nothing is evicted,
    so this is the memory for the whole trace."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if re.match(r'kvick_kv_bytes\{.*what="allocated"', line))


def start(args, kind, label, file, folder):
    if kind == "kvick":
        command = [args.program, "serve", "-m", file, "--quiet", "--kv-memory", args.kv_memory, "--max-seqs", str(args.streams),
                   *shlex.split(args.kvick_options.replace("FOLDER", folder))]
    else:
        command = [args.llama_program, "-m", file, "-np", str(args.streams), "-t", str(os.cpu_count()), "--jinja",
                   *shlex.split(args.llama_options)]
    server = Server(f"{kind} {label}", command, label)
    server.wait()
    return server


def measure(args, kind, label, file, tokenizer):
    with tempfile.TemporaryDirectory() as folder:
        server = start(args, kind, label, file, folder)
        try:
            run = Run(args, server, tokenizer)
            half = run.left // 2
            result = {"server": server.label, "first_half": figures(run.part(half))}
            if args.kill:
                server.signal(signal.SIGKILL)
                server.process.wait()
                run.server = server = start(args, kind, label, file, folder)
            result["second_half"] = figures(run.part(0))
            result["left_out"] = run.left_out
            if kind == "kvick":
                result["held_bytes"] = held_bytes(server.port)
        finally:
            server.end()
    print(json.dumps(result), file=sys.stderr, flush=True)
    return result


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--kvick", action="append", default=[], metavar="LABEL=FILE")
    parser.add_argument("--llama-server", action="append", default=[], metavar="LABEL=FILE")
    parser.add_argument("--program", default=str(ROOT / "build/release/kvick"))
    parser.add_argument("--llama-program", default="llama-server")
    parser.add_argument("--kv-memory", default="1G")
    parser.add_argument("--kvick-options", default="", help="further options for kvick serve; FOLDER stands for a new empty folder")
    parser.add_argument("--llama-options", default="")
    parser.add_argument("--kill", action="store_true")
    for name, default in (("conversations", 40), ("turns", 6), ("streams", 8), ("answer", 32), ("rounds", 1), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("-o", "--output", metavar="MACHINE/NAME")
    args = parser.parse_args()
    if args.output:
        kept.parsed(args.output)
    if not args.kvick:
        parser.error("give --kvick LABEL=FILE: kvick counts the tokens of all prompts")
    return args


def table(result):
    lines = ["| server | half | requests | prompt tokens | from the cache | read again | TTFT p50, s | p95 |", "|---" * 8 + "|"]
    for run in result["runs"]:
        for half in "first_half", "second_half":
            f = run[half]
            name = half.replace("_", " ") + (", after kill -9" if result["kill"] and half == "second_half" else "")
            lines.append(f"| {run['server']} | {name} | {f['requests']} | {f['prompt_tokens']} | "
                         f"{f['cached_tokens'] / f['prompt_tokens']:.1%} | {f['read_again_share']:.1%} | "
                         f"{f['ttft_s_p50']:.2f} | {f['ttft_s_p95']:.2f} |")
    lines += [f"\n{run['server']}: {run['left_out']} turns are left out, because this server counts other tokens in them"
              for run in result["runs"] if run.get("left_out")]
    return "\n".join(lines)


def main():
    args = parsed()
    label, _, file = args.kvick[0].partition("=")
    counter = Server("the tokenizer", [args.program, "serve", "-m", file, "--quiet", "--threads", "1"], label)
    counter.wait()
    result = {"command": "tools/compare/conversations.py " + " ".join(sys.argv[1:]), "machine": machine(), "kill": args.kill, "rounds": args.rounds,
              "runs": []}
    try:
        for _ in range(args.rounds):
            for kind, texts in ("kvick", args.kvick), ("llama-server", args.llama_server):
                for text in texts:
                    label, _, file = text.partition("=")
                    result["runs"].append(measure(args, kind, label, file, counter.port))
    finally:
        counter.end()
    print(table(result))
    if args.output:
        kept.keep(args.output, result)


if __name__ == "__main__":
    main()
