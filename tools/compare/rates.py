#!/usr/bin/env python3
"""Compares servers at several request rates: latency per output token against requests per second (vLLM's paper, Fig. 12 and 17).

    tools/compare/rates.py --kvick "LABEL=FILE[ OPTION...]"... [--llama-server "LABEL=FILE[ OPTION...]"...] [--vllm FOLDER --vllm-python DIR]
                           --work sharegpt --rates 0.5,1,2 [--seconds 60] [--rounds 1] [-o MACHINE/NAME]

Requests arrive at random times that do not depend on the server (Poisson), or with --work FILE.csv at the times of a trace (columns
TIMESTAMP, ContextTokens, GeneratedTokens), sped up or slowed down to the rate, with its bursts. --work says how long prompts and
answers are:

    sharegpt   161 and 338 tokens on average, log-normal: the means of ShareGPT in the paper (Fig. 11)
    alpaca     19 and 58 tokens on average, log-normal: the means of Alpaca there
    chat       the history of a chat as the prompt, cut to its last 1,024 tokens, and answers as in sharegpt (Fig. 17)
    FILE.csv   the lengths of the trace

A prompt and its answer together are cut to --context tokens. All servers get the same requests at the same times. Each --kvick starts
`kvick serve -m FILE OPTION...`, so that one file can be served by several strategies; each --llama-server starts llama.cpp's server.
All servers are started first; while one is measured, the others are paused with SIGSTOP.

The latency per token of a request is the time from when it was due until its last token, divided by the number of its answer's tokens;
the table has the mean over requests, as the paper does. A server that has not answered everything --patience (60) seconds after the last
arrival is cut off: its unanswered requests count with the time they have waited so far and all their tokens, which is less than the
truth, and higher rates are not tried with it. A refused request (429 or 503) has no latency and is counted apart.
"""
import argparse
import asyncio
import csv
import datetime
import json
import math
import os
import pathlib
import random
import shlex
import signal
import statistics
import sys
import time

import kept
from compare import ROOT, machine
from servers import Server

sys.path.insert(0, str(ROOT / "tools/overload"))
from arrivals import load, poisson  # noqa: E402  (beside the client that it uses)

MEANS = {"sharegpt": (161.31, 337.99), "alpaca": (19.31, 58.45), "chat": (None, 337.99)}
SIGMA = 1.0  # of the logarithms of lengths
CHAT_HISTORY = 1024


def log_normal(chance, mean):
    """A length in tokens from a log-normal distribution with this mean."""
    return max(1, round(chance.lognormvariate(math.log(mean) - SIGMA ** 2 / 2, SIGMA)))


def chat_prompt(chance):
    """The length of a chat's history: one to eight earlier turns and a question, cut to the last 1,024 tokens."""
    question, answer = MEANS["sharegpt"]
    turns = chance.randint(1, 8)
    return min(CHAT_HISTORY, sum(log_normal(chance, question) + log_normal(chance, answer) for _ in range(turns)) + log_normal(chance, question))


