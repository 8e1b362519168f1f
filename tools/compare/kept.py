"""Writes results with their provenance to docs/results/MACHINE/DATE/NAME.json."""
import datetime
import json
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parsed(place):
    """(MACHINE, NAME) of a text MACHINE/NAME. Raises ValueError for another text."""
    machine, slash, name = place.partition("/")
    if not (machine and slash and name) or "/" in name:
        raise ValueError(f"{place}: give MACHINE/NAME, such as xeon/s-q8_0; the machines are columns of docs/results/machines.md")
    return machine, name


def commit():
    done = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"],
                          capture_output=True, text=True)
    return done.stdout.strip() or "not recorded"


def without_folders(command):
    """The command with absolute paths shortened to their last part, because folders of this machine mean nothing elsewhere."""
    return re.sub(r"(?<![\w./])/(?:[^\s/]+/)*([^\s/]+)", r"\1", command)


def keep(place, result, folder=ROOT / "docs/results"):
    """Writes a result with its provenance and returns the path. tools/report then makes the tables."""
    machine, name = parsed(place)
    result = result | {"command": without_folders(result["command"])}
    date, rounds = datetime.date.today().isoformat(), result["rounds"]
    spread = f"{rounds} rounds, each is here" if rounds > 1 else "one round, so no spread"
    provenance = {"machine": machine, "date": date, "commit": commit(), "command": result["command"], "spread": spread}
    path = folder / machine / date / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"provenance": provenance} | result, indent=1) + "\n")
    return path
