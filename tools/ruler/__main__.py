#!/usr/bin/env python3
"""Measures RULER's tasks (Hsieh et al. 2024, arXiv:2404.06654) with several settings of the cache.

    python3 tools/ruler -m MODEL --text FILE [--kv-select none --kv-select snapkv:budget=0.25 ...] [-o FILE.json]
    python3 tools/ruler --list

Each task hides something in a long prompt and asks for it: numbers in a text, assignments of variables, the most frequent words. The
prompt is plain text without a chat template and ends with the beginning of the answer, so base models can answer too. Answers are
greedy; a score is the share of the expected texts that the answer contains. Settings are all combinations of the given --kv,
--kv-type and --kv-select, and all get the same prompts. Normally the question is part of the prompt; with --question-later the
context is read and compressed before the question is seen.

It needs kvick's Python module (docs/guides/python.md). Prints tables; with -o it also writes a file in the form of kvick lab, which
`python3 tools/report --keep` takes, and the same command goes on where it was interrupted.
"""

import argparse
import json
import os
import pathlib
import shlex
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "compare")]

import engine  # noqa: E402
import findings  # noqa: E402
import kept  # noqa: E402
import tasks  # noqa: E402
import texts  # noqa: E402
from texts import Mistake  # noqa: E402

LENGTHS, SAMPLES = (1024, 2048, 4096, 8192), 20
QUICK_LENGTHS, QUICK_SAMPLES = (1024, 2048), 2
QUESTIONS = ("qa_1", "qa_2")  # tasks that need a file of questions


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def parsed(argv):
    parser = Parser(prog="tools/ruler", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", default="smollm2", help="file, folder or name of the model (default: smollm2)")
    parser.add_argument("--text", metavar="FILE", help="text that hides the needles and gives the words, such as wikitext2-valid.txt")
    for name, what in ("--kv", "cache"), ("--kv-type", "type of rows"), ("--kv-select", "policy, or none"):
        parser.add_argument(name, action="append", default=[], help=f"{what}, as for kvick run; repeatable")
    parser.add_argument("--lengths", nargs="+", type=int, metavar="TOKENS", help="tokens of prompt and answer (default: 1024 2048 4096 8192)")
    parser.add_argument("--samples", type=int, help=f"samples of each task at each length (default: {SAMPLES})")
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="default: all but qa_1 and qa_2, and those with their files")
    parser.add_argument("--qa-1", metavar="FILE", help="questions of the task qa_1: SQuAD's JSON file")
    parser.add_argument("--qa-2", metavar="FILE", help="questions of the task qa_2: HotpotQA's JSON file, or one in SQuAD's form")
    parser.add_argument("--question-later", action="store_true", help="cache the context before the question is seen")
    parser.add_argument("--seed", type=int, default=1, help="seed of the prompts (default: 1)")
    parser.add_argument("--threads", type=int, help="threads (default: one for each processor)")
    parser.add_argument("--quick", action="store_true", help="two samples in 1024 and 2048 tokens")
    parser.add_argument("-o", "--out", type=pathlib.Path, metavar="FILE", help="result file, which is continued if it exists")
    parser.add_argument("--again", action="store_true", help="measure again what the result file has")
    parser.add_argument("--answers", type=pathlib.Path, metavar="FILE", help="appends each answer to a file of JSON lines")
    parser.add_argument("--list", action="store_true", help="print the tasks")
    options = parser.parse_args(argv)
    options.lengths = list(dict.fromkeys(options.lengths or (QUICK_LENGTHS if options.quick else LENGTHS)))
    options.samples = (QUICK_SAMPLES if options.quick else SAMPLES) if options.samples is None else options.samples
    options.questions = {name: file for name, file in zip(QUESTIONS, (options.qa_1, options.qa_2)) if file}
    if min(options.samples, *options.lengths, options.threads or 1) < 1:
        parser.error("--samples, --lengths and --threads must be positive")
    if unknown := [name for name in options.tasks or () if name not in tasks.TASKS]:
        parser.error(f"there is no task {unknown[0]}; there are {', '.join(tasks.TASKS)}")
    names = options.tasks or [name for name in tasks.TASKS if name not in QUESTIONS or name in options.questions]
    options.tasks = [tasks.TASKS[name] for name in dict.fromkeys(names)]
    for task in () if options.list else options.tasks:
        if task.needs_text and not options.text:
            parser.error(f"{task.name} needs a text: give --text FILE, or --tasks without it")
        if task.name in QUESTIONS and task.name not in options.questions:
            parser.error(f"{task.name} needs questions: give --{task.name.replace('_', '-')} FILE, or --tasks without it")
    return options


def listing():
    width = max(map(len, tasks.TASKS))
    return "\n".join(f"{task.name:{width}}  {task.what}" for task in tasks.TASKS.values())


def duration(seconds):
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Progress:
    """Lines on stderr. The time left is estimated from the samples of this call, as if time grew with their tokens."""

    def __init__(self, lengths):
        self.total, self.tokens = len(lengths), sum(lengths)
        self.done, self.read, self.began = 0, 0, time.monotonic()

    def sample(self, length, where):
        self.done, self.read = self.done + 1, self.read + length
        if sys.stderr.isatty():
            print(f"\r\x1b[K{self.line(where)}", end="", file=sys.stderr, flush=True)

    def cell(self, where, score):
        print(("\r\x1b[K" if sys.stderr.isatty() else "") + self.line(f"{where}: {100 * score:.0f} %"), file=sys.stderr, flush=True)

    def line(self, text):
        left = (time.monotonic() - self.began) / self.read * (self.tokens - self.read)
        return f"[{self.done}/{self.total}] {text}" + (f"; about {duration(left)} left" if self.done < self.total else "")


