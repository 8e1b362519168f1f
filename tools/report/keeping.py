"""Results of `kvick lab` and tools/plan that are kept: its JSON with a provenance, and its charts, in docs/results/MACHINE/DATE."""

import datetime
import json
import pathlib
import shutil

import results  # noqa: F401  (puts tools/compare on the path)
import kept


def spread(data):
    rounds = sorted({len(cell["runs"]) for cell in data["cells"]})
    if rounds == [1]:
        return "one round, so no spread"
    return f"{' to '.join(map(str, dict.fromkeys((rounds[0], rounds[-1]))))} rounds of each cell, each is here"


def keep(machine, path, folder):
    """Where it was kept. The day is that of the file, the commit that of the tree, which should be the program's."""
    data = json.loads(path.read_text(encoding="utf-8"))
    if "experiment" not in data or "cells" not in data:
        raise ValueError(f"{path} is no file of kvick lab: it has no experiment or no cells")
    for cell in data["cells"]:  # models are named, not where they lie on this machine
        cell.get("what", {}).update({key: pathlib.PurePath(value).name for key, value in cell.get("what", {}).items()
                                     if isinstance(value, str) and value.startswith("/")})
    date = datetime.date.fromtimestamp(path.stat().st_mtime).isoformat()
    provenance = {"machine": machine, "date": date, "commit": kept.commit(), "command": data["command"],
                  "spread": data.pop("spread", None) or spread(data)}
    place = folder / machine / date
    place.mkdir(parents=True, exist_ok=True)
    (place / path.name).write_text(json.dumps({"provenance": provenance} | data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for chart in sorted(path.parent.glob(f"{path.stem}*.svg")):
        shutil.copy(chart, place)
    return place / path.name
