"""The tables and the plot of the policies that choose or forget rows: quality and speed for the same number of rows."""

from pages import markdown_table
from results import Cell

FOLDER, LATER = "epyc-zen4/2026-11-30/", "epyc-zen4/2026-12-01/"
QUALITY = (FOLDER + "policies-clusters-8192.json", FOLDER + "policies-quest-8192.json", FOLDER + "policies-maple-8192.json", FOLDER + "policies-8192.json", FOLDER + "policies-duo-8192.json",
           FOLDER + "policies-8192-sixteenth.json",
           "epyc-zen5/2026-11-28/budget-clusters-8192.json")  # kvick lab budget
FACTS = (FOLDER + "policies-quest-needle.json", FOLDER + "policies-needle.json", "epyc-zen5/2026-11-28/needle-kvzap.json", "xeon/2026-11-22/needle.json")  # kvick lab needle
SPEED = (FOLDER + "policies-32k-takes.json", LATER + "policies-32k-half-sixteenth.json", FOLDER + "policies-32k-quest.json", FOLDER + "policies-32k-forget.json", FOLDER + "policies-32k-choosing.json", FOLDER + "policies-32k.json")  # kvick lab depth
SPEED_FAR = (LATER + "policies-128k.json",)  # behind 131,072 tokens
BUDGETS = (25.0, 12.5)
SMALL_BUDGETS = (25.0, 12.5, 6.25)
ALL_BUDGETS = (50.0, *SMALL_BUDGETS)
# Policies that forget rows, which frees their memory. The others keep all rows and choose those that a token reads.
FORGET = ("kvzap", "h2o", "snapkv", "snapkv heads=ada", "expected", "expected heads=ada", "duo", "scissorhands", "streaming")
POLICIES = ("maple", "clusters", "sparq", "loki", "quest", "quest dense_layers=0", "quest dense_layers=0 page=8", *FORGET)


# Nearly quest's points: the labels would cover each other.
NOT_DRAWN = ("quest dense_layers=0",)


def name_of(policy):
    """A policy's name without the file of its predictor: "maple file=r16" is "maple"."""
    return " ".join(word for word in policy.split() if not word.startswith("file="))


def entries(results, paths, key):
    """{(policy, budget in percent): (entry, its file)} of several results, the first of equals. Policies' names in needle's and depth's
    results end with the budget."""
    found = {}
    for path in paths:
        for entry in results.load(path)["summary"][key]:
            policy, budget = entry["policy"], entry.get("budget_percent")
            if budget is None and policy.endswith(" %"):
                policy, budget = policy[:-2].rsplit(" ", 1)
            found.setdefault((name_of(policy), None if budget is None else float(budget)), (entry, path))
    return found


def cell(found, policy, budget, field, form):
    if (policy, budget) not in found:
        return None
    entry, path = found[policy, budget]
    return Cell(entry[field], path, form)


def measured(results):
    """What entries() returns for quality, facts and speed."""
    return entries(results, QUALITY, "cases"), entries(results, FACTS, "policies"), entries(results, SPEED, "cases")


def table(results):
    quality, facts, speed = measured(results)
    rows = []
    for policy in POLICIES:
        name, *options = policy.split()
        row = ["`" + ":".join([name, *([",".join(options)] if options else [])]) + "`", "forgets" if policy in FORGET else "chooses",
               cell(quality, policy, 25.0, "read_of_full_percent", "{:.0f} %")]
        for found, field, form in ((quality, "over_full_percent", "{:+.1f} %"), (facts, "found_percent", "{:.0f} %"),
                                   (speed, "attention_times", "{:.1f}")):
            row += [cell(found, policy, budget, field, form) for budget in BUDGETS]
        rows.append(row)
    head = ["policy", "rows", "bytes read at 25 %", "perplexity at 25 %", "at 12.5 %", "facts found at 25 %", "at 12.5 %",
            "speed of attention at 25 %", "at 12.5 %"]
    return markdown_table(head, rows)


def all_budgets(results):
    """The table of quality and speed at all budgets that were measured."""
    quality, _, speed = measured(results)
    far = entries(results, SPEED_FAR, "cases")
    columns = [*((quality, "over_full_percent", "{:+.1f} %", budget) for budget in SMALL_BUDGETS),
               *((speed, "attention_times", "{:.1f}", budget) for budget in ALL_BUDGETS),
               *((far, "attention_times", "{:.1f}", budget) for budget in BUDGETS)]
    rows = []
    for policy in POLICIES:
        cells = [cell(found, policy, budget, field, form) for found, field, form, budget in columns]
        name, *options = policy.split()
        if all(cells[:len(SMALL_BUDGETS)]):
            rows.append(["`" + ":".join([name, *([",".join(options)] if options else [])]) + "`", *cells])
    head = ["policy", *(f"perplexity at {budget:g} %" for budget in SMALL_BUDGETS), *(f"speed at {budget:g} %" for budget in ALL_BUDGETS),
            *(f"behind 131,072 tokens at {budget:g} %" for budget in BUDGETS)]
    return markdown_table(head, rows)


def points(results):
    """(policy, [(attention's speed over that of all rows behind 32,768 tokens, rise of perplexity in percent, budget in percent)])"""
    quality, _, speed = measured(results)
    lines = []
    for policy in POLICIES:
        if policy in NOT_DRAWN:
            continue
        line = [(speed[policy, budget][0]["attention_times"], quality[policy, budget][0]["over_full_percent"], budget)
                for budget in BUDGETS if (policy, budget) in quality and (policy, budget) in speed]
        if line:
            lines.append((policy, line))
    return lines


# Where a label stands, in points from its mark, if it would cover another one's: (6, -3) for the others.
PLACES = {"h2o": (2, -12), "snapkv": (-58, 3), "streaming": (-68, 3), "expected": (6, -1), "duo": (6, -7)}
LEAST = 0.1  # rises below this share, in percent, are drawn here: the axis is logarithmic


def draw(axes, lines):
    for at, (policy, line) in enumerate(lines):
        forgets = policy in FORGET
        axes.plot([x for x, *_ in line], [max(y, LEAST) for _, y, _ in line], "--" if forgets else "-", marker="^" if forgets else "o",
                  color=f"C{at % 10}", markersize=5, linewidth=1.2, label=policy)
        for x, y, budget in line[-1:]:
            axes.annotate(f"{policy.replace(' heads=', ', ')} {budget:g} %", (x, max(y, LEAST)), xytext=PLACES.get(policy, (6, -3)),
                          textcoords="offset points", fontsize=7)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([0.5, 1, 2, 4, 8, 16], ["0.5", "1", "2", "4", "8", "16"])
    axes.set_yticks([LEAST, 1, 10], [f"{LEAST:g} or less", "1", "10"])
    axes.minorticks_off()
    axes.set_ylim(0.8 * LEAST, 40)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("speed of attention behind 32,768 tokens, all rows = 1")
    axes.set_ylabel("perplexity above that with all rows, %")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=7, ncols=2)