class Run:
    def __init__(self, options, kvick):
        self.options, self.kvick = options, kvick
        self.protocol = engine.LATER if options.question_later else engine.IN_PROMPT
        self.settings = engine.settings(options.kv, options.kv_type, options.kv_select)
        self.material = texts.material(options.text, options.questions)

    def opened(self, setting):
        try:
            return engine.Asked(self.kvick, self.options.model, setting, self.options.threads)
        except self.kvick.Error as error:
            raise Mistake(f"{setting.label}: {error}") from None

    def sample(self, asked, task, length, index):
        return tasks.fitted(task, self.material, length, self.options.seed, index, asked.tokens)

    def check(self):
        """Opens each setting and makes a first prompt of each kind, so that mistakes show before hours of measuring. Returns the
        facts of the model."""
        facts = None
        for setting in self.settings:
            asked = self.opened(setting)
            if max(self.options.lengths) > asked.facts["context"]:
                raise Mistake(f"{setting.label}: {max(self.options.lengths)} tokens are more than the context of {asked.facts['context']}: "
                              "give shorter --lengths")
            if facts is None:
                for task in self.options.tasks:
                    for length in self.options.lengths:
                        self.sample(asked, task, length, 0)
            facts = asked.facts
            del asked  # before the next one is loaded
        return facts

    def inputs(self, facts, setting, task):
        """A hash of what a score depends on beside the parameters of its cell."""
        model = [facts[key] for key in ("name", "family", "vocabulary", "weight_bytes")]
        files = [pathlib.Path(file) for file in setting.files()]
        files += [pathlib.Path(self.options.text)] if task.needs_text else []
        files += [pathlib.Path(self.options.questions[task.name])] if task.name in QUESTIONS else []
        return engine.digest(tasks.PROMPTS, *model, *files)

    def cells(self, store, facts):
        """{(label, task, length): cell} in the order of measuring."""
        found = {}
        for setting in self.settings:
            for length in self.options.lengths:
                for task in self.options.tasks:
                    what = {"setting": setting.label, "protocol": self.protocol, "task": task.name, "length": length, "seed": self.options.seed,
                            "model": pathlib.PurePath(self.options.model).name.removesuffix(".gguf")}
                    if task.needs_text:
                        what["text"] = pathlib.Path(self.options.text).stem
                    key = " ".join(map(str, what.values()))
                    found[setting.label, task.name, length] = cell = store.cell(key, self.inputs(facts, setting, task), what)
                    if self.options.again:
                        cell["runs"] = []
        return found

    def measure(self, store, cells):
        left = [key[2] for key, cell in cells.items() for _ in range(self.options.samples - len(cell["runs"]))]
        progress = Progress(left)
        for setting in self.settings:
            mine = {key: cell for key, cell in cells.items() if key[0] == setting.label and len(cell["runs"]) < self.options.samples}
            asked = self.opened(setting) if mine else None
            for (label, name, length), cell in mine.items():
                where = f"{label}, {name}, {length} tokens"
                for index in range(len(cell["runs"]), self.options.samples):
                    cell["runs"].append(self.one(asked, cell["what"], index))
                    store.write()
                    progress.sample(length, where)
                progress.cell(where, sum(run["score"] for run in cell["runs"]) / len(cell["runs"]))
            del asked

    def one(self, asked, what, index):
        task = tasks.TASKS[what["task"]]
        sample = self.sample(asked, task, what["length"], index)
        try:
            answer, seconds = asked.answer(sample, task.answer_tokens, self.options.question_later)
        except self.kvick.Error as error:
            raise Mistake(f"{what['setting']}, {task.name}, {what['length']} tokens: {error}") from None
        score = tasks.score(task, answer, sample.expected)
        if self.options.answers:
            line = what | {"sample": index, "expected": sample.expected, "answer": answer, "score": score}
            try:
                with open(self.options.answers, "a", encoding="utf-8") as out:
                    out.write(json.dumps(line, ensure_ascii=False) + "\n")
            except OSError as error:
                raise Mistake(f"cannot write {self.options.answers}: {error.strerror}") from None
        return {"score": round(score, 4), "seconds": round(seconds, 3), "tokens": asked.tokens(sample)}


def run(options, command):
    started = Run(options, engine.module())
    facts = started.check()
    threads = options.threads or len(os.sched_getaffinity(0))
    store = findings.Store(options.out, findings.machine(facts["isa"], threads), command)
    cells = started.cells(store, facts)
    store.write()  # a file that cannot be written shows before hours of measuring
    started.measure(store, cells)
    found = findings.Findings(cells, options.samples, started.protocol).parts()
    store.write(found)
    print("\n\n".join(map(findings.text_of, found["tables"])))


def main(argv=None):
    argv = sys.argv[1:] if argv is None else argv
    options = parsed(argv)
    if options.list:
        print(listing())
        return 0
    try:
        run(options, kept.without_folders("tools/ruler " + shlex.join(argv)))
    except Mistake as mistake:
        print(f"tools/ruler: {mistake}", file=sys.stderr)
        return 2
    except RuntimeError as error:  # of kvick: a download failed, or the machine has no memory
        print(f"tools/ruler: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; with -o the same command goes on")
