"""The table and the plot of latency against request rate, from results of tools/compare/rates.py."""

import math
import statistics

from pages import markdown_table
from results import Cell, rate

AT = 0.1  # seconds per token: the latency at which the servers' rates are compared
# Result file and what was asked for.
CURVES = (("epyc-zen4/2026-11-30/rates-sharegpt.json", "long answers (ShareGPT's lengths)"),
          ("epyc-zen4/2026-11-30/rates-alpaca.json", "short answers (Alpaca's lengths)"),
          ("epyc-zen4/2026-11-30/rates-strategies.json", "long answers, 200 MB for the cache"),
          ("epyc-zen4/2026-11-30/rates-chat.json", "chats with their history, 200 MB for the cache"))


def line(runs):
    """[(requests per second, mean seconds per token, whether all requests were answered)], medians over rounds."""
    points = []
    for at in sorted({run["rate"] for run in runs}):
        same = [run for run in runs if run["rate"] == at and run["s_per_token"] is not None]
        if same:
            points.append((at, statistics.median(run["s_per_token"] for run in same), not any(run["unanswered"] for run in same)))
    return points


def lines(results, path):
    """{server: line(its runs)}"""
    runs = results.load(path)["runs"]
    return {server: line([run for run in runs if run["server"] == server]) for server in dict.fromkeys(run["server"] for run in runs)}


def rate_at(points, latency=AT):
    """(requests per second at which the mean latency passes `latency`, True), between measured rates on a logarithmic scale of the
    latency; (the highest rate measured, False) if it never does."""
    before = None
    for at, seconds, _ in points:
        if seconds > latency:
            if before is None:
                return at, True
            share = math.log(latency / before[1]) / math.log(seconds / before[1])
            return before[0] + share * (at - before[0]), True
        before = (at, seconds)
    return (before[0] if before else 0.0), False


def table(results):
    rows = []
    for path, title in CURVES:
        for server, points in lines(results, path).items():
            runs = [run for run in results.load(path)["runs"] if run["server"] == server]
            at, passed = rate_at(points)
            lowest, best = points[0], max(runs, key=lambda run: run["output_tok_s"])
            first = statistics.median(run["ttft_s_p50"] for run in runs if run["rate"] == lowest[0] and run["ttft_s_p50"] is not None)
            rows.append([title, server, Cell(at, path, "{:.3g}" if passed else "more than {:.3g}"),
                         Cell(1000 * lowest[1], path, "{:.0f} ms" + f" at {lowest[0]:g}/s"), Cell(first, path, "{:.2f} s"),
                         Cell(rate(best["output_tok_s"]), path)])
    head = ["requests", "server", f"requests/s at {AT:g} s per token", "latency per token at the lowest rate",
            "first token there, median", "most output tokens/s"]
    return markdown_table(head, rows)


def points(results):
    """(title, {server: its line}) of each result."""
    return [(title, lines(results, path)) for path, title in CURVES]


PALETTE = ("#c8553d", "#1b6ca8", "#8a9a3b", "#6b4c9a", "#e0a030", "#444444")


def draw(figure, made):
    """One plot for each result, two side by side. A hollow mark: not all requests were answered in time."""
    every = figure.subplots(max(1, math.ceil(len(made) / 2)), 2, squeeze=False).flat
    servers = list(dict.fromkeys(server for _, curves in made for server in curves))
    for axes, (title, curves) in zip(every, made):
        for server, curve in curves.items():
            colour = PALETTE[servers.index(server) % len(PALETTE)]
            axes.plot([at for at, *_ in curve], [seconds for _, seconds, _ in curve], "-", color=colour, label=server)
            for at, seconds, whole in curve:
                axes.plot(at, seconds, "o", color=colour, markerfacecolor=colour if whole else "white", markersize=5)
        axes.axhline(AT, color="#999999", linewidth=0.8, linestyle=":")
        axes.set_yscale("log")
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_xlabel("requests per second")
        axes.set_ylabel("latency per output token, s (mean)")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    for axes in every[len(made):]:
        axes.set_visible(False)
