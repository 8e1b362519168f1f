#!/usr/bin/env python3
"""Speed of kvick against llama.cpp on the same file, in one run, alternating.

    tools/compare/compare.py -m MODEL --peer-python VENV/bin/python [--rounds 5] [-p 512] [-n 128] [-d 0] [-o NAME]

Each round runs kvick and then llama.cpp with flash attention off and on; the ratio of a round is against the better of
the two. Prints a table and, with -o, writes docs/results/NAME.json and NAME.md. The peer's python needs
llama-cpp-python; a fair build has no AVX512-FP16 (GGML_NATIVE=OFF with AVX-512, VNNI and BF16 on), since that one makes
its f16 attention several times slower.
"""
import argparse
import json
import pathlib
import platform
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def json_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"compare: {' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def one_round(args):
    shape = ["-m", args.m, "-p", str(args.p), "-n", str(args.n), "-d", str(args.d),
             "--threads", str(args.threads)]
    kvick = json_of([str(ROOT / "build/release/kvick"), "bench", "--json", "--quiet", "-r", "1",
                     "--ctx", str(args.d + max(args.p, args.n)), *shape])
    peer = str(ROOT / "tools/compare/llama_cpp_bench.py")
    peers = [json_of([args.peer_python, peer, *shape, *flash]) for flash in ([], ["--flash"])]
    return kvick, peers


def spread(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def table(rounds, keys):
    rows = ["| work | kvick tok/s | llama.cpp tok/s, flash off | on | ratio to the better |", "|---|---|---|---|---|"]
    for name, key in keys:
        ours = [kvick[key] for kvick, _ in rounds]
        theirs = [[peers[i][key] for _, peers in rounds] for i in (0, 1)]
        ratios = [kvick[key] / max(p[key] for p in peers) for kvick, peers in rounds]
        rows.append(f"| {name} | {spread(ours)} | {spread(theirs[0])} | {spread(theirs[1])} | "
                    f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f}) |")
    return "\n".join(rows)


def machine():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", required=True)
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-p", type=int, default=512)
    parser.add_argument("-n", type=int, default=128)
    parser.add_argument("-d", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("-o", help="name of the files in docs/results")
    args = parser.parse_args()
    rounds = [one_round(args) for _ in range(args.rounds)]
    keys = []
    if args.p:
        keys.append((f"prefill {args.p} at depth {args.d}", "prefill_tok_s"))
    if args.n:
        keys.append((f"decode {args.n} at depth {args.d}", "decode_tok_s"))
    text = table(rounds, keys)
    print(text)
    if not args.o:
        return
    folder = ROOT / "docs/results"
    model = pathlib.Path(args.m).name
    head = (f"# kvick and llama.cpp on {model}\n\n{machine()}, {args.threads} threads, {rounds[0][0]['isa']}; "
            f"llama-cpp-python {rounds[0][1][0]['version']}; median (lowest to highest) of {args.rounds} alternating "
            f"rounds.\n\n`tools/compare/compare.py -m {model} --peer-python PYTHON --rounds {args.rounds} "
            f"-p {args.p} -n {args.n} -d {args.d} -o {args.o}`\n\n")
    (folder / f"{args.o}.md").write_text(head + text + "\n")
    (folder / f"{args.o}.json").write_text(json.dumps(
        {"machine": machine(), "model": model, "rounds": [{"kvick": k, "llama_cpp": p} for k, p in rounds]},
        indent=1) + "\n")


main()
