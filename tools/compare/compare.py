#!/usr/bin/env python3
"""Speed of kvick against other engines on the same files, in one run, alternating.

    tools/compare/compare.py FILE.gguf... [--llama-cpp [LABEL=]PYTHON]... [--ik [LABEL=]FOLDER]... [--openvino [LABEL=]PYTHON]...
                             [--mistralrs [LABEL=]PYTHON]... [--cases all] [--rounds 5 | --quick] [--threads 2] [-o MACHINE/NAME]

An engine is given by what runs it: PYTHON is the interpreter of an environment that has llama-cpp-python
(openvino-genai, mistralrs), FOLDER the one with ik_llama.cpp's llama-bench and llama-batched-bench, --kvick another kvick than
build/release's (given twice: the first one's ratios are shown). LABEL names it in the tables, so that two builds of one
engine can stand beside each other. A fair llama.cpp has no AVX512-FP16 (GGML_NATIVE=OFF with AVX-512, VNNI and BF16
on), since that one makes its f16 attention several times slower.

Each round runs every file, case and engine once, each engine with all its configurations (flash attention on or off,
one cache or one per sequence, weights repacked or not); those that reach less than 0.8 of its best in the first round
are not run again. What an engine refuses is a cell of the table. Prints tables, of several files one more with a row for
each, and, with -o, writes docs/results/MACHINE/DATE/NAME.json, again after every round. kvick's share of the roofline is
the one that `kvick bench` says.
"""
import argparse
import json
import pathlib
import platform
import shlex
import sys
import tempfile

import cases as case_list
import kept
import peers as engines
import report

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORTH_REPEATING = 0.8  # of an engine's best configuration


def machine():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


class Comparison:
    def __init__(self, peers, setting):
        self.peers, self.setting = peers, setting
        self.measurements = []
        self.dropped = set()  # (file, case, peer, configuration)

    def run_round(self, number, files, cases):
        turn = number % len(self.peers)
        for file in files:
            for case in cases:
                for peer in self.peers[turn:] + self.peers[:turn]:
                    self.run_peer(number, file, case, peer)

    def run_peer(self, number, file, case, peer):
        key = (pathlib.Path(file).name, case.name, peer.label)
        found = {}
        for name, command in engines.configurations(peer, file, case, self.setting).items():
            if (*key, name) in self.dropped:
                continue
            entry = dict(zip(("file", "case", "peer"), key)) | {"round": number, "configuration": name}
            try:
                entry |= engines.measure(peer, command, case, self.setting)
                found[name] = entry["tok_s"]
            except engines.Refused as words:
                entry |= {"refused": str(words)}
                self.dropped.add((*key, name))
            self.measurements.append(entry)
            print(json.dumps(entry), file=sys.stderr, flush=True)
        worth = WORTH_REPEATING * max(found.values(), default=0)
        self.dropped |= {(*key, name) for name, rate in found.items() if rate < worth}


NAMES = {"kvick": "kvick", "llama-cpp": "llama.cpp", "ik": "ik_llama.cpp", "openvino": "OpenVINO GenAI", "mistralrs": "mistral.rs"}


def peers_of(args):
    result = []
    for kind, name in NAMES.items():
        for text in getattr(args, kind.replace("-", "_")) or ([str(ROOT / "build/release/kvick")] if kind == "kvick" else []):
            label, equals, path = text.rpartition("=")
            result.append(engines.Peer(label if equals else name, kind, str(pathlib.Path(path).absolute())))
    labels = [peer.label for peer in result]
    if len(set(labels)) != len(labels):
        raise ValueError(f"two engines have one name, give them LABEL=: {', '.join(labels)}")
    return result


def command_of(args, peers):
    """The command that makes the results again, with the names of things instead of their places."""
    words = ["tools/compare/compare.py", *(pathlib.Path(file).name for file in args.files)]
    places = {"kvick": "KVICK", "llama-cpp": "PYTHON", "ik": "FOLDER", "openvino": "PYTHON", "mistralrs": "PYTHON"}
    words += [f"--{peer.kind} {shlex.quote(peer.label)}={places[peer.kind]}" for peer in peers
              if peer.kind != "kvick" or args.kvick]
    words += [f"--cases {args.cases} --rounds {args.rounds} --threads {args.threads}", *([f"-o {args.o}"] if args.o else [])]
    return " ".join(words)


def parsed(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    for kind in NAMES:
        parser.add_argument(f"--{kind}", action="append", default=[], metavar="[LABEL=]PATH")
    parser.add_argument("--cases", default="all", help="names with commas between, of " + ", ".join(c.name for c in case_list.CASES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", dest="rounds", action="store_const", const=1, help="one round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=int, default=900, help="seconds of one measurement, after which it counts as refused")
    parser.add_argument("-o", metavar="MACHINE/NAME", help="writes docs/results/MACHINE/DATE/NAME.json")
    args = parser.parse_args(argv)
    args.files = [str(pathlib.Path(file).absolute()) for file in args.files]
    try:
        if args.o:
            kept.parsed(args.o)
        return args, case_list.named(args.cases), peers_of(args)
    except ValueError as error:
        parser.error(str(error))


def main(argv=None):
    args, cases, peers = parsed(argv)
    result = {"machine": machine(), "threads": args.threads, "rounds": 0, "command": command_of(args, peers),
              "files": [pathlib.Path(file).name for file in args.files], "peers": [peer.label for peer in peers]}
    with tempfile.TemporaryDirectory(prefix="kvick-compare-") as scratch:
        comparison = Comparison(peers, engines.Setting(args.threads, args.timeout, pathlib.Path(scratch)))
        for number in range(args.rounds):
            comparison.run_round(number, args.files, cases)
            result |= {"rounds": number + 1, "measurements": comparison.measurements}
            text = report.page(result, cases)
            if args.o:
                kept.keep(args.o, result)
    print(text)


if __name__ == "__main__":
    main()
