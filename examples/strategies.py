#!/usr/bin/env python3
"""Every way to keep the KV cache, one cell each. Open it as a notebook (VS Code, Spyder and Jupytext read the marks `# %%`), or run it:

    python3 examples/strategies.py [MODEL [BCT_MODEL]]      # a name or a file; by default smollm2. Half a minute

BCT_MODEL: for `bounded`, a model that was trained with a memory of slots (docs/guides/training-models.md). Needs the package
`kvick` and numpy.
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
    """Tokens a second behind half of the context, and what the cache took, in MB."""
    row, = model.bench(prompt_tokens=0, new_tokens=16, depth=CONTEXT // 2, repeats=3)
    return row["tok_s"], row["kv_allocated_bytes"] / 1e6, row["kv_used_bytes"] / 1e6, row["kv_copied_bytes"] / 1e6


for strategy in kvick.strategies():
    print(f"{strategy['name']:10} {strategy['summary']}")

# %% virtual: one range of addresses for the whole context, of which only what is used has memory. Growing copies nothing; a fork, which
# `bench` makes for each round, copies less than a page of each region.
show("cache", "tokens/s", "MB allocated", "MB used", "MB copied")
virtual = model(kv="virtual")
expected = answer(virtual)
show("virtual", *measure(virtual))

# %% upfront: memory for the whole context at once, however short the text is.
upfront = model(kv="upfront")
assert answer(upfront) == expected  # exact: where rows lie changes no bit of an answer
show("upfront", *measure(upfront))

# %% iterative: a new, larger tensor and a copy of everything for every token, as straightforward implementations have it.
iterative = model(kv="iterative")
assert answer(iterative) == expected
show("iterative", *measure(iterative))

# %% bmc: grows by r rows at a time. Few copies, and at most r rows too many: r chooses between the two (BMC).
for r in 4, 64:
    bmc = model(kv=f"bmc:r={r}")
    assert answer(bmc) == expected
    show(f"bmc:r={r}", *measure(bmc))

# %% paged: blocks of rows, which prompts that begin alike share (PagedAttention).
paged = model(kv="paged:block=16")
assert answer(paged) == expected
show("paged", *measure(paged))
questions = [TEXT + question for question in ("Who wrote?", "What drifted?", "When was it?")]
print("\npaged: tokens of each prompt, and how many of them another one had computed already")
for one in paged.batch(questions, max_tokens=8, temperature=0):
    show("", one.prompt_tokens, one.cached_tokens)

# %% sliding: a static tensor of the newest rows, as NPUs need it. A text may be longer than the context, of which the model then sees the end.
sliding = model(kv="sliding")
assert answer(sliding) == expected
print()
show("sliding", *measure(sliding))

# %% tiered: rows in a slower tier, here files; a policy says which ones come back for a token.
with tempfile.TemporaryDirectory() as folder:
    tiered = model(kv_tier=f"file:dir={folder}", kv_select="quest:budget=0.25")
    print("\ntiered:", repr(tiered.generate(TEXT, temperature=0, max_tokens=12).text))
    del tiered

# %% bounded: a fixed number of slots in place of rows, for models that were trained so (BCT).
if BCT_MODEL:
    bounded = kvick.Model(BCT_MODEL, kv="bounded", threads=THREADS)
    print("\nbounded:", *(f"{row['kv_allocated_bytes'] / 1e6:.2f} MB behind {row['depth']} tokens;"
                          for row in bounded.bench(prompt_tokens=0, new_tokens=8, depth=[64, 256], repeats=1)))
else:
    print("\nbounded: needs a model that was trained with a memory of slots; name one as the second argument")

# %% Types of rows: fewer bits for a row, and how much worse the text is foretold (any strategy that keeps rows).
print()
show("rows", "perplexity", "MB")
for kv_type in "f16", "q8", "q4:rotate=on", "mixed:window=32,old=q4,rotate=on":
    found = model(kv="virtual", kv_type=kv_type).perplexity(TEXT, window=CONTEXT // 2)
    show(kv_type.split(":")[0], found["perplexity"], found["kv_bytes"] / 1e6)

# %% Policies: which rows are read. They go with any strategy that keeps rows; one in Python sees keys and queries.
kvick.add_policy("largest", lambda rows: rows.queries.sum(axis=0) @ rows.keys.T)
print()
show("rows read", "perplexity", "KB a token")
for policy in None, "quest:budget=0.25", "sparq:budget=0.25", "streaming:budget=0.25", "largest:budget=0.25":
    found = model(kv="virtual", kv_select=policy).perplexity(TEXT, window=CONTEXT // 2)
    show((policy or "all").split(":")[0], found["perplexity"], found["kv_read_bytes_per_token"] / 1e3)
