"""Draws the charts of results of `kvick lab`: lines over a numeric axis, bars over names, or grids of shares."""

import html
import io
import json
import math
import pathlib
import re

# Told apart by people with any kind of colour vision (Okabe and Ito 2008).
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c", "#b2a100", "#9467bd", "#a65628"]
IN_A_ROW = 3  # grids
STYLE = """:root { color-scheme: light; } body { font: 15px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; margin: 1em 0; font-variant-numeric: tabular-nums; } .wide { overflow-x: auto; }
caption { text-align: left; font-weight: bold; } th, td { padding: .2em .7em; text-align: right; border-bottom: 1px solid #8884; }
th { vertical-align: bottom; } .text { text-align: left; } img { max-width: 100%; } code { overflow-wrap: anywhere; }"""


def short(value, _=None):
    """Of an axis: 32768 is 32.8k."""
    for least, unit, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{value / unit:.3g}{letter}"
    return f"{value:.4g}"


def values_of(chart, index):
    return [point[index] for series in chart["series"] for point in series["points"]]


def scale(axis, values, logarithmic):
    """Logarithmic: ticks at powers of two. Three of them are too few, so a range that has no more gets round numbers."""
    from matplotlib import ticker
    if logarithmic:
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
        axis.set_major_locator(ticker.LogLocator(base=2, numticks=10))
        if values and max(values) < 8 * min(values):
            axis.set_major_locator(ticker.MaxNLocator(5))
    axis.set_major_formatter(ticker.FuncFormatter(short))
    axis.set_minor_locator(ticker.NullLocator())


def draw_lines(axes, chart):
    for series, colour in zip(chart["series"], COLOURS * 9):
        xs, ys = zip(*series["points"]) if series["points"] else ((), ())
        axes.plot(xs, ys, "--" if series["dashed"] else "-", marker=None if series["dashed"] else "o", markersize=4, color=colour,
                  label=series["name"])
    scale(axes.xaxis, values_of(chart, 0), chart["log_x"])
    scale(axes.yaxis, values_of(chart, 1), chart["log_y"])
    if not chart["log_y"]:
        axes.set_ylim(bottom=min([0, *values_of(chart, 1)]))


def draw_bars(axes, chart):
    side, places = chart["side_by_side"], range(len(chart["bars"]))
    width = 0.7 / (len(chart["series"]) if side else 1)
    below = [0.0] * len(chart["bars"])
    for number, (series, colour) in enumerate(zip(chart["series"], COLOURS * 9)):
        heights = [y for _, y in series["points"]][:len(below)]
        at = [place - 0.35 + width * (number + 0.5) if side else place for place in places][:len(heights)]
        axes.bar(at, heights, width, bottom=None if side else below[:len(heights)], color=colour, label=series["name"])
        if not side:
            below = [low + high for low, high in zip(below, heights + [0.0] * len(below))]
    long = sum(map(len, chart["bars"])) > 70
    axes.set_xticks(list(places), chart["bars"], rotation=-30 if long else 0, ha="left" if long else "center",
                    rotation_mode="anchor")
    scale(axes.yaxis, [], False)


def draw_grid(axes, chart, series):
    """A share is a colour's strength and a number, light on strong colours."""
    wide, high = len(chart["columns"]), len(chart["rows"])
    shares = [min(max(y, 0.0), 1.0) for _, y in series["points"]]
    grid = [[shares[row * wide + column] if row * wide + column < len(shares) else math.nan for column in range(wide)]
            for row in range(high)]
    axes.imshow(grid, cmap="Blues", vmin=0, vmax=1.15, aspect="auto")
    for row in range(high):
        for column in range(wide):
            if not math.isnan(share := grid[row][column]):
                axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", color="white" if share > 0.6 else "black")
    axes.set_xticks(range(wide), chart["columns"])
    axes.set_yticks(range(high), chart["rows"])
    axes.set_title(series["name"], loc="left", fontsize=10)


