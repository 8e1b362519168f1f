"""The experiments that tools/lab runs. Each answers one question with one command of kvick.

seconds: how long an experiment takes with --quick and without, on two cores with SmolLM2-135M, to say beforehand how long a run takes.
The first was measured on an AMD EPYC (Zen 3); the second is estimated from a few single rounds there. full: further arguments without
--quick. In arguments {model}, {data} and {out} stand for the model and the folders.
"""

from dataclasses import dataclass

TEXT = "text/wikitext2-valid.txt"
REQUESTS = "traces/azure_conv.csv"
BLOCKS = "traces/mooncake_conversation.jsonl"
PROMPTS = "spec-bench/question.jsonl"
# Where the files of the data folder come from.
SOURCES = {
    TEXT: "the validation text of WikiText-2",
    REQUESTS: "AzureLLMInferenceTrace_conv.csv of github.com/Azure/AzurePublicDataset",
    BLOCKS: "the conversation trace of github.com/kvcache-ai/Mooncake",
    PROMPTS: "question.jsonl of github.com/hemingkx/Spec-Bench",
}


@dataclass(frozen=True)
class Experiment:
    name: str
    question: str
    seconds: tuple
    arguments: tuple
    full: tuple = ()

    def words(self, quick):
        return self.arguments if quick else self.arguments + self.full


# Files that `kvick train` makes of the model and the text for experiments whose arguments name them.
PREPARED = {
    "components.kvp": ("train", "pca", "-m", "{model}", "-f", f"{{data}}/{TEXT}", "--tokens", "8192", "-o", "{out}/components.kvp"),
    "scores.kvp": ("train", "kvzap", "-m", "{model}", "-f", f"{{data}}/{TEXT}", "-o", "{out}/scores.kvp"),
    "heads.kvp": ("train", "duo", "-m", "{model}", "-f", f"{{data}}/{TEXT}", "-o", "{out}/heads.kvp"),
}


def of(*files):
    return tuple(word for file in files for word in ("--file", f"{{data}}/{file}"))


def lab(name, question, seconds, *arguments, full=()):
    return Experiment(name, question, seconds, ("lab", name, *arguments), full)


def of_model(name, question, seconds, *arguments, full=()):
    return lab(name, question, seconds, "-m", "{model}", *arguments, full=full)


COMPONENTS = ("--components", "{out}/components.kvp")
SCORES = ("--scores", "{out}/scores.kvp")
HEADS = ("--heads", "{out}/heads.kvp")

EXPERIMENTS = (
    lab("waste", "How much memory do running requests allocate and not use?", (5, 67), *of(REQUESTS)),
    lab("prefix", "Which share of a service's prompts does the prefix cache serve, by memory?", (3, 15), *of(BLOCKS)),
    lab("table1", "What memory and loads does MAPLE's Table 1 come to?", (1, 1)),
    lab("breakdown", "Where does the time of attention go under each way of growing the cache?", (2, 60)),
    lab("paged-vs-contiguous", "What does attention over blocks cost beside contiguous rows?", (5, 60)),
    lab("bmc-sweep", "How many growths of a context are best, and does BMC's model predict it?", (5, 600)),
    lab("spec-sweep", "How many growths are best where steps verify draft tokens?", (7, 16)),
    lab("sliding", "What do the copies of a static sliding cache cost, by its reserve?", (1, 60)),
    of_model("long", "How does speed change in long contexts?", (11, 120)),
    of_model("growth", "How long does the next token take at each length of its context?", (15, 180)),
    of_model("allocators", "How fast is a whole model under each way of growing its cache?", (13, 180)),
    of_model("usecases", "Which cache is fastest for short and long prompts and answers?", (5, 900)),
    of_model("scaling", "What does a token cost as contexts and batches grow?", (4, 600)),
    of_model("serving", "How much throughput does each cache give in the same memory?", (19, 900), *of(REQUESTS)),
    of_model("preemption", "What does it cost to serve with too little memory?", (40, 600)),
    of_model("sharing", "How much memory do several answers to one prompt share?", (12, 120)),
    of_model("quant", "What does each type of rows cost in quality and gain in speed?", (95, 300), *of(TEXT)),
    of_model("budget", "What quality is lost where policies read or keep a part of the rows?", (76, 900), *of(TEXT), *COMPONENTS,
             full=SCORES + HEADS),
    of_model("needle", "Is a planted fact found, by policy and depth?", (53, 900), *of(TEXT), *COMPONENTS),
    of_model("depth", "What do policies gain deep in a context?", (1, 300), *COMPONENTS),
    of_model("tier", "How fast is decoding over a slower tier of memory?", (13, 300)),
    of_model("moved", "How good are answers that reuse rows from other positions?", (14, 300), *of(TEXT)),
    of_model("spec", "What do draft tokens gain?", (33, 1800), *of(PROMPTS)),
)
