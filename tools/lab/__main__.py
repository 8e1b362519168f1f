#!/usr/bin/env python3
"""Runs the experiments behind docs/results and docs/papers on this machine, and draws a page of what they show.

    python3 tools/lab -o FOLDER --data FOLDER [--quick] [-m MODEL] [--kvick PROGRAM] [NAME...]
    python3 tools/lab --list

Each experiment answers one question. Without names all of them run. It says beforehand how long that takes; --quick uses small sizes,
which take minutes for all and show the direction. Each writes FOLDER/NAME.json; a run that was interrupted goes on where it ended. The
page is FOLDER/index.html (it needs matplotlib). Run it on an otherwise idle machine. `python3 tools/report --keep MACHINE
FOLDER/*.json` copies the results to docs/results.
"""

import argparse
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "report")]

import experiments  # noqa: E402


def duration(seconds):
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def listing(rows):
    width = max(len(one.name) for one in rows)
    lines = [f"{'':{width}}  {'quick':>7}  {'full':>7}"]
    lines += [f"{one.name:{width}}  {duration(one.seconds[0]):>7}  {duration(one.seconds[1]):>7}  {one.question}" for one in rows]
    quick, full = (sum(one.seconds[i] for one in rows) for i in (0, 1))
    return "\n".join([*lines, f"{'all':{width}}  {duration(quick):>7}  {duration(full):>7}  on two cores of an AMD EPYC (Zen 3); full: estimated"])


class Run:
    """One run of the program over a folder of results."""

    def __init__(self, options):
        self.options, self.out = options, options.out
        self.times = self.out / "times.json"
        self.values = {"model": options.model, "data": str(options.data), "out": str(options.out)}

    def words(self, arguments):
        return [self.options.kvick, *(one.format(**self.values) for one in arguments)]

    def prepared(self, experiment):
        """Files of PREPARED that its arguments name."""
        return [name for name in experiments.PREPARED if f"{{out}}/{name}" in experiment.words(self.options.quick)]

    def lacks(self, experiment):
        """What is missing for it to run; None if nothing is."""
        texts = [experiments.PREPARED[name] for name in self.prepared(experiment)]
        for name in experiments.SOURCES:
            if not any(f"{{data}}/{name}" in arguments for arguments in (experiment.arguments, *texts)):
                continue
            if self.options.data is None:
                return f"it needs {name}: give --data FOLDER"
            if not (self.options.data / name).exists():
                return f"{self.options.data / name} is missing: {experiments.SOURCES[name]}"
        return None

    def call(self, command, target):
        """Runs a command whose output goes to a file. Returns whether it succeeded."""
        with open(target, "w", encoding="utf-8") as out:
            if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out).returncode == 0:
                return True
        print(f"    failed: {shlex.join(command)}", flush=True)
        return False

    def experiment(self, one):
        """Seconds that it took; None if it failed."""
        began = time.monotonic()
        for name in self.prepared(one):
            if not (self.out / name).exists() and not self.call(self.words(experiments.PREPARED[name]), self.out / f"{name}.txt"):
                return None
        command = self.words((*one.words(self.options.quick), "-o", "{out}")) + (["--quick"] if self.options.quick else [])
        return time.monotonic() - began if self.call(command, self.out / f"{one.name}.txt") else None

    def keep_time(self, name, seconds):
        """The longest of all runs counts: one that goes on after a break measures only the rest."""
        try:
            times = json.loads(self.times.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            times = {}
        times[name] = max(seconds, times.get(name, 0))
        part = self.times.with_name(self.times.name + ".part")
        part.write_text(json.dumps(times, indent=1) + "\n", encoding="utf-8")
        os.replace(part, self.times)


def draw(out):
    """Draws the page. Returns a line that says where it is, or why there is none."""
    try:
        import charts
        charts.draw_folder(out, {one.name: one.question for one in experiments.EXPERIMENTS})
    except ImportError as error:
        return f"no page is drawn: {error} (apt install python3-matplotlib, or pip install matplotlib)"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"no page is drawn: {error}"
    return f"the page: {out / 'index.html'}"


def chosen(names):
    known = {one.name: one for one in experiments.EXPERIMENTS}
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"tools/lab: there is no experiment {unknown[0]}; there are {', '.join(known)}")
    return [known[name] for name in names] or list(experiments.EXPERIMENTS)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="tools/lab", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments (default: all)")
    parser.add_argument("-o", "--out", type=pathlib.Path, metavar="FOLDER", help="folder for the results")
    parser.add_argument("--data", type=pathlib.Path, metavar="FOLDER", help="folder with texts, prompts and traces")
    parser.add_argument("--quick", action="store_true", help="small sizes, one round")
    parser.add_argument("--list", action="store_true", help="print the experiments and how long they take")
    parser.add_argument("-m", "--model", default="smollm2", help="model of the experiments that need one (default: smollm2)")
    parser.add_argument("--kvick", default="kvick", metavar="PROGRAM", help="kvick program (default: kvick)")
    options = parser.parse_args(arguments)
    rows = chosen(options.names)
    if options.list:
        print(listing(rows))
        return 0
    if options.out is None:
        parser.error("give -o FOLDER for the results, or --list")
    if shutil.which(options.kvick) is None:
        parser.error(f"there is no program {options.kvick}: give --kvick PROGRAM")
    return measure(Run(options), rows)


def measure(run, rows):
    run.out.mkdir(parents=True, exist_ok=True)
    which = 0 if run.options.quick else 1
    expected = duration(sum(one.seconds[which] for one in rows))
    print(f"{len(rows)} experiments, about {expected} on two cores of an AMD EPYC (Zen 3)", flush=True)
    began, skipped, failed = time.monotonic(), [], []
    for number, one in enumerate(rows, 1):
        print(f"[{number}/{len(rows)}] {one.name}: {one.question} (about {duration(one.seconds[which])})", flush=True)
        if lacks := run.lacks(one):
            print(f"    skipped: {lacks}", flush=True)
            skipped.append(one.name)
            continue
        seconds = run.experiment(one)
        if seconds is None:
            failed.append(one.name)
        else:
            run.keep_time(one.name, seconds)
            print(f"    {duration(seconds)}", flush=True)
    print(draw(run.out))
    print(f"{len(rows) - len(skipped) - len(failed)} experiments in {duration(time.monotonic() - began)}"
          + (f"; skipped: {', '.join(skipped)}" if skipped else "") + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on")
