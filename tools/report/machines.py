"""The table of docs/results/machines.md: one column for each machine in machines.json, with the number of its results."""

import json

from pages import markdown_table

LINES = (("processor", "processor"), ("cores", "cores"), ("instructions", "isa"), ("caches", "caches"), ("memory reads", "memory"),
         ("int8 products", "int8"), ("float32 products", "f32"), ("bfloat16 products", "bf16"), ("where these figures are from", "source"))


def load(folder):
    return json.loads((folder / "machines.json").read_text(encoding="utf-8"))


def table(results):
    machines = load(results.folder)
    kept = [path.split("/")[:2] for path in results.files()]
    dates = {name: [date for machine, date in kept if machine == name] for name in machines}
    rows = [[title, *(machine[key] for machine in machines.values())] for title, key in LINES]
    rows.append(["results", *(f"{len(days)}, {min(days)} to {max(days)}" for days in dates.values())])
    return markdown_table(["", *(f"`{name}`" for name in machines)], rows)
