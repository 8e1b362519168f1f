#!/usr/bin/env python3
"""Generates the tables and plots of docs/results and docs/papers from the JSON files there.

    python3 tools/report              updates the pages and plots that are out of date
    python3 tools/report --check      writes nothing; prints pages and plots that are out of date and results with a wrong or
                                      incomplete provenance, and exits with 1 if there are any
    python3 tools/report --tables     updates tables, but not plots
    python3 tools/report --draw FOLDER   draws the charts of the results of kvick lab in a folder, and a page of them: index.html
    python3 tools/report --keep MACHINE FILE...   copies JSON files of kvick lab to docs/results/MACHINE/DATE
    python3 tools/report --pdf FILE   writes docs/report.md as a PDF, with pandoc and weasyprint (Debian packages of these names)

Tables need only Python. Plots need matplotlib: `apt install python3-matplotlib` or `pip install matplotlib`. --check works without
it, because each plot contains a digest of the figures that it was drawn from.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import brief  # noqa: E402
import charts  # noqa: E402
import curves  # noqa: E402
import keeping  # noqa: E402
import machines  # noqa: E402
import pages  # noqa: E402
import papers  # noqa: E402
import policies  # noqa: E402
import plots  # noqa: E402
import results  # noqa: E402
import tables  # noqa: E402


def parts(docs):
    """{path of a page with generated parts: {name of a part: its text}}"""
    found, claims = results.Results(docs / "results"), papers.load(docs / "papers")
    by_question = {name: getattr(tables, name)(found) for name in ("speed", "strategies", "quality", "serving", "scale")}
    by_question |= {"policies": policies.table(found), "brief": brief.table(found)}
    in_report = {name: pages.moved(by_question[name], "results") for name in ("strategies", "quality", "policies", "serving", "scale")}
    in_report |= {"verdicts": pages.moved(papers.verdict_table(claims), "papers"), "counts": papers.counts(claims)}
    made = {docs / "results/README.md": by_question, docs / "report.md": in_report,
            docs / "results/engines.md": {"comparisons": tables.comparisons(found)},
            docs / "results/strategies.md": {"planner": tables.planner(found)},
            docs / "results/quality.md": {"budgets": policies.all_budgets(found)},
            docs / "results/servers.md": {"rates": curves.table(found)},
            docs / "results/machines.md": {"machines": machines.table(found)},
            docs / "papers/README.md": {"verdicts": papers.verdict_table(claims), "words": papers.words()}}
    return made | {docs / f"papers/{paper}.md": {"claims": papers.paper_table(entry)} for paper, entry in claims.items()}


def experiments(docs):
    """The names of the experiments of kvick lab, as docs/guides/comparing.md lists them."""
    cells = re.findall(r"^\| (`[^|]+`) \|", (docs / "guides/comparing.md").read_text(encoding="utf-8"), re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def faults(docs):
    found = results.Results(docs / "results")
    yield from found.faults()
    yield from papers.faults(papers.load(docs / "papers"), docs / "results", experiments(docs))


def stale_pages(docs):
    """(path, new text) of every page that is out of date."""
    for path, made in parts(docs).items():
        text = path.read_text(encoding="utf-8")
        missing = set(made) - set(pages.names(text))
        if missing:
            raise SystemExit(f"{path}: no place for {', '.join(sorted(missing))}: add a line <!-- made: NAME --> and a line <!-- end -->")
        if (wanted := pages.filled(text, made)) != text:
            yield path, wanted


def missing_charts(docs):
    """(path, chart) of every chart of a kept result that is not drawn yet."""
    for path in sorted(docs.glob("results/*/*/*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        for chart in result.get("charts", ()) if isinstance(result, dict) else ():
            if not (target := charts.file_of(path, result, chart)).exists():
                yield target, chart


def stale_plots(docs):
    found = results.Results(docs / "results")
    for name in plots.PLOTS:
        path = docs / f"results/plots/{name}.svg"
        if not path.exists() or plots.mark(name, found) not in path.read_text(encoding="utf-8"):
            yield path, name


def check(docs):
    said = [*faults(docs), *(f"{path} is not up to date" for path, _ in [*stale_pages(docs), *stale_plots(docs), *missing_charts(docs)])]
    for line in said:
        print(line)
    if said:
        print("run python3 tools/report to update the pages and plots")
    return 1 if said else 0


def write(docs, with_plots):
    for path, text in stale_pages(docs):
        path.write_text(text, encoding="utf-8")
        print(path)
    for path, name in stale_plots(docs) if with_plots else ():
        path.parent.mkdir(exist_ok=True)
        path.write_text(plots.svg(name, results.Results(docs / "results")), encoding="utf-8")
        print(path)
    for path, chart in list(missing_charts(docs)) if with_plots else ():
        path.write_text(charts.svg(chart), encoding="utf-8")
        print(path)
    said = list(faults(docs))
    print("\n".join(said), end="\n" if said else "")
    return 1 if said else 0


def keep(docs, machine, files):
    if machine not in (known := machines.load(docs / "results")):
        print(f"{machine} is not in docs/results/machines.json, which has {', '.join(known)}: describe it there first",
              file=sys.stderr)
        return 2
    try:
        for file in files:
            print(keeping.keep(machine, pathlib.Path(file), docs / "results"))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def draw(folder):
    try:
        print("\n".join(map(str, charts.draw_folder(folder))))
    except ImportError as error:
        print(f"{error}: apt install python3-matplotlib, or pip install matplotlib", file=sys.stderr)
        return 1
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{folder}: {error}" if isinstance(error, (KeyError, TypeError)) else error, file=sys.stderr)
        return 2
    return 0


def write_pdf(docs, target):
    if missing := [program for program in ("pandoc", "weasyprint") if not shutil.which(program)]:
        print(f"a PDF needs {' and '.join(missing)}: apt install {' '.join(missing)}", file=sys.stderr)
        return 1
    command = ["pandoc", "report.md", "--from", "gfm", "--to", "html5", "--standalone", "--pdf-engine", "weasyprint", "--css",
               str(pathlib.Path(__file__).resolve().parent / "report.css"), "--metadata", "pagetitle=kvick, a technical report",
               "--output", str(target.absolute())]
    return subprocess.run(command, cwd=docs).returncode


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--draw", metavar="FOLDER")
    parser.add_argument("--keep", nargs="+", metavar=("MACHINE", "FILE"))
    parser.add_argument("--pdf", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--docs", type=pathlib.Path, default=results.ROOT / "docs", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.draw:
        return draw(args.draw)
    if args.keep and len(args.keep) == 1:
        parser.error("--keep takes a machine and the files to copy")
    if args.keep:
        return keep(args.docs, args.keep[0], args.keep[1:])
    if args.pdf:
        return write_pdf(args.docs, args.pdf)
    return check(args.docs) if args.check else write(args.docs, not args.tables)


if __name__ == "__main__":
    sys.exit(main())
