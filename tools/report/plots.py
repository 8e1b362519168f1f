"""The plots of docs/results. Each SVG contains a digest of the figures that it was drawn from, so that --check can tell without
matplotlib whether it is up to date."""

import hashlib
import io
import json
import re

import curves
import policies
import tables
from results import number

DEPTHS = "epyc-zen4/2026-11-26/zen4-depth.json"
COLOURS = {tables.ZEN3: "#8c564b", tables.AMX: "#1b6ca8", tables.XEON: "#5aa9c9", tables.ZEN: "#c8553d", tables.ZEN5: "#e0a030"}


def speed_points(results):
    """(label, machine, kvick's speed over llama.cpp's, over ik_llama.cpp's or None) for each row of the speed table."""
    return [(f"{model}: {work}", machine, over.value, ik.value if ik else None)
            for machine, model, work, *_, over, ik in tables.speed_rows(results)]


def quality_points(results):
    """(kind, name, bytes read in percent of f16's, change of perplexity in percent)"""
    points = [("type of rows", name, size, change) for name, size, change, *_ in tables.type_points(results) if name != "f16"]
    for budget in (25.0, 12.5):
        points += [(f"{budget:g} % of the rows", name, read, change)
                   for name, _, read, change, _ in tables.policy_points(results, budget)]
    return points


def depth_points(results):
    """("engine, row type", [(depth in tokens, mean, lowest and highest tokens/s)]) for the shape of SmolLM2-135M."""
    lines, model, rows = {}, "", ""
    for cells in results.load(DEPTHS)["tables"][0]["rows"]:
        model, rows = cells[0] or model, cells[1] or rows
        if not model.startswith("SmolLM2"):
            continue
        for engine, text in (("kvick", cells[3]), ("llama.cpp", cells[4])):
            values = [number(part) for part in text.split(", ")]
            lines.setdefault(f"{engine}, {rows}", []).append((number(cells[2]), sum(values) / len(values), min(values), max(values)))
    return sorted(lines.items())


def planner_points(results):
    """(machine, planned, measured) in tokens/s."""
    return [(machine, planned, measured) for machine, _, planned, measured, _ in tables.planner_points(results)]


def draw_planner(axes, points):
    low, high = min(min(a, b) for _, a, b in points) / 1.5, max(max(a, b) for _, a, b in points) * 1.5
    for share, alpha in ((0.25, 0.12), (0.1, 0.2)):
        axes.fill_between([low, high], [low / (1 + share), high / (1 + share)], [low * (1 + share), high * (1 + share)], color="#555555",
                          alpha=alpha, linewidth=0, label=f"within {100 * share:.0f} %")
    for machine, colour in COLOURS.items():
        mine = [(planned, measured) for of, planned, measured in points if of == machine]
        if mine:
            axes.plot([a for a, _ in mine], [b for _, b in mine], "o", color=colour, markersize=4, alpha=0.8, label=machine)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.set_xlabel("planned, tokens/s of all sequences")
    axes.set_ylabel("measured")
    axes.legend(frameon=False, loc="lower right")


def draw_speed(axes, points):
    places = range(len(points))[::-1]
    for place, (label, machine, over, ik) in zip(places, points):
        axes.barh(place, over, color=COLOURS[machine], height=0.7)
        axes.text(over + 0.08, place, f"{over:.1f}", va="center", fontsize=8)
        if ik is not None:
            axes.plot(ik, place, "o", color="white", markeredgecolor="black", markersize=5)
    axes.set_yticks(list(places), [label for label, *_ in points], fontsize=8)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel("kvick's tokens/s as a multiple: bar of llama.cpp, circle of ik_llama.cpp")
    axes.set_ylim(-0.7, len(points) - 0.3)
    handles = [axes.barh([0], [0], color=colour, label=machine) for machine, colour in COLOURS.items()]
    axes.legend(handles=handles, loc="lower right", frameon=False)


# Offsets of labels that would otherwise overlap: typographic points to the right of and above the mark.
NUDGES = {("12.5", "streaming"): (8, 3), ("12.5", "scissorhands"): (8, -9), ("12.5", "quest"): (-33, -3), ("25", "streaming"): (8, 3),
          ("12.5", "clusters"): (8, -10),
          ("25", "scissorhands"): (8, -9), ("25", "h2o"): (-25, -3), ("type", "mixed:old=q4"): (-58, 6), ("type", "q8"): (-16, -3)}


