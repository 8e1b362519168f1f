#!/usr/bin/env python3
"""Compares the speed at which kvick's and llama.cpp's servers embed texts of mixed lengths, and whether their vectors agree.

    tools/compare/embeddings.py --llama-program PATH [--texts 64] [--shortest 16] [--longest 400] [--batch 16]
                                [--connections 2] [--rounds 3] [-o MACHINE/NAME] FILE.gguf...

Each file is served by `kvick serve` and by llama.cpp's server, which are measured alternately. A text consists of random tokens; its
length is random between --shortest and --longest. Both servers get the same texts; each round has new ones. A request to
/v1/embeddings has --batch texts, and --connections requests run at a time. The server that is not being measured is paused with
SIGSTOP. Rates are tokens of texts per second. `cosine` is the lowest cosine similarity between the two servers' vectors of a text.

Prints a table; with -o MACHINE/NAME writes docs/results/MACHINE/DATE/NAME.json.
"""
import argparse
import concurrent.futures
import http.client
import json
import math
import os
import pathlib
import random
import signal
import statistics
import sys
import time

import kept
from compare import ROOT, machine
from servers import Server


def texts(args, turn=0):
    draw = random.Random(args.seed + turn)
    return [[draw.randrange(1000, args.vocab) for _ in range(draw.randint(args.shortest, args.longest))] for _ in range(args.texts)]


def embed(port, batch):
    """(vectors, number of tokens that the server counted) of some texts."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", "/v1/embeddings", json.dumps({"input": batch}), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        sys.exit(f"/v1/embeddings: {answer.status} {body[:300]}")
    body = json.loads(body)
    found = sorted(body["data"], key=lambda entry: entry["index"])
    return [entry["embedding"] for entry in found], body["usage"]["prompt_tokens"]


def run(args, port, inputs):
    """(vectors, tokens per second)"""
    batches = [inputs[i:i + args.batch] for i in range(0, len(inputs), args.batch)]
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(args.connections) as pool:
        answers = list(pool.map(lambda batch: embed(port, batch), batches))
    seconds = time.monotonic() - began
    tokens = sum(map(len, inputs))
    counted = sum(count for _, count in answers)
    if counted != tokens:
        sys.exit(f"a server counts {counted} tokens in texts of {tokens}")
    return [vector for vectors, _ in answers for vector in vectors], tokens / seconds


def cosine(a, b):
    if len(a) != len(b):
        sys.exit(f"vectors of {len(a)} and {len(b)} values")
    product = sum(x * y for x, y in zip(a, b))
    return product / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def measure(args, file):
    threads = str(args.threads)
    name = pathlib.Path(file).name
    servers = {"kvick": Server(f"kvick, {name}", [args.program, "serve", "-m", file, "--quiet", "--threads", threads], name),
               "llama-server": Server(f"llama-server, {name}",
                                      [args.llama_program, "-m", file, "--embedding", "-t", threads, "-tb", threads, "-np", "8",
                                       "-c", "8192", "-b", "4096", "-ub", "4096"], name)}
    rates, vectors = {label: [] for label in servers}, {}
    try:
        for server in servers.values():
            server.wait()
            server.signal(signal.SIGSTOP)
        for turn in range(args.rounds + 1):
            inputs = texts(args, turn)
            for label, server in servers.items():
                server.signal(signal.SIGCONT)
                vectors[label], rate = run(args, server.port, inputs)
                server.signal(signal.SIGSTOP)
                if turn > 0:  # the first turn is a warm-up
                    rates[label].append(rate)
    finally:
        for server in servers.values():
            server.end()
    result = {"file": name, "rates": rates,
              "ratio": statistics.median(a / b for a, b in zip(rates["kvick"], rates["llama-server"])),
              "cosine": min(map(cosine, vectors["kvick"], vectors["llama-server"]))}
    print(json.dumps(result), file=sys.stderr, flush=True)
    return result


def table(result):
    lines = ["| file | kvick, tokens/s | llama-server | over llama-server | cosine |", "|---|---|---|---|---|"]
    for row in result["files"]:
        rates = [f"{statistics.median(row['rates'][label]):,.0f}" for label in ("kvick", "llama-server")]
        lines.append(f"| {row['file']} | {rates[0]} | {rates[1]} | {row['ratio']:.2f} | {row['cosine']:.4f} |")
    return "\n".join(lines)


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.gguf")
    parser.add_argument("--program", default=str(ROOT / "build/release/kvick"))
    parser.add_argument("--llama-program", default="llama-server")
    for name, default in (("texts", 64), ("shortest", 16), ("longest", 400), ("batch", 16), ("connections", 2), ("rounds", 3),
                          ("vocab", 30000), ("seed", 1), ("threads", os.cpu_count())):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("-o", "--output", metavar="MACHINE/NAME")
    args = parser.parse_args()
    if args.output:
        kept.parsed(args.output)
    return args


def main():
    args = parsed()
    result = {"command": "tools/compare/embeddings.py " + " ".join(sys.argv[1:]), "machine": machine(), "rounds": args.rounds,
              "files": [measure(args, file) for file in args.files]}
    print(table(result))
    if args.output:
        kept.keep(args.output, result)


if __name__ == "__main__":
    main()