def figure_of(pyplot, chart):
    if chart["rows"]:
        down = math.ceil(len(chart["series"]) / IN_A_ROW)
        across = min(IN_A_ROW, len(chart["series"]))
        size = (max(5.5, across * (0.9 + 0.55 * len(chart["columns"]))), 0.9 + down * (0.8 + 0.32 * len(chart["rows"])))
        figure, all_axes = pyplot.subplots(down, across, figsize=size, layout="constrained", squeeze=False)
        for axes in all_axes.flat[len(chart["series"]):]:
            axes.set_axis_off()
        for axes, series in zip(all_axes.flat, chart["series"]):
            draw_grid(axes, chart, series)
        figure.suptitle(chart["title"], x=0.01, ha="left", fontsize=11)
        figure.supxlabel(chart["x_label"], fontsize=10)
        figure.supylabel(chart["y_label"], fontsize=10)
        return figure
    figure, axes = pyplot.subplots(figsize=(8, 4.4), layout="constrained")
    (draw_bars if chart["bars"] else draw_lines)(axes, chart)
    axes.set_title(chart["title"], loc="left", fontsize=11)
    axes.set_xlabel(chart["x_label"])
    axes.set_ylabel(chart["y_label"])
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), fontsize=9)
    return figure


def svg(chart):
    """The same chart and version of matplotlib give the same text."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    with matplotlib.rc_context({"svg.hashsalt": "kvick", "svg.fonttype": "none", "font.family": "sans-serif", "text.parse_math": False,
                                "axes.spines.top": False, "axes.spines.right": False}):
        figure = figure_of(pyplot, chart)
        figure.set_facecolor("white")
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    return re.sub(r"[ \t]+$", "", out.getvalue(), flags=re.MULTILINE)


def file_of(path, result, chart):
    """Beside the result. Its name begins as the result's does: budget-2.json of the experiment budget has budget-2-kl.svg."""
    return path.with_name(path.stem + chart["name"].removeprefix(result["experiment"]) + ".svg")


def draw(path, result):
    """Draws the charts of a result read from `path` beside it. Returns their paths."""
    drawn = []
    for chart in result.get("charts", ()):
        drawn.append(file_of(path, result, chart))
        drawn[-1].write_text(svg(chart), encoding="utf-8")
    return drawn


def html_table(table):
    words = [any(re.search(r"[^0-9.,()+\-e% ]", row[column]) for row in table["rows"] if column < len(row))
             for column in range(len(table["columns"]))]

    def line(cells, tag):
        return "<tr>" + "".join(f'<{tag}{" class=text" if word else ""}>{html.escape(cell)}</{tag}>'
                                for cell, word in zip(cells, words)) + "</tr>\n"

    return (f'<div class="wide"><table><caption>{html.escape(table["title"])}</caption>\n{line(table["columns"], "th")}'
            + "".join(line(row, "td") for row in table["rows"]) + "</table></div>\n")


def section(path, result, drawn, heading):
    machine = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
    text = f'<h2 id="{html.escape(path.stem)}">{html.escape(heading)}</h2>\n<p>Machine: {html.escape(machine)}. Command: <code>{html.escape(result["command"])}</code></p>\n'
    text += "".join(f'<p><img src="{html.escape(one.name)}" alt="{html.escape(chart["title"])}"></p>\n'
                    for one, chart in zip(drawn, result.get("charts", ())))
    return text + "".join(map(html_table, result.get("tables", ())))


def draw_folder(folder, headings=None):
    """Draws all results of kvick lab in a folder, and writes index.html there: first the experiments that headings ({name: heading})
    names, in its order, then the others by name. Returns what was written."""
    headings = headings or {}
    order = {name: number for number, name in enumerate(headings)}
    written, sections, contents = [], [], []
    for path in sorted(pathlib.Path(folder).glob("*.json"), key=lambda path: (order.get(path.stem, len(order)), path.stem)):
        result = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(result, dict) and "experiment" in result and "cells" in result:
            drawn, heading = draw(path, result), headings.get(path.stem, path.stem)
            written += drawn
            sections.append(section(path, result, drawn, heading))
            contents.append(f'<li><a href="#{html.escape(path.stem)}">{html.escape(heading)}</a></li>\n')
    if not sections:
        raise ValueError(f"{folder} has no results of kvick lab: make some with kvick lab EXPERIMENT -o {folder}")
    page = pathlib.Path(folder) / "index.html"
    page.write_text(f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n<title>kvick lab</title>\n<style>{STYLE}</style>\n'
                    f"<h1>kvick lab</h1>\n<ul>\n{''.join(contents)}</ul>\n{''.join(sections)}</html>\n", encoding="utf-8")
    return [*written, page]