def draw_quality(axes, points):
    styles = {"type of rows": ("s", "#1b6ca8"), "25 % of the rows": ("o", "#c8553d"), "12.5 % of the rows": ("^", "#8a9a3b")}
    for kind, (marker, colour) in styles.items():
        mine = [point for point in points if point[0] == kind]
        axes.plot([x for *_, x, _ in mine], [max(y, 0.02) for *_, y in mine], marker, color=colour, label=kind)
        for _, name, x, y in mine:
            axes.annotate(name, (x, max(y, 0.02)), xytext=NUDGES.get((kind.split()[0], name), (8, -3)), textcoords="offset points", fontsize=8)
    axes.set_yscale("log")
    axes.set_yticks([0.02, 0.1, 1, 10, 40], ["0.02 or less", "0.1", "1", "10", "40"])
    axes.set_xlim(0, 75)
    axes.set_xlabel("bytes of rows that a token reads, % of f16's")
    axes.set_ylabel("perplexity above f16's, all rows read, %")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="upper right")


def draw_depth(axes, points):
    for name, line in points:
        ours = name.startswith("kvick")
        colour = "#c8553d" if ours else "#555555"
        depths = [depth for depth, *_ in line]
        axes.fill_between(depths, [low for *_, low, _ in line], [high for *_, high in line], color=colour, alpha=0.15, linewidth=0)
        axes.plot(depths, [middle for _, middle, *_ in line], "-" if name.endswith("q8") else "--", color=colour, marker="o",
                  markersize=4)
        axes.annotate(name, (depths[-1], line[-1][1]), xytext=(8, -3), textcoords="offset points", fontsize=9)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([4096, 16384, 65536], ["4,096", "16,384", "65,536"])
    axes.set_yticks([3, 10, 30, 100], ["3", "10", "30", "100"])
    axes.minorticks_off()
    axes.set_xlim(3600, 130000)
    axes.set_xlabel("tokens of context")
    axes.set_ylabel("tokens/s of one sequence")
    axes.grid(alpha=0.3)


def on_one(draw_on, title):
    """A function that draws on the one pair of axes of a figure."""

    def draw(figure, points):
        axes = figure.subplots()
        axes.set_title(title, loc="left", fontsize=11)
        draw_on(axes, points)

    return draw


# Name: (function of the points, function that draws them on a figure, size in inches).
PLOTS = {
    "speed": (speed_points, on_one(draw_speed, "Speed beside llama.cpp and ik_llama.cpp, two threads"), (9, 7.4)),
    "quality": (quality_points, on_one(draw_quality, "Quality against bytes, SmolLM2-135M, windows of 2,048 tokens"), (8, 5)),
    "policies": (policies.points, on_one(policies.draw, "Policies: quality and speed with 25 and 12.5 % of the rows"), (9, 6)),
    "planner": (planner_points, on_one(draw_planner, "Decode speed: what kvick plan said, and what was measured"), (6, 5.2)),
    "depth": (depth_points, on_one(draw_depth, "Decode after a long context, SmolLM2-135M shape in Q8_0, Zen 4"), (8, 4.6)),
    "rates": (curves.points, curves.draw, (10, 9)),
}


def digest(name, results):
    points = json.dumps(PLOTS[name][0](results), sort_keys=True)
    return hashlib.sha256(points.encode()).hexdigest()[:16]


def mark(name, results):
    return f"<!-- drawn from figures {digest(name, results)} -->"


def svg(name, results):
    """The plot as SVG text. The same figures and version of matplotlib give the same text."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    points, draw, size = PLOTS[name]
    with matplotlib.rc_context({"svg.hashsalt": "kvick", "svg.fonttype": "none", "font.family": "sans-serif",
                                "axes.spines.top": False, "axes.spines.right": False}):
        figure = pyplot.figure(figsize=size, layout="constrained")
        figure.set_facecolor("white")
        draw(figure, points(results))
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    text = re.sub(r"[ \t]+$", "", out.getvalue(), flags=re.MULTILINE)
    return text.rstrip("\n") + f"\n{mark(name, results)}\n"
