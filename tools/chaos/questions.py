"""The requests of the chaos test, and which of their answers must be identical to the last bit.

* Strategies that docs/reference/strategies.md calls exact must give one answer for each model, row type and prompt: with every
  memory layout, in every batch, after every restart, with and without speculative decoding, greedy or sampled.
* Policies that choose rows but forget none must give one answer for each policy and its file, without speculative decoding.
* With policies that forget rows, and row types that change with age, the answer depends on how a prompt is cut into steps, and so
  on the load. These answers only have to be complete. But a sequence shorter than ALWAYS_KEPT rows reads all rows unchanged, so its
  answer must be that of full attention.
"""

import dataclasses
import random

MODELS = ("plain", "windows", "states")  # those of the server "several"
RANKED = "ranked"  # the model of the server of several ranks
REPLICAS = ("plain", "replica")  # servers of one model, behind the router
MODEL_OF = {"plain": "plain", "replica": "plain", "windows": "windows", "states": "states", "ranked": RANKED}  # by server
# The head dimension is 64 / 2 = 32, because quantised row types have groups of 32 elements.
SHAPE = ("--dim", "64", "--ffn", "96", "--heads", "2", "--vocab", "512", "--context", "1024")
MADE = {
    "plain": ("--layers", "2", *SHAPE, "--type", "Q8_0"),
    "windows": ("--layers", "4", *SHAPE, "--window", "24", "--window-period", "2", "--window-head-dim", "64", "--shared-layers", "2",
                "--type", "F32"),
    "states": ("--family", "qwen35", "--context", "1024"),
    # Each of two ranks has one KV head, or one layer.
    RANKED: ("--layers", "2", "--dim", "128", "--ffn", "128", "--heads", "4", "--kv-heads", "2", "--vocab", "512", "--context", "1024",
             "--type", "Q8_0"),
}
TYPES = (None, "f32", "bf16", "q8", "q4", "q3", "q4:rotate=on", "k=q8,v=q4")
STRATEGIES = (None, None, "virtual", "bmc:r=32", "upfront", "iterative", "paged:block=16", "sliding")
POLICIES = ("quest:dense_layers=0,budget=0.25", "sparq", "clusters:budget=0.25", "streaming", "h2o", "scissorhands", "snapkv", "expected", "auto:loss=0.02,dense_layers=0")
# Policies that read a file, and the arguments of `kvick train` that make it. A request cannot name a file, so a server has one of them
# as its own policy.
FILES = {"loki": ("pca", "--window", "128"), "kvzap": ("kvzap", "--window", "128", "--ahead", "16"),
         "maple": ("distil", "--form", "heads", "--window", "128"),
         "duo": ("duo", "--window", "256", "--sinks", "4", "--recent", "16")}
TEXT = "All happy families are alike; each unhappy family is unhappy in its own way. " * 60  # what they are trained with
CHOOSING = (*POLICIES[:3], "loki", "maple")
AGING = ("mixed", "kivi4")
ALWAYS_KEPT = 128  # rows; the default of the policies' least= and of the aging types' window=
HOW = {"likeliest": {"temperature": 0, "logprobs": 2, "return_token_ids": True},
       "sampled": {"temperature": 1, "logprobs": 2, "return_token_ids": True},
       "searched": {"temperature": 0, "use_beam_search": True, "best_of": 3}}
SPECS = (None, None, "lookup:gain=off", "suffix:gain=off", "skip:layers=1,gain=off", "auto")
TOKENS = 24  # length of an answer
TURNS = 3  # of a conversation


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
        """The policy on which the answer depends, or None if all rows are read."""
        return self.select if self.select in CHOOSING and not keeps_all(prompt) else None

    def row_type(self):
        """The row type of the reference that must give the same answer. Aging types do so only while no row has aged."""
        return None if self.type in AGING else self.type

    def fields(self, own):
        """The field `kv` of a request to a server whose own policy is `own`, or None if it has none."""
        select = None if self.select == own else self.select or "none"
        return {name: value for name, value in (("strategy", self.strategy), ("type", self.type), ("select", select)) if value is not None}


KINDS = (*(Kind(strategy) for strategy in STRATEGIES), *(Kind(strategy, of) for of in TYPES[1:] for strategy in (None, "bmc:r=16")),
         *(Kind(select=policy) for policy in POLICIES), Kind("virtual", select=POLICIES[0]), *(Kind(type=of) for of in AGING))


@dataclasses.dataclass(frozen=True)
class Question:
    """All that determines an exact answer. Requests with equal questions must get equal answers."""
    model: str
    type: str | None
    prompt: int  # index of the prompt
    how: str  # key of HOW
    select: str | None = None
    turns: tuple = ()  # tokens of a conversation that follow the prompt: its earlier answers, and what was asked after each

    def tokens(self, prompts):
        return prompts[self.prompt] + list(self.turns)

    def body(self, prompts):
        fields = {**HOW[self.how], **({"seed": self.prompt + 1} if self.how == "sampled" else {})}
        return {"prompt": self.tokens(prompts), "max_tokens": TOKENS, "ignore_eos": True, **fields}

    def whole(self, answer):
        """Whether an answer is complete. A beam search returns only text."""
        text, ids, probabilities = answer
        return text != "" if self.how == "searched" else len(ids) == len(probabilities) == TOKENS

    def reference(self, prompts):
        """The request for the reference answer: default strategy, no prefix cache, no speculative decoding. If the policy has a file,
        it is the server's own."""
        kv = {name: value for name, value in (("type", self.type), ("select", self.select)) if value and value not in FILES}
        return {**self.body(prompts), **({"kv": kv} if kv else {}), "cache_prompt": False}


def own_policies(seed):
    """The own policies of servers: three of the four that have a file, others for other seeds."""
    names = tuple(FILES)
    return {server: names[(seed // 2 + i) % len(names)] for i, server in enumerate((*REPLICAS, RANKED))}


def make_prompts(seed, count):
    """Prompts as lists of token ids. A third of them are so short that all rows are kept. The others start with one of four common
    prefixes, which are shorter than one block of the prefix cache files or span several."""
    generator = random.Random(f"prompts {seed}")

    def tokens(least, most):
        return [generator.randrange(3, 480) for _ in range(generator.randrange(least, most))]
    beginnings = [tokens(*lengths) for lengths in ((20, 60), (130, 200), (250, 300), (390, 500))]
    return [tokens(20, 100) if i % 3 == 0 else generator.choice(beginnings) + tokens(1, 60) for i in range(count)]


def next_turn(prompt, turn):
    """What is asked after the answer to a turn: tokens that depend on nothing else, so that conversations have few distinct questions."""
    generator = random.Random(f"turn {prompt} {turn}")
    return tuple(generator.randrange(3, 480) for _ in range(generator.randrange(20, 90)))


def palette(seed, model, second):
    """The six kinds that are requested from the servers of a model in this period of 5 s. A server keeps at most eight caches and
    replaces them as other kinds are requested."""
    return random.Random(f"palette {seed} {model} {int(second) // 5}").sample(KINDS, 6)


def answer_of(choices):
    """(text, token ids, log-probabilities) of each choice, from the choices of a whole answer or of all events of a stream."""
    texts, ids, probabilities = {}, {}, {}
    for choice in choices:
        index = choice["index"]
        texts[index] = texts.get(index, "") + choice["text"]
        ids.setdefault(index, []).extend(choice.get("token_ids") or [])
        probabilities.setdefault(index, []).extend((choice.get("logprobs") or {}).get("token_logprobs") or [])
    return [(texts[i], tuple(ids[i]), tuple(probabilities[i])) for i in sorted(ids)]
