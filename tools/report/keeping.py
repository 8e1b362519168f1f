"""Copies results of `kvick lab`, tools/plan and tools/ruler to docs/results/MACHINE/DATE, with a provenance."""

import datetime
import json
import pathlib

import results  # noqa: F401  (puts tools/compare on the path)
import kept


def spread(data):
    rounds = sorted({len(cell["runs"]) for cell in data["cells"]})
    if rounds == [1]:
        return "one round, so no spread"
    return f"{' to '.join(map(str, dict.fromkeys((rounds[0], rounds[-1]))))} rounds of each cell, each is here"


def keep(machine, path, folder):
    """Copies a result and returns its new path. The date is the file's modification date. The commit is the current one, so the
    measured program should have been built from it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # neither JSON nor UTF-8
        raise ValueError(f"{path} is not a result of kvick lab: {error}") from None
    if not isinstance(data, dict) or "experiment" not in data or "cells" not in data:
        raise ValueError(f"{path} is not a result of kvick lab: it has no experiment or no cells")
    for cell in data["cells"]:  # keep the file names of models, without the folders of this machine
        cell.get("what", {}).update({key: pathlib.PurePath(value).name for key, value in cell.get("what", {}).items()
                                     if isinstance(value, str) and value.startswith("/")})
    date = datetime.date.fromtimestamp(path.stat().st_mtime).isoformat()
    provenance = {"machine": machine, "date": date, "commit": kept.commit(), "command": data["command"],
                  "spread": data.pop("spread", None) or spread(data)}
    place = folder / machine / date
    place.mkdir(parents=True, exist_ok=True)
    (place / path.name).write_text(json.dumps({"provenance": provenance} | data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return place / path.name
