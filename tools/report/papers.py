"""The tables of docs/papers: the claims of each paper and what kvick measured. The claims are in docs/papers/claims.json."""

import collections
import json
import pathlib

from pages import markdown_table

VERDICTS = {
    "reproduced": "the figure agrees within a tenth, or the claim holds as worded",
    "direction reproduced": "the same ranking or trend, with other factors",
    "refuted": "measured, and the claim does not hold here",
    "not testable here": "needs hardware, models or data that these machines do not have",
    "not yet measured": "kvick can measure it, but nobody has done so yet",
}
FIELDS = ("part", "claimed", "ours", "verdict", "command")


def load(folder):
    return json.loads((folder / "claims.json").read_text(encoding="utf-8"))


def faults(papers, results, experiments):
    """One message for each incomplete or wrong claim: a missing field, an unknown verdict or experiment, a missing file."""
    for paper, entry in papers.items():
        for claim in entry["claims"]:
            where = f"claims.json, {paper}, {claim.get('part')}"
            missing = [field for field in FIELDS if field not in claim]
            if missing:
                yield f"{where}: lacks {', '.join(missing)}"
                continue
            if claim["verdict"] not in VERDICTS:
                yield f"{where}: {claim['verdict']!r} is not a verdict; the verdicts are: {', '.join(VERDICTS)}"
            measured = claim["verdict"] in ("reproduced", "direction reproduced", "refuted")
            if measured != bool(claim.get("files")):
                yield f"{where}: a claim must name result files if it was measured, and only then"
            yield from (f"{where}: there is no {path}" for path in claim.get("files", []) if not (results / path).exists())
            words = claim["command"].split()
            if words[:2] == ["kvick", "lab"] and words[2] not in experiments:
                yield f"{where}: kvick lab has no {words[2]}"


def ours(claim):
    links = ", ".join(f"[{pathlib.PurePath(path).stem}](../results/{path})" for path in claim.get("files", []))
    return f"{claim['ours']} ({links})" if links else claim["ours"] or None


def paper_table(entry):
    rows = [[claim["part"], claim["claimed"], ours(claim), f"**{claim['verdict']}**",
             f"`{claim['command']}`" if claim["command"] else None, claim.get("time")] for claim in entry["claims"]]
    return markdown_table(["figure or table", "claimed", "here", "verdict", "command", "takes"], rows)


def verdict_table(papers):
    rows = []
    total = collections.Counter()
    for paper, entry in papers.items():
        counts = collections.Counter(claim["verdict"] for claim in entry["claims"])
        total += counts
        rows.append([f"[{entry['name']}]({paper}.md)", f"{len(entry['claims'])}", *(str(counts[verdict] or "–") for verdict in VERDICTS)])
    rows.append(["all", f"{sum(total.values())}", *(str(total[verdict] or "–") for verdict in VERDICTS)])
    return markdown_table(["paper", "claims", *VERDICTS], rows)


def counts(papers):
    verdicts = collections.Counter(claim["verdict"] for entry in papers.values() for claim in entry["claims"])
    hold = verdicts["reproduced"] + verdicts["direction reproduced"]
    left = verdicts["not yet measured"]
    return (f"Of {sum(verdicts.values())} claims of {len(papers)} papers {hold} hold here in size or direction, {verdicts['refuted']} do "
            f"not, {verdicts['not testable here']} cannot be tested on these machines"
            + (f", and {left} have not been measured yet." if left else "; none is left unmeasured."))


def words():
    return "\n".join(f"* **{verdict}**: {meaning}." for verdict, meaning in VERDICTS.items())
