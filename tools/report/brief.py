"""The short answers at the top of docs/results/README.md, computed from the same results as the tables below them."""

import policies
import tables
from pages import markdown_table
from results import Cell, number

TYPES = "epyc-zen5/2026-11-28/smollm2-types.json"  # kvick train kvtypes
WEIGHTS = "epyc-zen4/2026-11-25/quantize.json"
FOUR_BITS = ("q4", "q4:rotate=on", "mixed:window=32,old=q4,rotate=on", "kivi4:window=32")


def span(values):
    return f"{min(values):.1f} to {max(values):.1f}"


def listed(names):
    return ", ".join(names[:-1]) + f" and {names[-1]}"


def speed(results):
    """How many times as fast as each of two engines, from the least to the most of the rows of the speed table."""
    rows = list(tables.speed_rows(results))
    kinds = (("one sequence is decoded", lambda work: work == "decode"), ("prompts are read", lambda work: work.startswith("prompt")),
             ("8 or 16 sequences together are decoded", lambda work: "sequences" in work))

    def times(column, kind):
        return span([row[column].value for row in rows if kind(row[2]) and row[column]])

    llama = listed([f"{what} {times(6, kind)} times as fast" for what, kind in kinds])
    ik = listed([f"{times(7, kind)}" for _, kind in kinds])
    return f"{llama[0].upper()}{llama[1:]}. Beside ik_llama.cpp the factors are {ik}"


def caches(results):
    wasted = results.load(tables.WASTE)["summary"]
    ways = [way for way in results.load(tables.ALLOCATORS)["summary"]["ways"] if way["attention"] == "fused"]
    rates = {way["strategy"].split(":")[0]: way["tok_s"] for way in ways}
    slow = rates.pop("iterative")
    memory = listed([Cell(100 * wasted[key], tables.WASTE, f"`{name}` {{:.1f}} %").markdown("")
                     for name, key in (("virtual", "virtual"), ("paged", "paged:block=32"), ("bmc", "bmc:r=64"), ("upfront", "upfront"))])
    near = Cell(100 * (max(rates.values()) / min(rates.values()) - 1), tables.ALLOCATORS, "{:.0f} %").markdown("")
    times = Cell(max(rates.values()) / slow, tables.ALLOCATORS, "{:.1f} times").markdown("")
    return (f"Memory that is allocated but not used: {memory}. With kvick's kernels all four decode at the same speed (within {near}); "
            f"`iterative`, which copies for every token, takes {times} as long")


def rows_of_four_bits(results):
    measured = {entry["type"]: entry for entry in results.load(TYPES)["types"]}
    full = measured["f16"]

    def costs(name):
        size = 100 * measured[name]["bytes_per_token"] / full["bytes_per_token"]
        rise = Cell(100 * (measured[name]["perplexity"] / full["perplexity"] - 1), TYPES, "{:+.1f} %").markdown("")
        return f"`{name}` {size:.0f} % and {rise}"

    return f"Bytes, as a share of those with 16 bits, and change of perplexity: {'; '.join(costs(name) for name in FOUR_BITS)}"


def weights(results):
    def rise(column):
        cell = results.table_cell(WEIGHTS, 0, ("Q4_K_M",), column)
        return Cell(100 * (number(cell.value) - 1), WEIGHTS, "{:+.1f} %").markdown("")

    return (f"Perplexity of a model of 135 million weights in `Q4_K_M`: {rise(5)}, or {rise(7)} if it was measured before which columns count "
            f"most")


def rows(results, budget):
    def group(forget):
        found = [(change, name, path) for name, path, _, change, _ in tables.policy_points(results, budget)
                 if (name in policies.FORGET) == forget]
        return ", ".join(f"`{name}` {Cell(change, path, '{:+.1f} %').markdown('')}" for change, name, path in sorted(found))

    return (f"Change of perplexity in windows of 2,048 tokens, by policy. If all are kept and {budget:g} % are read: {group(False)}. If the "
            f"others are dropped: {group(True)}")


def table(results):
    return markdown_table(["question", "answer", "more"], [
        ["How fast is kvick beside llama.cpp?", speed(results), "[by model and machine](#speed-beside-peers)"],
        ["What does each way of keeping the cache cost?", caches(results), "[strategies](#strategies-memory-speed-exactness)"],
        ["What is lost if the cache keeps keys and values in 4 bits instead of 16?", rows_of_four_bits(results), "[quality](#quality-against-bytes), [types](kv-types.md)"],
        ["What is lost if a model's weights have 4 bits?", weights(results), "[quantised files](quantize.md)"],
        ["What is lost if attention reads a quarter of the earlier tokens' keys and values?", rows(results, 25.0), "[quality](#quality-against-bytes)"]])
