"""Measurements to tables. A measurement is a dict: file, case, peer, round, and either tok_s and configuration or refused."""
import statistics


def number(value):
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}"


def spread(values, form):
    if len(values) == 1:
        return form(values[0])
    return f"{form(statistics.median(values))} ({form(min(values))} to {form(max(values))})"


def ratio(value):
    return f"{value:.2f}"


class Cells:
    """The measurements of one file and case."""

    def __init__(self, measurements, file, case):
        self.mine = [m for m in measurements if m["file"] == file and m["case"] == case]

    def rates(self, peer):
        """Tokens per second by round: of the peer's best configuration in that round."""
        best = {}
        for m in self.mine:
            if m["peer"] == peer and "tok_s" in m:
                best[m["round"]] = max(best.get(m["round"], 0), m["tok_s"])
        return best

    def best_configuration(self, peer):
        rates = {}
        for m in self.mine:
            if m["peer"] == peer and "tok_s" in m:
                rates.setdefault(m["configuration"], []).append(m["tok_s"])
        return max(rates, key=lambda name: statistics.median(rates[name]), default="")

    def refusal(self, peer):
        return next((m["refused"] for m in self.mine if m["peer"] == peer and "refused" in m), None)

    def ratios(self, ours, theirs):
        """Ours to the best of theirs, by round; of the rounds where all that ever answered have answered."""
        rates = [self.rates(peer) for peer in theirs if self.rates(peer)]
        mine = self.rates(ours)
        rounds = [r for r in mine if rates and all(r in other for other in rates)]
        return [mine[r] / max(other[r] for other in rates) for r in rounds]


def peer_cell(cells, ours, peer, notes):
    rates = list(cells.rates(peer).values())
    if not rates:
        words = cells.refusal(peer)
        if words is None:
            return "–"
        note = f"{peer}: {words}"
        if note not in notes:
            notes.append(note)
        return f"refused [{notes.index(note) + 1}]"
    text = spread(rates, number)
    if peer == ours:
        return text
    configuration = cells.best_configuration(peer)
    ratios = cells.ratios(ours, [peer])
    return text + (f", {configuration}" if configuration else "") + (f"; **{spread(ratios, ratio)}**" if ratios else "")


def table(measurements, file, cases, peers):
    """Markdown: a row per case. The first of `peers` is the one whose ratios are shown."""
    ours, others = peers[0], peers[1:]
    lines = ["| tokens/s | " + " | ".join(peers) + " | ratio to the fastest |", "|---" * (len(peers) + 2) + "|"]
    notes = []
    for case in cases:
        cells = Cells(measurements, file, case.name)
        if not cells.mine:
            continue
        ratios = cells.ratios(ours, others)
        row = [case.title] + [peer_cell(cells, ours, peer, notes) for peer in peers]
        lines.append("| " + " | ".join(row + [f"**{spread(ratios, ratio)}**" if ratios else "–"]) + " |")
    return "\n".join(lines + [""] * bool(notes) + [f"[{i}] {note}  " for i, note in enumerate(notes, 1)])


HEAD = """\
Median (lowest to highest) of {rounds} alternating round(s); in bold kvick's rate as a multiple of the other's, of figures
of the same round. Each engine in every round with its best configuration, which is named. {machine}, {threads} threads.
"""


def page(result, cases):
    parts = [f"# {', '.join(result['peers'])}", HEAD.format(**result), f"`{result['command']}`"]
    for file in result["files"]:
        parts.append(f"## {file}\n\n{table(result['measurements'], file, cases, result['peers'])}")
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"
