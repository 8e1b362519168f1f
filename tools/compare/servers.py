#!/usr/bin/env python3
"""Compares servers under the same load, alternating in one run: output tokens per second and latency.

    tools/compare/servers.py --kvick LABEL=FILE... [--llama-server LABEL=FILE...] [--vllm FOLDER --vllm-python DIR]
                             [--client vllm|load] [--temperature 0,1] [--rounds 3] [--streams 16] [--requests 48] [-o NAME]

Each --kvick LABEL=FILE starts `kvick serve` with that model, each --llama-server LABEL=FILE llama.cpp's server with one slot per
stream. FOLDER is a Hugging Face folder for `vllm serve --dtype bfloat16`, DIR the virtual environment with vLLM. All servers are
started first; while one is measured, the others are paused with SIGSTOP. The client is `vllm bench serve` from DIR (--client vllm) or
tools/load (--client load), which needs no other packages. Prompts are --prompt (200) random tokens, answers have --answer (128) tokens.

`allowed` is an upper limit for kvick's output tokens per second. It is computed from the times that `kvick bench` needs for the same
prompts and for decoding --streams sequences together after them: what a server without overhead could reach, with a client that uses
no CPU time. Prints a table and, with -o, writes docs/results/MACHINE/DATE/NAME.json.
"""
import argparse
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import kept
from compare import ROOT, machine

FIGURES = ("output tok/s", "TTFT p50, s", "TTFT p95, s", "per token, ms")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server in its own process group, so that it can be paused while another one is measured."""

    def __init__(self, label, command, model, env=None):
        self.label, self.command, self.model, self.port = label, command, model, free_port()
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log", delete=False)
        self.process = subprocess.Popen([*command, "--port", str(self.port)], stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log, env={**os.environ, **(env or {})}, start_new_session=True)

    def wait(self, seconds=600):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                sys.exit(f"{self.label} exited before it listened; see {self.log.name}")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).read()
                return
            except OSError:
                time.sleep(0.5)
        sys.exit(f"{self.label} did not listen within {seconds} s; see {self.log.name}")

    def ready(self):
        """Waits until the server listens, and asks it for its model's name."""
        self.wait()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/models", timeout=30) as models:
            self.model = json.load(models)["data"][0]["id"]

    def signal(self, number):
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)

    def end(self):
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)


