"""What docs/results holds: MACHINE/DATE/NAME.json, each with a "provenance".

Three shapes: `measurements` of tools/compare/compare.py, a `summary` of kvick lab, and `tables` that a page had before there were
files. Nothing here needs more than Python itself, so that scripts/test can check the pages on any machine.
"""

import functools
import json
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools" / "compare"))

import report as comparison  # noqa: E402  (tools/compare/report.py: rates of the best configuration, and ratios by round)

FIELDS = ("machine", "date", "commit", "command", "spread")


class Cell:
    """A figure and the file that it comes from; as Markdown, a link to it."""

    def __init__(self, value, path, form="{:.3g}"):
        self.value, self.path, self.form = value, path, form

    def markdown(self, page):
        """A link from a page that lies `page` folders above docs/results, such as "" or "../results/"."""
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
    """Reads the files below a folder, each once."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def files(self):
        """Paths of all results, relative to the folder."""
        return sorted(path.relative_to(self.folder).as_posix() for path in self.folder.glob("*/*/*.json"))

    @functools.lru_cache(maxsize=None)  # noqa: B019  (one object a run)
    def load(self, path):
        return json.loads((self.folder / path).read_text(encoding="utf-8"))

    def faults(self):
        """One sentence for each file that does not say where it comes from."""
        for path in self.files():
            provenance, (machine, date, _) = self.load(path).get("provenance", {}), path.split("/")
            missing = [field for field in FIELDS if not provenance.get(field)]
            if missing:
                yield f"{path}: its provenance lacks {', '.join(missing)}; write \"not recorded\" where nobody knows"
                continue
            # A folder not-recorded is for "not recorded".
            if provenance["machine"].replace(" ", "-") != machine or provenance["date"] != date:
                yield f"{path}: it says {provenance['machine']}, {provenance['date']}, and lies elsewhere"

    def rates(self, path, file, case, peer):
        """Cells of tokens/s: the median of the rounds' best configurations. None where the peer was not run."""
        values = list(comparison.Cells(self.load(path)["measurements"], file, case).rates(peer).values())
        return Cell(rate(statistics.median(values)), path) if values else None

    def ratio(self, path, file, case, peer):
        """kvick's rate over the peer's: the median of the rounds' ratios."""
        values = comparison.Cells(self.load(path)["measurements"], file, case).ratios("kvick", [peer])
        return Cell(statistics.median(values), path, "{:.2f}") if values else None

    def table_cell(self, path, table, row, column):
        """The text at a row, named by the start of its cells (an empty cell repeats the one above), and a column's number."""
        above = ""
        for cells in self.load(path)["tables"][table]["rows"]:
            above = cells[0] or above
            if all(a.startswith(b) for a, b in zip([above, *cells[1:]], row)):
                return Cell(cells[column].replace("**", ""), path)
        raise KeyError(f"{path}: no row {row} in table {table}")

    def case(self, path, key, **what):
        """The one entry of summary[key] whose fields are `what`."""
        found = [entry for entry in self.load(path)["summary"][key] if all(entry.get(k) == v for k, v in what.items())]
        if len(found) != 1:
            raise KeyError(f"{path}: {len(found)} entries of {key} with {what}")
        return found[0]
