#!/usr/bin/env python3
"""Compares the predictions of `kvick plan` with measurements of `kvick bench`, over a grid of models and caches.

    tools/plan/plan_check.py MODEL... [--kvick PROGRAM] [--kv virtual bmc:r=64 ...] [--kv-type f16 q8] [--depths 512 4096] [--batches 1 8]
                     [--quick] [-o FILE.json]

For each cell of the grid the tool first runs `kvick plan`, then measures the decode of 48 tokens at the cell's depth. With -o, cells that
the file already has are not measured again, so an interrupted run can be continued. --quick: one repeat, only depth 512. Run it on an
otherwise idle machine.
"""

import argparse
import json
import math
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import time

DECODE = 48
STRATEGIES = ("virtual", "bmc:r=64", "upfront", "iterative", "paged", "sliding")


def json_of(kvick, *arguments):
    done = subprocess.run([kvick, *map(str, arguments), "--json", "--quiet"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"plan_check: kvick {shlex.join(map(str, arguments))} ended with status {done.returncode}")
    return json.loads(done.stdout)


def measure(kvick, cell, repeats):
    """Predicted and measured tokens/s (over all sequences) and cache bytes of one cell."""
    asked = ("-m", cell["path"], "--kv", cell["strategy"], "--kv-type", cell["kv_type"], "--ctx", cell["depth"] + DECODE, "-b", cell["batch"])
    plan = json_of(kvick, "plan", *asked)
    bench = json_of(kvick, "bench", *asked, "-p", 0, "-n", DECODE, "-d", cell["depth"], "-r", repeats)
    return {"predicted_tok_s": plan["predicted_decode_tok_s"], "measured_tok_s": bench["decode_tok_s"],
            "spread": bench["spread"]["decode"], "planned_bytes": plan["fast_bytes"], "counted_bytes": bench["kv"]["allocated_bytes"],
            "others_share": max(plan["others_share"], bench["others_share"])}


def cells_of(options):
    for path in options.models:
        for batch in options.batches:
            for depth in options.depths:
                for kv_type in options.kv_type:
                    for strategy in options.kv:
                        what = {"model": pathlib.Path(path).name, "strategy": strategy, "kv_type": kv_type, "batch": batch, "depth": depth}
                        yield " ".join(map(str, what.values())), what, path


def summary_of(cells):
    """The median and the worst error of the predicted speeds, as shares: 0.25 if one speed is 1.25 times the other."""
    runs = [run for cell in cells for run in cell["runs"]]
    if not runs:
        return {}
    off = [math.exp(abs(math.log(run["measured_tok_s"] / run["predicted_tok_s"]))) - 1 for run in runs]
    return {"cells": len(runs), "median_off": statistics.median(off), "worst_off": max(off),
            "bytes_equal": sum(run["planned_bytes"] == run["counted_bytes"] for run in runs)}


def write(path, data):
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    os.replace(part, path)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", help="model files")
    parser.add_argument("--kvick", default="kvick", help="kvick program (default: kvick)")
    parser.add_argument("--kv", nargs="+", default=STRATEGIES, help=f"strategies (default: {' '.join(STRATEGIES)})")
    parser.add_argument("--kv-type", nargs="+", default=("f16",), help="row types (default: f16)")
    parser.add_argument("--depths", nargs="+", type=int, default=(512, 4096), help="tokens in the cache before (default: 512 4096)")
    parser.add_argument("--batches", nargs="+", type=int, default=(1, 8), help="sequences decoded together (default: 1 8)")
    parser.add_argument("--repeats", type=int, default=3, help="measurements per cell, of which the median is used (default: 3)")
    parser.add_argument("--quick", action="store_true", help="one repeat, only depth 512")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="JSON file for the cells; a later run continues it")
    options = parser.parse_args(arguments)
    if options.quick:
        options.depths, options.repeats = (512,), 1
    data = {"experiment": "plan-check", "command": f"tools/plan/plan_check.py {shlex.join(sys.argv[1:] if arguments is None else arguments)}", "cells": []}
    if options.output and options.output.exists():
        data["cells"] = json.loads(options.output.read_text(encoding="utf-8"))["cells"]
    known, todo = {cell["key"] for cell in data["cells"]}, list(cells_of(options))
    left = [cell for cell in todo if cell[0] not in known]
    began = time.monotonic()
    print(f"{len(left)} of {len(todo)} cells to measure")
    print(f"{'model':26}{'strategy':12}{'rows':8}{'batch':>6}{'depth':>7}{'planned':>10}{'measured':>10}{'ratio':>7}  bytes", flush=True)
    for at, (key, what, path) in enumerate(left):
        run = measure(options.kvick, what | {"path": path}, options.repeats)
        data["cells"].append({"key": key, "what": what, "runs": [run]})
        data["summary"] = summary_of(data["cells"])
        apart = max(run["spread"] for one in data["cells"] for run in one["runs"])
        data["spread"] = f"medians of {options.repeats} repeats in turn, at most {100 * apart:.0f} % apart"
        if options.output:
            write(options.output, data)
        minutes = (time.monotonic() - began) / (at + 1) * (len(left) - at - 1) / 60
        same = "equal" if run["planned_bytes"] == run["counted_bytes"] else f"{run['planned_bytes']:,} and {run['counted_bytes']:,}"
        print(f"{what['model'][:25]:26}{what['strategy']:12}{what['kv_type']:8}{what['batch']:6}{what['depth']:7}{run['predicted_tok_s']:10.1f}"
              f"{run['measured_tok_s']:10.1f}{run['measured_tok_s'] / run['predicted_tok_s']:7.2f}  {same}; {minutes:.0f} min left", flush=True)
    summary = summary_of(data["cells"])
    print(f"speed: half of {summary['cells']} cells within {100 * summary['median_off']:.0f} %, all within {100 * summary['worst_off']:.0f} %; "
          f"bytes equal in {summary['bytes_equal']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