def load_with_vllm(args, server, temperature, seed):
    with tempfile.TemporaryDirectory() as folder:
        command = [f"{args.vllm_python}/bin/vllm", "bench", "serve", "--backend", "openai", "--endpoint", "/v1/completions",
                   "--base-url", f"http://127.0.0.1:{server.port}", "--model", server.model, "--tokenizer", args.vllm,
                   "--dataset-name", "random", "--random-input-len", str(args.prompt), "--random-output-len",
                   str(args.answer), "--max-concurrency", str(args.streams), "--num-prompts", str(args.requests),
                   "--ignore-eos", "--save-result", "--result-dir", folder, "--result-filename", "result.json",
                   "--temperature", str(temperature), "--seed", str(seed), "--metric-percentiles", "95"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
        if done.returncode != 0:
            sys.exit(f"the client failed on {server.label}: {done.stderr[-2000:]}")
        result = json.loads((pathlib.Path(folder) / "result.json").read_text())
    if result["completed"] != args.requests:
        sys.exit(f"{server.label} answered {result['completed']} of {args.requests} requests")
    return (result["output_throughput"], result["median_ttft_ms"] / 1000, result["p95_ttft_ms"] / 1000,
            result["median_tpot_ms"])


def load_with_tool(args, server, temperature, seed):
    command = [str(ROOT / "tools/load"), "--url", f"http://127.0.0.1:{server.port}", "--streams", str(args.streams),
               "--requests", str(args.requests), "--prompt", str(args.prompt), "--answer", str(args.answer),
               "--temperature", str(temperature), "--vocab", str(args.vocab), "--seed", str(seed)]
    run = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["runs"][0]
    return run["answer_tok_s"], run["ttft_s_p50"], run["ttft_s_p95"], 1000 * run["between_s_p50"]


def allowed(args, file):
    """The upper limit for the load's output tokens per second, from `kvick bench`, with the speeds of prefill and decode."""
    command = [args.program, "bench", "--json", "--quiet", "-m", file, "-r", "3"]
    def rate(field, *shape):
        done = subprocess.run([*command, *shape], check=True, capture_output=True, text=True)
        return json.loads(done.stdout)[field]
    prefill = rate("prefill_tok_s", "-p", str(args.prompt), "-n", "0")
    decode = rate("decode_tok_s", "-p", "0", "-d", str(args.prompt), "-n", str(args.answer), "-b", str(args.streams))
    seconds = args.requests * (args.prompt / prefill + args.answer / decode)
    return {"prefill_tok_s": prefill, "decode_tok_s": decode, "output_tok_s": args.requests * args.answer / seconds}


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvick", action="append", default=[], metavar="LABEL=FILE")
    parser.add_argument("--program", default=str(ROOT / "build/release/kvick"))
    parser.add_argument("--llama-server", action="append", default=[], metavar="LABEL=FILE")
    parser.add_argument("--llama-program", default="llama-server", help="llama.cpp's server")
    parser.add_argument("--vllm", help="Hugging Face folder that vLLM serves; its client uses the tokenizer there")
    parser.add_argument("--vllm-python", help="virtual environment with vLLM")
    parser.add_argument("--client", choices=("vllm", "load"), default="load")
    parser.add_argument("--temperature", default="1,0")
    parser.add_argument("--vocab", type=int, default=32000)
    for name, default in ("rounds", 3), ("streams", 16), ("requests", 48), ("prompt", 200), ("answer", 128):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--no-allowed", action="store_true", help="do not run kvick bench")
    parser.add_argument("-o", "--output", metavar="MACHINE/NAME")
    args = parser.parse_args()
    try:
        kept.parsed(args.output or "no/output")
    except ValueError as error:
        parser.error(str(error))
    if args.client == "vllm" and not (args.vllm and args.vllm_python):
        parser.error("--client vllm needs --vllm and --vllm-python")
    if not args.kvick and not args.llama_server and not args.vllm:
        parser.error("give at least one server: --kvick LABEL=FILE, --llama-server LABEL=FILE or --vllm FOLDER")
    args.temperatures = [float(text) for text in args.temperature.split(",")]
    return args


def start(args):
    servers = []
    for text in args.kvick:
        label, _, file = text.partition("=")
        servers.append(Server(f"kvick {label}", [args.program, "serve", "-m", file, "--quiet"], pathlib.Path(file).stem))
        servers[-1].file = file
    slots = ["-np", str(args.streams), "-c", str(args.streams * (args.prompt + args.answer + 64)), "-t", str(os.cpu_count())]
    for text in args.llama_server:
        label, _, file = text.partition("=")
        servers.append(Server(f"llama-server {label}", [args.llama_program, "-m", file, *slots], pathlib.Path(file).stem))
    if args.vllm and args.vllm_python:
        servers.append(Server("vLLM", [f"{args.vllm_python}/bin/vllm", "serve", args.vllm, "--dtype", "bfloat16"], args.vllm,
                              {"VLLM_CPU_KVCACHE_SPACE": "4"}))
    for server in servers:
        server.ready()
        server.signal(signal.SIGSTOP)
    print("all servers are up", file=sys.stderr, flush=True)
    return servers


def measure(args, servers):
    load = load_with_vllm if args.client == "vllm" else load_with_tool
    runs = []
    for number in range(args.rounds):
        turn = number % len(servers)
        for at, temperature in enumerate(args.temperatures):
            # Each load has new prompts. Repeated prompts would be prefix cache hits.
            seed = 1 + number * len(args.temperatures) + at
            for server in servers[turn:] + servers[:turn]:
                server.signal(signal.SIGCONT)
                time.sleep(1)
                figures = load(args, server, temperature, seed)
                server.signal(signal.SIGSTOP)
                runs.append({"round": number, "server": server.label, "temperature": temperature,
                             **dict(zip(FIGURES, figures))})
                print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    return runs


def spread(values):
    low, middle, high = min(values), statistics.median(values), max(values)
    digits = 0 if middle >= 20 else 2
    return f"{middle:.{digits}f}" + (f" ({low:.{digits}f} to {high:.{digits}f})" if len(values) > 1 else "")


def table(result):
    lines = ["| server | temperature | " + " | ".join(FIGURES) + " | share of allowed |", "|---" * (len(FIGURES) + 3) + "|"]
    for label in dict.fromkeys(run["server"] for run in result["runs"]):
        for temperature in dict.fromkeys(run["temperature"] for run in result["runs"]):
            runs = [run for run in result["runs"] if run["server"] == label and run["temperature"] == temperature]
            limit = result["allowed"].get(label)
            share = f"{statistics.median(run[FIGURES[0]] for run in runs) / limit['output_tok_s']:.0%}" if limit else "–"
            lines.append(f"| {label} | {temperature:g} | " +
                         " | ".join(spread([run[figure] for run in runs]) for figure in FIGURES) + f" | {share} |")
    return "\n".join(lines)


def page(result):
    lines = ["# Servers under load", f"{result['streams']} streams, {result['requests']} requests, {result['prompt']} tokens in, "
             f"{result['answer']} out. Median (lowest to highest) of {result['rounds']} alternating rounds. {result['machine']}.",
             f"`{result['command']}`", table(result)]
    if result["allowed"]:
        lines.append("\n".join(f"* {label}: `kvick bench` reads {limit['prefill_tok_s']:.0f} prompt tokens/s and decodes "
                               f"{limit['decode_tok_s']:.0f} tokens/s, which allows {limit['output_tok_s']:.0f} output tokens/s."
                               for label, limit in result["allowed"].items()))
    return "\n\n".join(lines) + "\n"


def main():
    args = parsed()
    result = {"command": "tools/compare/servers.py " + " ".join(sys.argv[1:]), "machine": machine(), "allowed": {}}
    result |= {name: getattr(args, name) for name in ("streams", "requests", "prompt", "answer", "rounds", "client")}
    servers = start(args)
    try:
        if not args.no_allowed:
            result["allowed"] = {s.label: allowed(args, s.file) for s in servers if s.label.startswith("kvick ")}
        result["runs"] = measure(args, servers)
    finally:
        for server in servers:
            server.end()
    print(page(result))
    if args.output:
        kept.keep(args.output, result)


if __name__ == "__main__":
    main()
