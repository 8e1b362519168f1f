#!/usr/bin/env python3
"""Tests tools/report: it regenerates pages from results, and reports incomplete results and claims."""

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
DOCS = HERE.parents[1] / "docs"
sys.path.insert(0, str(HERE))

import brief  # noqa: E402
import curves  # noqa: E402
import pages  # noqa: E402
import papers  # noqa: E402
import plots  # noqa: E402
import results  # noqa: E402
import tables  # noqa: E402

PROVENANCE = {"machine": "xeon", "date": "2026-11-23", "commit": "not recorded", "command": "kvick bench", "spread": "one round"}


def report(docs, *options):
    done = subprocess.run([sys.executable, HERE / "__main__.py", "--docs", docs, *options], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


class Folder(unittest.TestCase):
    """A temporary folder of results, which a test fills."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, path, **data):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data))
        return results.Results(self.folder)

    def faults(self, path, **provenance):
        return list(self.write(path, provenance=provenance).faults())


class Curves(Folder):
    def runs(self, server, *points):
        return [{"server": server, "rate": at, "s_per_token": seconds, "unanswered": left, "ttft_s_p50": 0.5, "output_tok_s": 100 * at}
                for at, seconds, left in points]

    def test_the_rate_at_a_latency_is_between_the_measured_ones(self):
        self.assertEqual(curves.rate_at([(1, 0.1, True), (2, 0.4, True)], 0.2), (1.5, True))
        self.assertEqual(curves.rate_at([(1, 0.1, True), (2, 0.15, True)], 0.2), (2, False))
        self.assertEqual(curves.rate_at([(1, 0.3, True), (2, 0.4, True)], 0.2), (1, True))

    def test_a_line_is_the_median_of_rounds_and_knows_who_was_left_without_an_answer(self):
        runs = self.runs("a", (1, 0.1, 0), (1, 0.3, 0), (1, 0.2, 0), (2, 0.5, 3))
        self.assertEqual(curves.line(runs), [(1, 0.2, True), (2, 0.5, False)])
        self.assertEqual(curves.line([{**runs[0], "s_per_token": None}]), [])

    def test_the_table_has_a_row_for_each_server(self):
        found = self.write("xeon/2026-11-23/a.json", runs=self.runs("a", (1, 0.05, 0), (2, 0.2, 1)) + self.runs("b", (1, 0.05, 0)))
        self.enterContext(unittest.mock.patch.object(curves, "CURVES", (("xeon/2026-11-23/a.json", "short ones"),)))
        first, second = curves.table(found).splitlines()[2:]
        self.assertTrue(first.startswith("| short ones | a | [1.5]"), first)
        self.assertIn("[50 ms at 1/s]", first)
        self.assertIn("[more than 1]", second)


class Provenance(Folder):
    def test_a_result_that_says_where_it_is_from_has_no_fault(self):
        self.assertEqual(self.faults("xeon/2026-11-23/a.json", **PROVENANCE), [])

    def test_a_result_without_a_command_is_named(self):
        faults = self.faults("xeon/2026-11-23/a.json", **{**PROVENANCE, "command": ""})
        self.assertEqual(len(faults), 1)
        self.assertRegex(faults[0], "^xeon/2026-11-23/a.json: its provenance lacks command")

    def test_a_result_of_another_machine_or_day_than_its_folder_says_is_named(self):
        for path in ("epyc/2026-11-23/a.json", "xeon/2026-11-24/a.json"):
            with self.subTest(path):
                self.assertIn("its folder differs", " ".join(self.faults(path, **PROVENANCE)))

    def test_an_unknown_machine_lies_in_the_folder_not_recorded(self):
        self.assertEqual(self.faults("not-recorded/2026-11-23/a.json", **{**PROVENANCE, "machine": "not recorded"}), [])


class Figures(Folder):
    def test_a_rate_is_the_median_of_each_rounds_best_configuration(self):
        rows = [{"file": "f", "case": "decode", "peer": peer, "round": number, "configuration": name, "tok_s": rate}
                for peer, number, name, rate in (("kvick", 0, "", 200), ("kvick", 1, "", 300), ("llama.cpp", 0, "on", 100),
                                                 ("llama.cpp", 0, "off", 50), ("llama.cpp", 1, "on", 100))]
        found = self.write("xeon/2026-11-23/a.json", measurements=rows)
        self.assertEqual(found.rates("xeon/2026-11-23/a.json", "f", "decode", "kvick").value, "250")
        self.assertEqual(found.ratio("xeon/2026-11-23/a.json", "f", "decode", "llama.cpp").value, 2.5)
        self.assertIsNone(found.rates("xeon/2026-11-23/a.json", "f", "decode", "other"))

    def test_a_row_of_a_table_is_found_below_the_cell_that_it_repeats(self):
        found = self.write("xeon/2026-11-23/a.json", tables=[{"rows": [["S", "decode", "1"], ["", "prompt", "**2**"], ["M", "prompt", "3"]]}])
        self.assertEqual(found.table_cell("xeon/2026-11-23/a.json", 0, ("S", "prompt"), 2).value, "2")
        with self.assertRaisesRegex(KeyError, "no row"):
            found.table_cell("xeon/2026-11-23/a.json", 0, ("L", "prompt"), 2)

    def test_an_entry_that_two_fit_is_an_error(self):
        found = self.write("xeon/2026-11-23/a.json", summary={"ways": [{"s": 1, "t": 1}, {"s": 1, "t": 2}]})
        self.assertEqual(found.case("xeon/2026-11-23/a.json", "ways", t=2), {"s": 1, "t": 2})
        with self.assertRaisesRegex(KeyError, "2 entries"):
            found.case("xeon/2026-11-23/a.json", "ways", s=1)

    def test_numbers_are_read_with_commas_and_signs(self):
        self.assertEqual([results.number(text) for text in ("27.3 (25 to 30)", "1,009", "-0.14 %", "**2.4**")], [27.3, 1009, -0.14, 2.4])
        with self.assertRaisesRegex(ValueError, "no number"):
            results.number("none")


class Pages(unittest.TestCase):
    def test_only_what_lies_between_the_marks_is_replaced(self):
        page = "# Head\n\n<!-- made: a -->\nold\n<!-- end -->\n\ntext\n\n<!-- made: b-c -->\n<!-- end -->\n"
        made = pages.filled(page, {"a": "A | B", "b-c": "new"})
        self.assertEqual(made, "# Head\n\n<!-- made: a -->\n\nA | B\n\n<!-- end -->\n\ntext\n\n<!-- made: b-c -->\n\nnew\n\n<!-- end -->\n")
        self.assertEqual(pages.filled(made, {"a": "A | B", "b-c": "new"}), made)

    def test_a_part_that_nothing_makes_is_an_error(self):
        with self.assertRaisesRegex(KeyError, "nothing makes a"):
            pages.filled("<!-- made: a -->\n<!-- end -->\n", {})

    def test_links_of_a_table_are_moved_with_it_but_for_those_to_elsewhere(self):
        text = pages.moved("[1](xeon/a.json) [2](https://a.b/c) [3](#here) [4](x.md#y)", "results")
        self.assertEqual(text, "[1](results/xeon/a.json) [2](https://a.b/c) [3](#here) [4](results/x.md#y)")

    def test_a_cell_links_to_its_file_and_what_is_missing_is_a_dash(self):
        table = pages.markdown_table(["a", "b"], [["text", results.Cell(2.514, "xeon/d/f.json", "{:.2f}")], ["more", None]])
        self.assertEqual(table, "| a | b |\n|---|---|\n| text | [2.51](xeon/d/f.json) |\n| more | – |")


class Claims(unittest.TestCase):
    GOOD = {"part": "Fig. 1", "claimed": "twice", "ours": "thrice", "verdict": "direction reproduced",
            "command": "kvick lab budget -o DIR", "files": ["README.md"]}

    def faults(self, **changes):
        claim = {key: value for key, value in {**self.GOOD, **changes}.items() if value is not None}
        return " ".join(papers.faults({"p": {"name": "P", "claims": [claim]}}, DOCS / "results", {"budget"}))

    def test_a_whole_claim_has_no_fault(self):
        self.assertEqual(self.faults(), "")
        self.assertEqual(self.faults(verdict="not testable here", files=None, command=""), "")

    def test_what_a_claim_lacks_is_named(self):
        self.assertIn("lacks ours", self.faults(ours=None))
        self.assertIn("'maybe' is not a verdict", self.faults(verdict="maybe"))
        self.assertIn("must name result files", self.faults(files=None))
        self.assertIn("must name result files", self.faults(verdict="not yet measured"))
        self.assertIn("there is no xeon/none.json", self.faults(files=["xeon/none.json"]))
        self.assertIn("kvick lab has no bugdet", self.faults(command="kvick lab bugdet -o DIR"))

    def test_verdicts_are_counted_by_paper_and_in_all(self):
        entry = {"name": "P", "claims": [self.GOOD, self.GOOD, {**self.GOOD, "verdict": "refuted"}]}
        table = papers.verdict_table({"p": entry, "q": {**entry, "name": "Q"}})
        self.assertIn("| [P](p.md) | 3 | – | 2 | 1 | – | – |", table)
        self.assertIn("| all | 6 | – | 4 | 2 | – | – |", table)
        self.assertIn("Of 6 claims of 2 papers 4 hold here in size or direction, 2 do not, 0 cannot", papers.counts({"p": entry, "q": entry}))


class Copy(unittest.TestCase):
    """A copy of docs/, which a test changes."""

    def setUp(self):
        self.docs = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "docs"
        shutil.copytree(DOCS, self.docs)


class Check(Copy):

    def change(self, path, old, new):
        text = (self.docs / path).read_text(encoding="utf-8")
        self.assertIn(old, text)
        (self.docs / path).write_text(text.replace(old, new), encoding="utf-8")

    def test_a_figure_that_is_changed_by_hand_is_found_and_made_again(self):
        before = (self.docs / "results/README.md").read_text(encoding="utf-8")
        self.change("results/README.md", "[4,352]", "[5,352]")
        rc, said = report(self.docs, "--check")
        self.assertEqual(rc, 1)
        self.assertRegex(said, r"results/README\.md is not up to date")
        self.assertEqual(report(self.docs, "--tables")[0], 0)
        self.assertEqual((self.docs / "results/README.md").read_text(encoding="utf-8"), before)

    def test_a_changed_result_makes_its_table_and_its_plot_old(self):
        path = self.docs / "results/xeon/2026-11-22/budget.json"
        data = json.loads(path.read_text(encoding="utf-8"))
        for case in data["summary"]["cases"]:
            case["over_full_percent"] += 1
        path.write_text(json.dumps(data), encoding="utf-8")
        rc, said = report(self.docs, "--check")
        self.assertEqual(rc, 1)
        self.assertIn("results/README.md is not up to date", said)
        self.assertIn("results/plots/quality.svg is not up to date", said)
        self.assertNotIn("depth.svg", said)

    def test_the_documents_as_they_are_need_nothing(self):
        self.assertEqual(report(self.docs, "--check"), (0, ""))


class Keeping(Copy):
    """tools/report --keep, which copies results of kvick lab."""

    def lab_file(self, **data):
        path = self.docs.parent / "waste.json"
        path.write_text(json.dumps(data))
        os.utime(path, (1795867200, 1795867200))  # 2026-11-28
        return path

    def test_a_file_of_the_lab_is_kept_with_its_provenance(self):
        path = self.lab_file(experiment="waste", command="kvick lab waste -o DIR", cells=[{"runs": [1, 2], "what": {"model": "/home/a/b.gguf", "kv": "paged"}}, {"runs": [1]}])
        rc, said = report(self.docs, "--keep", "xeon", path)
        self.assertEqual(rc, 0, said)
        place = pathlib.Path(said.strip())
        kept = json.loads(place.read_text())
        provenance = kept["provenance"]
        self.assertEqual(kept["cells"][0]["what"], {"model": "b.gguf", "kv": "paged"})
        self.assertEqual(list(results.Results(self.docs / "results").faults()), [])
        self.assertEqual((provenance["date"], provenance["command"]), (place.parent.name, "kvick lab waste -o DIR"))
        self.assertIn("1 to 2 rounds", provenance["spread"])

    def test_what_is_not_of_the_lab_or_of_no_known_machine_is_refused(self):
        path = self.lab_file(cells=[])
        self.assertEqual(report(self.docs, "--keep", "xeon", path)[0], 2)
        rc, said = report(self.docs, "--keep", "xeon")
        self.assertEqual(rc, 2)
        self.assertIn("--keep takes a machine and the files to copy", said)
        for text in ("no JSON", "[1]"):
            path.write_text(text, encoding="utf-8")
            rc, said = report(self.docs, "--keep", "xeon", path)
            self.assertEqual(rc, 2)
            self.assertIn(f"{path} is not a result of kvick lab", said)
        rc, said = report(self.docs, "--keep", "toaster", path)
        self.assertEqual(rc, 2)
        self.assertIn("toaster is not in docs/results/machines.json", said)


def needs_matplotlib(test):
    return unittest.skipUnless(importlib.util.find_spec("matplotlib"), "matplotlib is not installed")(test)


def chart(name, **own):
    return {"name": name, "title": "a < b & $c$", "x_label": "rows", "y_label": "ms", "log_x": False, "log_y": False, "bars": [],
            "side_by_side": False, "columns": [], "rows": [], "series": []} | own


LINES = [{"name": "measured", "points": [[1024, 2], [4096, 3], [32768, 1]], "dashed": False},
         {"name": "model", "points": [[1024, 1], [32768, 2]], "dashed": True}]
BARS = [{"name": "copies", "points": [[1, 2], [2, 3]], "dashed": False}, {"name": "products", "points": [[1, 5], [2, 1]], "dashed": False}]
GRIDS = [{"name": policy, "points": [[0, 0.25], [0, 1.0], [0, 0.5], [0, 0.0]], "dashed": False} for policy in ("full", "quest")]


class Drawing(Folder):
    """tools/report --draw, which draws what kvick lab measured."""

    def lab(self, name, experiment, *charts_of):
        self.write(name, experiment=experiment, cells=[], machine={"cpu": "one"}, command=f"kvick lab {experiment} -o out",
                   tables=[{"title": "Title", "columns": ["name", "n"], "rows": [["a<b", "1.5"], ["c", "-2 (1)"]]}], charts=list(charts_of))

    @needs_matplotlib
    def test_each_chart_is_drawn_and_a_page_shows_all(self):
        self.lab("depth.json", "depth", chart("depth-a", series=LINES, log_x=True, log_y=True), chart("depth-b", series=LINES))
        self.lab("needle-2.json", "needle", chart("needle", series=GRIDS, columns=["1", "2"], rows=["0", "50"]))
        self.lab("waste.json", "waste", chart("waste", series=BARS, bars=["one", "two"]),
                 chart("waste-side", series=BARS, bars=["long " * 9, "two"], side_by_side=True))
        (self.folder / "other.json").write_text("[]")
        rc, said = report(DOCS, "--draw", self.folder)
        self.assertEqual(rc, 0, said)
        names = {"depth-a.svg", "depth-b.svg", "needle-2.svg", "waste.svg", "waste-side.svg"}
        self.assertEqual({path.name for path in self.folder.glob("*.svg")}, names)
        text = {name: (self.folder / name).read_text() for name in names}
        self.assertIn("a &lt; b &amp; $c$", text["depth-a.svg"])
        self.assertIn(">32.8k<", text["depth-a.svg"])
        self.assertIn(">products<", text["waste.svg"])
        self.assertIn(">100<", text["needle-2.svg"])
        page = (self.folder / "index.html").read_text()
        for name in names:
            self.assertIn(f'src="{name}"', page)
        self.assertIn("<td class=text>a&lt;b</td><td>1.5</td>", page)
        self.assertNotIn("http", page)
        self.assertEqual(report(DOCS, "--draw", self.folder)[0], 0)
        self.assertEqual(text, {name: (self.folder / name).read_text() for name in names})

    def test_a_folder_without_results_is_refused(self):
        rc, said = report(DOCS, "--draw", self.folder)
        self.assertEqual(rc, 2)
        self.assertIn("has no results of kvick lab", said)

    def test_a_kept_result_wants_its_charts(self):
        docs = self.folder / "docs"
        shutil.copytree(DOCS, docs)
        path = docs / "results/xeon/2026-11-22/budget.json"
        data = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps(data | {"charts": [chart("budget-new", series=LINES)]}), encoding="utf-8")
        rc, said = report(docs, "--check")
        self.assertEqual((rc, said.splitlines()[0]), (1, f"{path.with_name('budget-new.svg')} is not up to date"))


class Brief(unittest.TestCase):
    """The short answers at the top of docs/results/README.md."""

    def setUp(self):
        self.found = results.Results(DOCS / "results")

    def test_factors_are_from_the_least_to_the_most_of_the_speed_table(self):
        ratios = [row[6].value for row in tables.speed_rows(self.found) if row[2].startswith("prompt")]
        self.assertIn(f"prompts are read {min(ratios):.1f} to {max(ratios):.1f} times as fast", brief.speed(self.found))

    def test_types_of_four_bits_are_compared_with_f16_of_the_same_file(self):
        entry = {type_["type"]: type_ for type_ in self.found.load(brief.TYPES)["types"]}
        rise = 100 * (entry["q4"]["perplexity"] / entry["f16"]["perplexity"] - 1)
        self.assertIn(f"`q4` 28 % and [{rise:+.1f} %]({brief.TYPES})", brief.rows_of_four_bits(self.found))

    def test_policies_are_those_of_the_table_the_best_first(self):
        said = brief.rows(self.found, 25.0)
        names = re.findall(r"`(\w+)`", said)
        self.assertEqual(sorted(names), sorted(name for name, *_ in tables.policy_points(self.found, 25.0)))
        kept, dropped = said.split("dropped")
        for part in (kept, dropped):
            rises = [float(rise) for rise in re.findall(r"\[([+-][\d.]+) %\]", part)]
            self.assertGreater(len(rises), 3)
            self.assertEqual(rises, sorted(rises))
        self.assertIn("`h2o`", dropped)
        self.assertNotIn("`h2o`", kept)

    def test_iterative_does_not_count_among_the_strategies_of_one_speed(self):
        said = brief.caches(self.found)
        self.assertRegex(said, r"at the same speed \(within \[[0-5] %\]")
        self.assertRegex(said, r"`iterative`.* takes \[[1-9]\.\d times\]")


class Plots(unittest.TestCase):
    @needs_matplotlib
    def test_a_plot_has_the_mark_of_its_figures(self):
        with contextlib.redirect_stdout(io.StringIO()):
            text = plots.svg("depth", results.Results(DOCS / "results"))
        self.assertTrue(text.startswith("<?xml"))
        self.assertTrue(text.rstrip().endswith(plots.mark("depth", results.Results(DOCS / "results"))))
        self.assertTrue(re.search(r"llama\.cpp, q8", text))

    def test_every_point_of_the_speed_plot_is_a_row_of_the_table(self):
        found = results.Results(DOCS / "results")
        self.assertEqual(len(plots.speed_points(found)), len(tables.speed(found).splitlines()) - 2)


if __name__ == "__main__":
    unittest.main(verbosity=1)
