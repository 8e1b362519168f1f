#!/usr/bin/env python3
"""Facts found in documents whose rows were dropped by the policy kvzip, beside other policies with the same number of rows.

    python3 tools/documents/facts.py --kvick build/release/kvick -m smollm2 --text wikitext2-valid.txt --kvzap kvzap.kvp
                                     [--documents 5] [--words 900] [--budget 0.5 --budget 0.3 ...] [--keep MACHINE/NAME]

Each document is a part of the text with three planted facts, "The secret number of the red boat is 4711.", behind a tenth, half and nine
tenths of its words. kvick train kvzip scores the document once. Then each fact is asked for by the beginning of its sentence, in a prompt
of its own that begins with the document; the answer is the most likely one. So no policy sees a question while it drops rows of the
document. kvzip keeps a share of the document's rows and all rows of the question; the other policies get the same share of all rows.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compare"))

import kept  # noqa: E402

COLOURS = ("blue", "red", "green", "white", "black", "yellow")
THINGS = ("house", "boat", "garden", "bridge", "tower", "mill")
DEPTHS = (0.1, 0.5, 0.9)


def document_of(words, which, length):
    """A document and its facts, [(question, number)]."""
    chance = random.Random(which)
    first = chance.randrange(len(words) - length)
    names = chance.sample([f"{colour} {thing}" for colour in COLOURS for thing in THINGS], len(DEPTHS))
    facts = [(f"The secret number of the {name} is", str(chance.randrange(1000, 10000))) for name in names]
    text, at = [], 0
    for depth, (question, number) in zip(DEPTHS, facts):
        end = int(depth * length)
        text.append(" ".join(words[first + at:first + end]))
        text.append(f"{question} {number}.")
        at = end
    text.append(" ".join(words[first + at:first + length]))
    return "\n".join(text), facts


class Engine:
    def __init__(self, args):
        self.kvick, self.model = args.kvick, args.model

    def call(self, *words):
        done = subprocess.run([self.kvick, *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"kvick {' '.join(words[:2])}: {done.stderr.strip()}")
        return done.stdout

    def score(self, document, to):
        self.call("train", "kvzip", "-m", self.model, "-f", str(document), "-o", str(to), "--raw", "--quiet")

    def answer(self, prompt, select):
        words = ["run", "-m", self.model, "-f", str(prompt), "--raw", "--temp", "0", "-n", "8", "--quiet"]
        return self.call(*words, *(["--kv-select", select] if select else []))


def found(answer, number):
    return answer.strip().startswith(number)


def policies(args, scores):
    """{name: [(budget or None, policy for --kv-select)]}"""
    others = {"streaming": "streaming:budget={}"} | ({"kvzap": f"kvzap:file={args.kvzap},budget={{}}"} if args.kvzap else {})
    table = {"all rows": [(None, "")], "kvzip": [(budget, f"kvzip:file={scores},budget={budget}") for budget in args.budget]}
    return table | {name: [(budget, policy.format(budget)) for budget in args.budget] for name, policy in others.items()}


def measure(args, folder, say):
    words = pathlib.Path(args.text).read_text(encoding="utf-8").split()
    if len(words) <= args.words:
        raise SystemExit(f"{args.text} has {len(words)} words, and a document needs {args.words}: give a longer --text or fewer --words")
    engine, counts = Engine(args), {}
    for which in range(args.documents):
        text, facts = document_of(words, which, args.words)
        document, prompt, scores = folder / "document.txt", folder / "prompt.txt", folder / "document.kvp"
        document.write_text(text, encoding="utf-8")
        engine.score(document, scores)
        for name, cases in policies(args, scores).items():
            for budget, policy in cases:
                right = 0
                for question, number in facts:
                    prompt.write_text(f"{text}\n{question}", encoding="utf-8")
                    right += found(engine.answer(prompt, policy), number)
                count = counts.setdefault((name, budget), {"policy": name, "budget": budget, "found": 0, "facts": 0})
                count["found"] += right
                count["facts"] += len(facts)
        say(f"document {which + 1} of {args.documents}: " +
            ", ".join(f"{name}{'' if budget is None else f' {budget}'} {count['found']}" for (name, budget), count in counts.items()))
    return list(counts.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvick", default="build/release/kvick")
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--text", required=True, help="a text, of which documents are parts")
    parser.add_argument("--kvzap", help="a predictor for kvzap (default: without kvzap)")
    parser.add_argument("--documents", type=int, default=5)
    parser.add_argument("--words", type=int, default=900, help="of a document (default: 900)")
    parser.add_argument("--budget", action="append", help="share of the rows that is kept (default: 0.5, 0.3, 0.2 and 0.1)")
    parser.add_argument("--keep", metavar="MACHINE/NAME", help="keep the result in docs/results")
    args = parser.parse_args()
    args.budget = args.budget or ["0.5", "0.3", "0.2", "0.1"]
    with tempfile.TemporaryDirectory() as folder:
        counts = measure(args, pathlib.Path(folder), lambda words: print(words, file=sys.stderr, flush=True))
    result = {"command": " ".join(["tools/documents/facts.py", *sys.argv[1:]]), "rounds": 1, "model": args.model, "words": args.words,
              "policies": counts}
    print(json.dumps(result, indent=1))
    if args.keep:
        print(kept.keep(args.keep, result), file=sys.stderr)


if __name__ == "__main__":
    main()
