#!/usr/bin/env python3
"""Every cache strategy in turn, one notebook cell each.

Open it as a notebook (VS Code, Spyder and Jupytext recognise the `# %%` marks), or run it, which takes half a minute:

    python3 examples/strategies.py [MODEL [BCT_MODEL]]

MODEL: a name or a file; default: smollm2. BCT_MODEL: a model for the strategy `bounded`, trained with memory slots
(docs/guides/training-models.md). Needs the package `kvick` and numpy.
"""

import sys
import tempfile

import kvick

MODEL = sys.argv[1] if len(sys.argv) > 1 else "smollm2"
BCT_MODEL = sys.argv[2] if len(sys.argv) > 2 else None
THREADS = None  # all processors
CONTEXT = 1024
STORY = ("The lighthouse keeper wrote down every ship that passed, its name, its flag and the hour. In winter few came, and he read his old "
         "books again. One night a boat without a light drifted to the rocks, and he rowed out to it through the snow. ")
TEXT = STORY * 6


def model(**cache):
    return kvick.Model(MODEL, context=CONTEXT, threads=THREADS, prompt_arithmetic="exact", **cache)


def show(*columns):
    print("  ".join(f"{column:>14}" if not isinstance(column, float) else f"{column:14.2f}" for column in columns))


def answer(model):
    return model.generate(STORY, temperature=0, max_tokens=32, ignore_end=True).tokens


def measure(model):
    """Decode speed at a depth of half the context, in tokens/s, and the cache's allocated, used and copied bytes, in MB."""
    row, = model.bench(prompt_tokens=0, new_tokens=16, depth=CONTEXT // 2, repeats=3)
    return row["tok_s"], row["kv_allocated_bytes"] / 1e6, row["kv_used_bytes"] / 1e6, row["kv_copied_bytes"] / 1e6


for strategy in kvick.strategies():
    print(f"{strategy['name']:10} {strategy['summary']}")

# %% virtual: one range of virtual addresses for the whole context; only the pages in use have memory. Growing copies nothing. A fork, which
# `bench` makes for each round, copies less than a page of each region.
show("cache", "tokens/s", "MB allocated", "MB used", "MB copied")
virtual = model(kv="virtual")
expected = answer(virtual)
show("virtual", *measure(virtual))

# %% upfront: allocates memory for the whole context at once, even for a short text.
upfront = model(kv="upfront")
assert answer(upfront) == expected  # the strategy is exact: where rows are stored does not change the answer
show("upfront", *measure(upfront))

# %% iterative: for every token, allocates a larger tensor and copies all rows to it, as straightforward implementations do.
iterative = model(kv="iterative")
assert answer(iterative) == expected
show("iterative", *measure(iterative))

# %% bmc: grows by r rows at a time. A larger r means fewer copies but up to r unused rows (BMC).
for r in 4, 64:
    bmc = model(kv=f"bmc:r={r}")
    assert answer(bmc) == expected
    show(f"bmc:r={r}", *measure(bmc))

# %% paged: blocks of rows. Prompts with a common prefix share its blocks (PagedAttention).
paged = model(kv="paged:block=16")
assert answer(paged) == expected
show("paged", *measure(paged))
questions = [TEXT + question for question in ("Who wrote?", "What drifted?", "When was it?")]
print("\npaged: tokens of each prompt, and how many of them were prefix cache hits")
for one in paged.batch(questions, max_tokens=8, temperature=0):
    show("", one.prompt_tokens, one.cached_tokens)

# %% sliding: a tensor of fixed size with the newest rows, as NPUs need it. A text may be longer than the context; the model then sees its end.
sliding = model(kv="sliding")
assert answer(sliding) == expected
print()
show("sliding", *measure(sliding))

# %% tiered: rows are kept in a slower tier, here files. A policy chooses which rows are read back for each token.
with tempfile.TemporaryDirectory() as folder:
    tiered = model(kv_tier=f"file:dir={folder}", kv_select="quest:budget=0.25")
    print("\ntiered:", repr(tiered.generate(TEXT, temperature=0, max_tokens=12).text))
    del tiered

# %% bounded: a fixed number of slots instead of rows, for models that were trained this way (BCT).
if BCT_MODEL:
    bounded = kvick.Model(BCT_MODEL, kv="bounded", threads=THREADS)
    print("\nbounded:", *(f"{row['kv_allocated_bytes'] / 1e6:.2f} MB at a depth of {row['depth']} tokens;"
                          for row in bounded.bench(prompt_tokens=0, new_tokens=8, depth=[64, 256], repeats=1)))
else:
    print("\nbounded: needs a model trained with memory slots; name one as the second argument")

# %% Row types: fewer bits per value, and how much the perplexity rises (with any strategy that keeps rows).
print()
show("rows", "perplexity", "MB")
for kv_type in "f16", "q8", "q4:rotate=on", "mixed:window=32,old=q4,rotate=on":
    found = model(kv="virtual", kv_type=kv_type).perplexity(TEXT, window=CONTEXT // 2)
    show(kv_type.split(":")[0], found["perplexity"], found["kv_bytes"] / 1e6)

# %% Policies: which rows are read, with any strategy that keeps rows. A policy written in Python gets keys and queries.
kvick.add_policy("largest", lambda rows: rows.queries.sum(axis=0) @ rows.keys.T)
print()
show("rows read", "perplexity", "KB a token")
for policy in None, "quest:budget=0.25", "sparq:budget=0.25", "streaming:budget=0.25", "largest:budget=0.25":
    found = model(kv="virtual", kv_select=policy).perplexity(TEXT, window=CONTEXT // 2)
    show((policy or "all").split(":")[0], found["perplexity"], found["kv_read_bytes_per_token"] / 1e3)
