"""The result file, and the tables and the chart that are made of it. Its form is that of kvick lab: cells with runs, one per sample."""

import json
import math
import os
import pathlib
import statistics

from texts import Mistake

NAME = "ruler"


class Store:
    """The cells of a result file. A file of an earlier call is continued: its cells with the same key and inputs are not measured
    again, and all others stay."""

    def __init__(self, path, machine, command):
        self.path, self.machine, self.command = path, machine, command
        self.cells = {}
        if path is not None and path.exists():
            self.read()

    def read(self):
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            if found["experiment"] != NAME:
                raise ValueError
            machine, cells = found["machine"], {(cell["key"], cell["inputs"]): cell for cell in found["cells"]}
            if not all(isinstance(run["score"], float) and isinstance(run["seconds"], float)
                       for cell in cells.values() for run in cell["runs"]):
                raise ValueError
        except OSError as error:
            raise Mistake(f"cannot read {self.path}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise Mistake(f"{self.path} is not a result of tools/ruler: give another -o, or remove it") from None
        if machine != self.machine:
            raise Mistake(f"{self.path} was measured on another machine or with other threads: give another -o, or remove it")
        self.cells = cells

    def cell(self, key, inputs, what):
        return self.cells.setdefault((key, inputs), {"key": key, "inputs": inputs, "what": what, "runs": []})

    def write(self, findings=None):
        if self.path is None:
            return
        result = {"experiment": NAME, "summary": {}, "machine": self.machine, "command": self.command,
                  "cells": [cell for cell in self.cells.values() if cell["runs"]]} | (findings or {})
        part = self.path.with_name(self.path.name + ".part")
        try:
            part.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            os.replace(part, self.path)
        except OSError as error:
            raise Mistake(f"cannot write {self.path}: {error.strerror}") from None


def mean_of(cells, samples):
    """(mean over tasks of their mean scores in %, its standard error by the spread of the samples; None for one sample)"""
    scores = [[100 * run["score"] for run in cell["runs"][:samples]] for cell in cells]
    return average(scores)


def average(lists):
    mean = statistics.fmean(statistics.fmean(one) for one in lists)
    if min(map(len, lists)) < 2:
        return mean, None
    return mean, math.sqrt(sum(statistics.variance(one) / len(one) for one in lists)) / len(lists)


def differences(cells, others, samples):
    """As mean_of, of the differences to other cells with the same samples. They vary less than the scores do."""
    return average([[100 * (a["score"] - b["score"]) for a, b in zip(cell["runs"][:samples], other["runs"][:samples])]
                    for cell, other in zip(cells, others)])


def figure(value, sign=""):
    mean, error = value
    return f"{mean:{sign}.1f}" + ("" if error is None else f" ± {error:.1f}")


class Findings:
    """measured: {(label of a setting, task, length): cell}, each with at least `samples` runs."""

    def __init__(self, measured, samples, protocol):
        self.measured, self.samples, self.protocol = measured, samples, protocol
        self.labels, self.tasks, self.lengths = (list(dict.fromkeys(key[i] for key in measured)) for i in range(3))

    def of(self, label, lengths):
        return [self.measured[label, task, length] for length in lengths for task in self.tasks]

    def task_table(self, length):
        def score(cell):
            return f"{100 * statistics.fmean(run['score'] for run in cell['runs'][:self.samples]):.1f}"
        rows = [[task, *(score(self.measured[label, task, length]) for label in self.labels)] for task in self.tasks]
        rows.append(["mean", *(figure(mean_of(self.of(label, [length]), self.samples)) for label in self.labels)])
        return {"title": f"RULER's tasks in {length} tokens, {self.protocol}: scores in %, {self.samples} samples of each task",
                "columns": ["task", *self.labels], "rows": rows}

    def mean_table(self):
        rows, first = [], self.of(self.labels[0], self.lengths)
        for label in self.labels:
            all_of = self.of(label, self.lengths)
            rows.append([label, *(figure(mean_of(self.of(label, [length]), self.samples)) for length in self.lengths),
                         figure(mean_of(all_of, self.samples)),
                         "" if label == self.labels[0] else figure(differences(all_of, first, self.samples), "+")])
        return {"title": f"Mean scores in % by tokens, {self.protocol}, with standard errors; the last column is of the same samples",
                "columns": ["setting", *map(str, self.lengths), "mean", f"minus {self.labels[0]}"], "rows": rows}

    def chart(self):
        points = {label: [[length, mean_of(self.of(label, [length]), self.samples)[0]] for length in self.lengths] for label in self.labels}
        return {"name": NAME, "title": f"RULER, {len(self.tasks)} tasks, {self.protocol}: mean score, %", "x_label": "tokens of prompt and answer",
                "y_label": "mean score, %", "log_x": True, "log_y": False, "bars": [], "side_by_side": False, "columns": [], "rows": [],
                "series": [{"name": label, "points": points[label], "dashed": False} for label in self.labels]}

    def summary(self):
        found, first = [], self.of(self.labels[0], self.lengths)
        for label in self.labels:
            mean, error = mean_of(self.of(label, self.lengths), self.samples)
            minus, minus_error = differences(self.of(label, self.lengths), first, self.samples)
            found.append({"setting": label, "protocol": self.protocol, "tasks": len(self.tasks), "samples": self.samples,
                          "mean_percent": mean, "mean_error": error, "minus_first": minus, "minus_first_error": minus_error,
                          "by_length": {str(length): mean_of(self.of(label, [length]), self.samples)[0] for length in self.lengths}})
        return {"settings": found}

    def parts(self):
        """The parts of a result file that are made of its cells."""
        return {"spread": f"{self.samples} samples of each cell, each is here", "summary": self.summary(),
                "tables": [*map(self.task_table, self.lengths), self.mean_table()], "charts": [self.chart()]}


def text_of(table):
    lines = [table["columns"], *table["rows"]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table["columns"]))]
    return "\n".join([table["title"]] + ["  ".join(f"{cell:<{width}}" if i == 0 else f"{cell:>{width}}" for i, (cell, width)
                                                   in enumerate(zip(line, widths))).rstrip() for line in lines])


def machine(isa, threads):
    cpu = "unknown"
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), cpu)
    except OSError:
        pass
    return {"cpu": cpu, "isa": isa, "threads": threads}
