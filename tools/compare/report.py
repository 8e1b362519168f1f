"""Makes tables from measurements. A measurement is a dict with file, case, peer, round, configuration, and either tok_s or refused."""
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
        """{round: tokens per second of the peer's best configuration in that round}"""
        best = {}
        for m in self.mine:
            if m["peer"] == peer and "tok_s" in m:
                best[m["round"]] = max(best.get(m["round"], 0), m["tok_s"])
        return best

    def roofline(self, peer):
        """The share of the roofline: the median over rounds, each with its best configuration. None if it is not known."""
        best = {}
        for m in self.mine:
            if m["peer"] == peer and "roofline" in m and m["tok_s"] >= best.get(m["round"], m)["tok_s"]:
                best[m["round"]] = m
        return statistics.median(m["roofline"] for m in best.values()) if best else None

    def best_configuration(self, peer):
        rates = {}
        for m in self.mine:
            if m["peer"] == peer and "tok_s" in m:
                rates.setdefault(m["configuration"], []).append(m["tok_s"])
        return max(rates, key=lambda name: statistics.median(rates[name]), default="")

    def refusal(self, peer):
        return next((m["refused"] for m in self.mine if m["peer"] == peer and "refused" in m), None)

    def ratios(self, ours, theirs):
        """Our rate divided by the best of theirs, for each round in which we and all peers have a rate. Peers without any rate in
        any round are ignored."""
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
        share = cells.roofline(peer)
        return text + (f", {share:.0%} of the roofline" if share is not None else "")
    configuration = cells.best_configuration(peer)
    ratios = cells.ratios(ours, [peer])
    return text + (f", {configuration}" if configuration else "") + (f"; **{spread(ratios, ratio)}**" if ratios else "")


def table(measurements, file, cases, peers):
    """A Markdown table with one row per case. Ratios are those of the first peer to the others."""
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


def by_file(measurements, files, cases, peers):
    """A Markdown table with one row per file: for each case the first peer's rate, share of the roofline, and ratio to each other
    peer."""
    ours, others = peers[0], peers[1:]
    cases = [case for case in cases if any(m["case"] == case.name for m in measurements)]
    head = ["tokens/s", *(case.title for case in cases)]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for file in files:
        row = [file]
        for case in cases:
            cells = Cells(measurements, file, case.name)
            rates, share = list(cells.rates(ours).values()), cells.roofline(ours)
            parts = [number(statistics.median(rates)) if rates else "–"]
            parts += [f"{share:.0%}"] if share is not None else []
            ratios = [cells.ratios(ours, [peer]) for peer in others]
            parts += [f"**{' / '.join(ratio(statistics.median(r)) if r else '–' for r in ratios)}**"] if any(ratios) else []
            row.append(", ".join(parts))
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


BY_FILE = """\
## All files

{ours}'s rate, its share of the roofline{others}.

{table}"""

HEAD = """\
Median (lowest to highest) of {rounds} alternating round(s). Bold figures are kvick's rate divided by the other engine's in the same
round. In every round each engine is represented by its best configuration, which is named. {machine}, {threads} threads.
"""


def page(result, cases):
    parts = [f"# {', '.join(result['peers'])}", HEAD.format(**result), f"`{result['command']}`"]
    parts += result.get("notes", [])
    if len(result["files"]) > 1:
        ours, *others = result["peers"]
        parts.append(BY_FILE.format(ours=ours, others=f", in bold the ratio to {' / '.join(others)}" * bool(others),
                                    table=by_file(result["measurements"], result["files"], cases, result["peers"])))
    for file in result["files"]:
        parts.append(f"## {file}\n\n{table(result['measurements'], file, cases, result['peers'])}")
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"
