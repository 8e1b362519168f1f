#!/usr/bin/env python3
"""Measures a server under overload: goodput, refusals and latency at one to ten times its capacity.

    tools/overload/overload.py --kvick build/release/kvick --model FILE [--serve "--max-wait 8"] [--times 1,2,10] [--rounds 2]
                               [--prompt 128] [--answer 64] [--bound 10] [--seconds 30] [-o MACHINE/NAME]
    tools/overload/overload.py --url http://127.0.0.1:8080 [--pid PID] ...                measures a running server

Requests arrive at random times with a given mean rate (Poisson arrivals), whether or not earlier ones have been answered. Goodput
is the rate of tokens in complete answers whose first token came within --bound seconds. The measurement has three parts:
* alone: some requests, one after another;
* rising: the rate increases by half until goodput no longer rises; the rate with the highest goodput is the best rate;
* in each round, the multiples --times of the best rate, for --seconds each. Goodput does not count the first third of this time.

Prints a table and whether the goals are met. At the highest multiple, goodput must be at least 0.9 of that at the best rate, every
refusal must be status 429 or 503 with Retry-After, no other request may fail, and the 99th percentile of the time between tokens must
be at most twice that at the best rate. The client shares the machine's cores with the server; the results contain its CPU time.
"""

import argparse
import asyncio
import json
import os
import pathlib
import resource
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compare"))
import judging  # noqa: E402
import kept  # noqa: E402
from arrivals import Phase, load  # noqa: E402

COLUMNS = (("rate/s", "rate", "{:.2f}"), ("goodput tok/s", "goodput_tok_s", "{:.0f}"), ("answered", "answered", "{}"),
           ("refused", "refused_share", "{:.0%}"), ("refused in, s p50", "refuse_s_p50", "{:.4f}"), ("p99", "refuse_s_p99", "{:.4f}"),
           ("broken", "broken", "{}"), ("TTFT, s p50", "ttft_s_p50", "{:.2f}"), ("p99", "ttft_s_p99", "{:.2f}"),
           ("between, s p50", "between_s_p50", "{:.3f}"), ("p99", "between_s_p99", "{:.3f}"), ("RSS MB", "resident_mb", "{:.0f}"))


class Run:
    def __init__(self, args, server, pid):
        self.args, self.server, self.pid, self.seed = args, server, pid, args.seed

    def phase(self, work, begin, end, **what):
        """Runs a phase and returns its figures. work(phase): coroutine that sends the phase's requests and returns them. end: None for
        the arrival of the last token. what: further fields of the result."""
        self.seed += 1
        before = resource.getrusage(resource.RUSAGE_SELF)
        requests = asyncio.run(work(Phase(self.server, self.args, self.seed)))
        after = resource.getrusage(resource.RUSAGE_SELF)
        end = end or max(request.at + request.got.times[-1] for request in requests if request.answered)
        result = what | judging.figures(requests, self.args.bound, begin, end) | {
            "client_cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
            "load_average": round(os.getloadavg()[0], 2)}
        if self.pid:
            result["resident_mb"] = round(load.resident_mb(self.pid), 1)
        print(json.dumps(result), file=sys.stderr, flush=True)
        return result

    def alone(self):
        return self.phase(lambda phase: phase.alone(self.args.alone), 0, None, rate=0)

    def offered(self, rate):
        seconds = self.args.seconds
        return self.phase(lambda phase: phase.open(rate, seconds), seconds / 3, seconds, rate=round(rate, 3))

    def rising(self):
        found, rate = [], self.args.rate
        while not judging.is_past_best(found) and len(found) < 12:
            found.append(self.offered(rate))
            rate *= 1.5
        return found


def table(rows):
    lines = ["| | " + " | ".join(name for name, _, _ in COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for label, row in rows:
        cells = (form.format(row[key]) if key in row else "" for _, key, form in COLUMNS)
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def measured(args, server, pid):
    run = Run(args, server, pid)
    alone = run.alone()
    rising = run.rising()
    best = max(rising, key=lambda one: one["goodput_tok_s"])["rate"]
    rounds = []
    for number in range(args.rounds):
        times = args.times if number % 2 == 0 else args.times[::-1]
        rounds.append({multiple: run.offered(multiple * best) for multiple in times})
    return {"alone": alone, "rising": rising, "best_rate": best, "loaded": rounds, "goals": judging.goals(alone, rounds, max(args.times))}


def parsed(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--pid", type=int, help="process id of the server, to measure its memory")
    parser.add_argument("--kvick", help="kvick program to start as the server; needs --model")
    parser.add_argument("--model")
    parser.add_argument("--serve", default="", help="further options for kvick serve")
    for name, default in ("prompt", 128), ("answer", 64), ("alone", 8), ("rounds", 2), ("vocab", 32000), ("seed", 1):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, default=1, help="first rate in requests/s (default: 1)")
    parser.add_argument("--seconds", type=float, default=30, help="duration of each rate in seconds (default: 30)")
    parser.add_argument("--bound", type=float, default=10, help="maximum time to the first token in seconds, for goodput (default: 10)")
    parser.add_argument("--times", default="1,2,10", help="multiples of the best rate; 1 is always included (default: 1,2,10)")
    parser.add_argument("-o", metavar="MACHINE/NAME", help="writes docs/results/MACHINE/DATE/NAME.json")
    args = parser.parse_args(argv)
    args.times = sorted({float(word) for word in args.times.split(",")} | {1})
    if bool(args.kvick) != bool(args.model):
        parser.error("--kvick and --model go together")
    if min(args.prompt, args.answer, args.alone, args.rounds, args.rate, args.seconds, args.bound, *args.times) <= 0:
        parser.error("numbers must be positive")
    if args.o:
        kept.parsed(args.o)
    return args


def main(argv=None):
    args = parsed(argv)
    command = " ".join(["tools/overload/overload.py", *(argv or sys.argv[1:])])
    parts, process = urllib.parse.urlsplit(args.url), None
    server, pid = (parts.hostname, parts.port or 80), args.pid
    if args.kvick:
        process, port = load.started(args.kvick, args.model, args.serve)
        server, pid = ("127.0.0.1", port), process.pid
    try:
        result = measured(args, server, pid)
    finally:
        if process:
            process.terminate()
            process.wait(60)
    rows = [("alone", result["alone"])] + [("rising", one) for one in result["rising"]]
    rows += [(f"{multiple:g}x", one) for round_ in result["loaded"] for multiple, one in round_.items()]
    print(table(rows), json.dumps(result["goals"], indent=1), sep="\n\n")
    if args.o:
        result["loaded"] = [{f"{multiple:g}": one for multiple, one in round_.items()} for round_ in result["loaded"]]
        kept.keep(args.o, {"command": command, "rounds": args.rounds, "prompt": args.prompt, "answer": args.answer,
                           "bound_s": args.bound, **result})


if __name__ == "__main__":
    main()
