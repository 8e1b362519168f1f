"""What is asked, and which answers must be the same to the last bit.

Strategies that docs/reference/strategies.md calls exact must say the same on every layout, in every batch, after every
restart, drafts or none, sampled ones too: they are held to one answer for each model, type of rows and prompt. Policies that
choose rows and forget none have one answer each, without drafts. Policies that forget and types that change with age have
not: how a prompt was cut into steps, which follows the load, says which rows are forgotten or rounded. Where a sequence is
shorter than what they always keep they read all rows, and must say what full attention does; else an answer of theirs must
only be whole.
"""

import dataclasses
import random

MODELS = ("plain", "windows", "states")
# 64 / 2 elements a head, since types of rows are quantised by groups of 32.
SHAPE = ("--dim", "64", "--ffn", "96", "--heads", "2", "--vocab", "512", "--context", "1024")
MADE = {
    "plain": ("--layers", "2", *SHAPE, "--type", "Q8_0"),
    "windows": ("--layers", "4", *SHAPE, "--window", "24", "--window-period", "2", "--window-head-dim", "64", "--shared-layers", "2",
                "--type", "F32"),
    "states": ("--family", "qwen35", "--context", "1024"),
}
TYPES = (None, "f32", "bf16", "q8", "q4", "q3", "q4:rotate=on", "k=q8,v=q4")
STRATEGIES = (None, None, "virtual", "bmc:r=32", "upfront", "iterative", "paged:block=16", "sliding")
POLICIES = ("quest:dense_layers=0,budget=0.25", "sparq", "clusters:budget=0.25", "streaming", "h2o", "scissorhands", "auto:loss=0.02,dense_layers=0")
CHOOSING = POLICIES[:3]
AGING = ("mixed", "kivi4")
ALWAYS_KEPT = 128  # the policies' least= and the aging types' window=
HOW = {"likeliest": {"temperature": 0, "logprobs": 2, "return_token_ids": True},
       "sampled": {"temperature": 1, "logprobs": 2, "return_token_ids": True},
       "searched": {"temperature": 0, "use_beam_search": True, "best_of": 3}}
SPECS = (None, None, "lookup:gain=off", "suffix:gain=off", "skip:layers=1,gain=off", "auto")
TOKENS = 24  # of an answer


def keeps_all(prompt):
    return len(prompt) + TOKENS <= ALWAYS_KEPT


@dataclasses.dataclass(frozen=True)
class Kind:
    strategy: str | None = None
    type: str | None = None
    select: str | None = None

    def exact_for(self, prompt):
        return ((self.select is None or self.select in CHOOSING) and self.type not in AGING) or keeps_all(prompt)

    def choice_for(self, prompt):
        """The policy whose own answer it is."""
        return self.select if self.select in CHOOSING and not keeps_all(prompt) else None

    def row_type(self):
        """Of the kind that reads all rows and must say the same."""
        return None if self.type in AGING else self.type

    def fields(self):
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


KINDS = (*(Kind(strategy) for strategy in STRATEGIES), *(Kind(strategy, of) for of in TYPES[1:] for strategy in (None, "bmc:r=16")),
         *(Kind(select=policy) for policy in POLICIES), Kind("virtual", select=POLICIES[0]), *(Kind(type=of) for of in AGING))


@dataclasses.dataclass(frozen=True)
class Question:
    """What one right answer belongs to."""
    model: str
    type: str | None
    prompt: int
    how: str  # of HOW
    select: str | None = None

    def body(self, prompts):
        fields = {**HOW[self.how], **({"seed": self.prompt + 1} if self.how == "sampled" else {})}
        return {"prompt": prompts[self.prompt], "max_tokens": TOKENS, "ignore_eos": True, **fields}

    def whole(self, answer):
        """A search tells its text alone."""
        text, ids, probabilities = answer
        return text != "" if self.how == "searched" else len(ids) == len(probabilities) == TOKENS

    def reference(self, prompts):
        """The plainest way to the answer: nothing cached, the default strategy, no drafts."""
        kv = {name: value for name, value in (("type", self.type), ("select", self.select)) if value}
        return {**self.body(prompts), **({"kv": kv} if kv else {}), "cache_prompt": False}


def make_prompts(seed, count):
    """Token ids, a third of them short enough for all rows to be kept; the others begin alike, over several blocks of the files
    and over less than one."""
    generator = random.Random(f"prompts {seed}")

    def tokens(least, most):
        return [generator.randrange(3, 480) for _ in range(generator.randrange(least, most))]
    beginnings = [tokens(*lengths) for lengths in ((20, 60), (130, 200), (250, 300), (390, 500))]
    return [tokens(20, 100) if i % 3 == 0 else generator.choice(beginnings) + tokens(1, 60) for i in range(count)]


def palette(seed, server, second):
    """The kinds that a server is asked for in this part of the time: it keeps eight at once, and changes them as others come."""
    return random.Random(f"palette {seed} {server} {int(second) // 5}").sample(KINDS, 6)


def answer_of(choices):
    """Text, token ids and their log-probabilities by choice, from one whole answer or from the events of a stream."""
    texts, ids, probabilities = {}, {}, {}
    for choice in choices:
        index = choice["index"]
        texts[index] = texts.get(index, "") + choice["text"]
        ids.setdefault(index, []).extend(choice.get("token_ids") or [])
        probabilities.setdefault(index, []).extend((choice.get("logprobs") or {}).get("token_logprobs") or [])
    return [(texts[i], tuple(ids[i]), tuple(probabilities[i])) for i in sorted(ids)]