def fitted(prompt, answer, context):
    """The lengths cut so that both fit into the context: first the answer to half of it, then the prompt to the rest."""
    answer = max(1, min(answer, context // 2))
    return max(1, min(prompt, context - answer)), answer


def trace(path):
    """[(seconds since the first request, prompt tokens, answer tokens)] of a CSV file."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    wanted = {"TIMESTAMP", "ContextTokens", "GeneratedTokens"}
    if not rows or not wanted <= rows[0].keys():
        raise ValueError(f"{path}: not a trace: its first line must name the columns {', '.join(sorted(wanted))}")
    times = [datetime.datetime.fromisoformat(row["TIMESTAMP"][:26]) for row in rows]
    return [((at - times[0]).total_seconds(), int(row["ContextTokens"]), int(row["GeneratedTokens"])) for at, row in zip(times, rows)]


def arrivals(work, rate, seconds, context, seed, rows=None):
    """[(seconds since the begin, prompt tokens, answer tokens)] of one phase. rows: the trace, if the work is one."""
    chance = random.Random(seed)
    if rows is not None:
        begin = chance.randrange(len(rows) // 2)
        count = max(1, round(rate * seconds))
        part = rows[begin:begin + count]
        scale = seconds / max(1e-9, part[-1][0] - part[0][0]) if len(part) > 1 else 0
        return [((at - part[0][0]) * scale, *fitted(prompt, answer, context)) for at, prompt, answer in part]
    prompt_mean, answer_mean = MEANS[work]
    def lengths():
        prompt = chat_prompt(chance) if prompt_mean is None else log_normal(chance, prompt_mean)
        return fitted(prompt, log_normal(chance, answer_mean), context)
    return [(at, *lengths()) for at in poisson(chance, rate, seconds)]


class Answer:
    """What became of one request."""

    def __init__(self, tokens):
        self.tokens, self.first, self.last, self.refused, self.error = tokens, None, None, False, ""


async def ask(server, due, prompt, answer, began):
    await asyncio.sleep(max(0, began + due - time.perf_counter()))
    try:
        got = await load.exchange("127.0.0.1", server.port, {**load.body_of(prompt, answer.tokens), "model": server.model}, began + due)
    except (OSError, ValueError, asyncio.IncompleteReadError) as error:
        answer.error = repr(error)
        return
    answer.refused = got.status in (429, 503)
    if got.status != 200 and not answer.refused:
        answer.error = f"status {got.status}: {got.text[-200:]}"
    elif got.status == 200 and not (got.whole and got.times):
        answer.error = "the answer was cut off"
    elif got.status == 200:
        answer.first, answer.last = got.times[0], got.times[-1]


async def phase(server, requests, vocab, seed, patience):
    """Sends the requests and returns (answers, seconds that unanswered ones had waited when they were given up or None)."""
    chance = random.Random(seed)
    prompts = [[chance.randrange(1000, vocab) for _ in range(prompt)] for _, prompt, _ in requests]
    answers = [Answer(answer) for *_, answer in requests]
    began = time.perf_counter()
    tasks = [asyncio.create_task(ask(server, due, prompt, answer, began))
             for (due, *_), prompt, answer in zip(requests, prompts, answers)]
    await asyncio.wait(tasks, timeout=requests[-1][0] + patience)
    waited = time.perf_counter() - began
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return answers, waited


def figures(requests, answers, waited):
    """The figures of one phase. Latencies are in seconds."""
    latencies, firsts, unanswered = [], [], 0
    for (due, *_), answer in zip(requests, answers):
        if answer.last is not None:
            latencies.append(answer.last / answer.tokens)
            firsts.append(answer.first)
        elif not answer.refused and not answer.error:
            unanswered += 1
            latencies.append((waited - due) / answer.tokens)
    errors = [answer.error for answer in answers if answer.error]
    done = [answer for answer in answers if answer.last is not None]
    return {"requests": len(requests), "answered": len(done), "unanswered": unanswered,
            "refused": sum(answer.refused for answer in answers), "errors": len(errors), "error": errors[0] if errors else "",
            "s_per_token": statistics.fmean(latencies) if latencies else None,
            "s_per_token_p90": load.share(latencies, 90) if latencies else None,
            "ttft_s_p50": statistics.median(firsts) if firsts else None, "ttft_s_p95": load.share(firsts, 95) if firsts else None,
            "output_tok_s": sum(answer.tokens for answer in done) / waited,
            "prompt_tokens": statistics.fmean(prompt for _, prompt, _ in requests),
            "answer_tokens": statistics.fmean(answer for *_, answer in requests)}


def parsed(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvick", action="append", default=[], metavar="LABEL=FILE [OPTION...]")
    parser.add_argument("--program", default=str(ROOT / "build/release/kvick"))
    parser.add_argument("--llama-server", action="append", default=[], metavar="LABEL=FILE [OPTION...]")
    parser.add_argument("--llama-program", default="llama-server", help="llama.cpp's server")
    parser.add_argument("--vllm", help="Hugging Face folder that vLLM serves")
    parser.add_argument("--vllm-python", help="virtual environment with vLLM")
    parser.add_argument("--work", default="sharegpt", help="sharegpt, alpaca, chat, or a CSV file with a trace (default: sharegpt)")
    parser.add_argument("--rates", default="0.5,1,1.5,2,3", help="requests per second, rising (default: 0.5,1,1.5,2,3)")
    parser.add_argument("--seconds", type=float, default=60, help="length of a phase (default: 60)")
    parser.add_argument("--patience", type=float, default=60, help="seconds to wait for the last answers (default: 60)")
    parser.add_argument("--context", type=int, default=2048, help="most tokens of a prompt and its answer (default: 2048)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--vocab", type=int, default=32000, help="token ids of prompts are from 1000 to this number (default: 32000)")
    parser.add_argument("-o", "--output", metavar="MACHINE/NAME")
    args = parser.parse_args(arguments)
    try:
        kept.parsed(args.output or "no/output")
        args.rows = None if args.work in MEANS else trace(args.work)
        args.rates = sorted(float(text) for text in args.rates.split(","))
    except (ValueError, OSError) as error:
        parser.error(str(error))
    if min(args.rates) <= 0 or min(args.seconds, args.patience, args.rounds) <= 0 or args.context < 16 or args.vocab <= 1000:
        parser.error("rates, --seconds, --patience and --rounds must be positive, --context at least 16, --vocab more than 1000")
    if bool(args.vllm) != bool(args.vllm_python):
        parser.error("--vllm and --vllm-python go together")
    if not args.kvick and not args.llama_server and not args.vllm:
        parser.error("give at least one server: --kvick LABEL=FILE, --llama-server LABEL=FILE or --vllm FOLDER")
    for text in args.kvick + args.llama_server:
        if not all(text.partition("=")[::2]):
            parser.error(f"{text}: give LABEL=FILE, with options of the server behind the file if it needs any")
    return args


def start(args, servers):
    """Starts all servers, adds them to the list `servers` and pauses them."""
    for option, name, command in (("kvick", "kvick", [args.program, "serve", "--quiet"]), ("llama_server", "llama-server", [args.llama_program])):
        for text in getattr(args, option):
            label, _, rest = text.partition("=")
            file, *options = shlex.split(rest)
            servers.append(Server(f"{name} {label}", [*command, "-m", file, *options], pathlib.Path(file).stem))
    if args.vllm:
        servers.append(Server("vLLM", [f"{args.vllm_python}/bin/vllm", "serve", args.vllm, "--dtype", "bfloat16", "--max-model-len",
                                       str(args.context)], args.vllm, {"VLLM_CPU_KVCACHE_SPACE": "4"}))
    for server in servers:
        server.ready()
        asyncio.run(phase(server, [(0, 8, 2)], args.vocab, 0, 60))  # a warm-up
        server.signal(signal.SIGSTOP)
    print("all servers are up", file=sys.stderr, flush=True)


def measure(args, servers):
    runs, saturated = [], set()
    for number in range(args.rounds):
        for at, rate in enumerate(args.rates):
            seed = 1 + number * len(args.rates) + at
            requests = arrivals(args.work, rate, args.seconds, args.context, seed, args.rows)
            for server in servers:
                if (number, server.label) in saturated or not requests:
                    continue
                server.signal(signal.SIGCONT)
                time.sleep(1)
                answers, waited = asyncio.run(phase(server, requests, args.vocab, seed, args.patience))
                time.sleep(2)  # until it has noticed who has gone
                server.signal(signal.SIGSTOP)
                runs.append({"round": number, "server": server.label, "rate": rate, **figures(requests, answers, waited)})
                if runs[-1]["unanswered"]:
                    saturated.add((number, server.label))
                print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    return runs


def table(result):
    lines = ["| server | requests/s | s per token, mean | p90 | TTFT p50, s | TTFT p95, s | output tok/s | answered | unanswered | refused |",
             "|" + "---|" * 10]
    def shown(value, digits=3):
        return "–" if value is None else f"{value:.{digits}f}"
    for label in dict.fromkeys(run["server"] for run in result["runs"]):
        for run in sorted((run for run in result["runs"] if run["server"] == label), key=lambda run: (run["rate"], run["round"])):
            lines.append(f"| {label} | {run['rate']:g} | {shown(run['s_per_token'])} | {shown(run['s_per_token_p90'])} | "
                         f"{shown(run['ttft_s_p50'], 2)} | {shown(run['ttft_s_p95'], 2)} | {run['output_tok_s']:.0f} | "
                         f"{run['answered']} of {run['requests']} | {run['unanswered']} | {run['refused']} |")
    return "\n".join(lines)


def main():
    args = parsed()
    result = {"command": "tools/compare/rates.py " + shlex.join(sys.argv[1:]), "machine": machine(), "work": pathlib.Path(args.work).name}
    result |= {name: getattr(args, name) for name in ("seconds", "patience", "context", "rounds")}
    servers = []
    try:
        start(args, servers)
        result["runs"] = measure(args, servers)
    finally:
        for server in servers:
            server.end()
    print(f"# Latency against rate: {result['work']}\n\n{result['machine']}, {os.cpu_count()} processors\n\n{table(result)}")
    if args.output:
        kept.keep(args.output, result)


if __name__ == "__main__":
    main()
