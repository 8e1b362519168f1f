"""Reads the results in docs/results: files MACHINE/DATE/NAME.json, each with a "provenance".

A result has one of three forms: `measurements` from tools/compare/compare.py, a `summary` from kvick lab, or `tables` copied from
pages that are older than the JSON files. This module needs only Python, so that scripts/test can check the pages on any machine.
"""

import functools
import json
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools" / "compare"))

import report as comparison  # noqa: E402  (tools/compare/report.py: rates of the best configuration and ratios of each round)

FIELDS = ("machine", "date", "commit", "command", "spread")


class Cell:
    """A figure and the result file that it comes from. In Markdown it is a link to that file."""

    def __init__(self, value, path, form="{:.3g}"):
        self.value, self.path, self.form = value, path, form

    def markdown(self, page):
        """The figure as a link. page: path from the page's folder to docs/results, such as "" or "../results/"."""
        text = self.value if isinstance(self.value, str) else self.form.format(self.value)
        return f"[{text}]({page}{self.path})"


def number(text):
    """The first number of a cell such as "27.3 (25 to 30)" or "1,009"."""
    found = re.search(r"-?\d[\d,]*(?:\.\d+)?", text)
    if not found:
        raise ValueError(f"no number in {text!r}")
    return float(found[0].replace(",", ""))


def rate(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


class Results:
    """The result files below a folder. Each is read once."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def files(self):
        """Sorted paths of all result files, relative to the folder."""
        return sorted(path.relative_to(self.folder).as_posix() for path in self.folder.glob("*/*/*.json"))

    @functools.lru_cache(maxsize=None)  # noqa: B019  (there is only one Results object)
    def load(self, path):
        return json.loads((self.folder / path).read_text(encoding="utf-8"))

    def faults(self):
        """One message for each file whose provenance is incomplete or does not match its folder."""
        for path in self.files():
            provenance, (machine, date, _) = self.load(path).get("provenance", {}), path.split("/")
            missing = [field for field in FIELDS if not provenance.get(field)]
            if missing:
                yield f"{path}: its provenance lacks {', '.join(missing)}; write \"not recorded\" if a value is unknown"
                continue
            # The machine "not recorded" has the folder not-recorded.
            if provenance["machine"].replace(" ", "-") != machine or provenance["date"] != date:
                yield f"{path}: its provenance says {provenance['machine']}, {provenance['date']}, but its folder differs"

    def rates(self, path, file, case, peer):
        """A Cell with a peer's tokens/s, the median over rounds of its best configuration; None if the peer was not run."""
        values = list(comparison.Cells(self.load(path)["measurements"], file, case).rates(peer).values())
        return Cell(rate(statistics.median(values)), path) if values else None

    def ratio(self, path, file, case, peer):
        """A Cell with kvick's rate divided by the peer's, the median of the rounds' ratios; None if there are none."""
        values = comparison.Cells(self.load(path)["measurements"], file, case).ratios("kvick", [peer])
        return Cell(statistics.median(values), path, "{:.2f}") if values else None

    def table_cell(self, path, table, row, column):
        """The Cell in column number `column` of the first row whose cells start with the texts in `row`. An empty first cell
        repeats the one above. Raises KeyError if there is no such row."""
        above = ""
        for cells in self.load(path)["tables"][table]["rows"]:
            above = cells[0] or above
            if all(a.startswith(b) for a, b in zip([above, *cells[1:]], row)):
                return Cell(cells[column].replace("**", ""), path)
        raise KeyError(f"{path}: no row {row} in table {table}")

    def case(self, path, key, **what):
        """The entry of summary[key] whose fields equal `what`. Raises KeyError unless there is exactly one."""
        found = [entry for entry in self.load(path)["summary"][key] if all(entry.get(k) == v for k, v in what.items())]
        if len(found) != 1:
            raise KeyError(f"{path}: {len(found)} entries of {key} with {what}")
        return found[0]
