"""For tests: a fake Python module kvick, whose model answers what a solver reads out of the prompt; and made-up texts."""

import collections
import random
import re
import types

PIECES = {}  # of the fake tokenizer: {text: token}


def pieces_of(text):
    return re.findall(r"\s?[A-Za-z]{1,4}|\s?[0-9]{1,3}|\s|.", text, re.DOTALL)


def tokenized(text):
    return [PIECES.setdefault(piece, len(PIECES) + 1) for piece in pieces_of(text)]


def text_of(tokens):
    pieces = {token: piece for piece, token in PIECES.items()}
    return "".join(pieces[token] for token in tokens if token != 0)


def made_up_text(seed, sentences=1500):
    """A text of some thousand different words."""
    rng = random.Random(seed)
    words = ["".join(rng.choice("bdfgklmnprst") + rng.choice("aeiou") for _ in range(rng.randint(2, 4))) for _ in range(4000)]
    return " ".join(" ".join(rng.choices(words, k=rng.randint(4, 20))).capitalize() + " <unk> ." for _ in range(sentences))


def made_up_squad():
    """Document n of 300 says which colour the house n has; every article has ten of them."""
    def paragraph(n):
        return {"context": f"There are many houses in our town. The colour of house number {n} is c{n}c. It has a garden with trees.",
                "qas": [{"question": f"What is the colour of house number {n}?", "answers": [{"text": f"c{n}c"}, {"text": f"the colour c{n}c"}]},
                        {"question": "What is the colour of the sea?", "answers": [], "is_impossible": True}]}
    return {"data": [{"paragraphs": [paragraph(n) for n in range(first, first + 10)]} for first in range(0, 300, 10)]}


def made_up_hotpot():
    """A question about two of its documents."""
    def one(n):
        return {"question": f"In which colour does the friend of person {n} paint?", "answer": f"c{n}c",
                "context": [[f"Person {n}", ["A person.", f" The friend of person {n} is f{n}f."]], [f"f{n}f", [f"f{n}f paints in c{n}c."]]]}
    return [one(n) for n in range(200)]


def solved(prompt):
    """The texts that a prompt asks for, by a reader who knows nothing of the generators. Empty if they cannot be found."""
    if found := re.search(r"What (?:is|are all) the special magic \w+ for (.+?) mentioned in the provided text\?", prompt):
        names = re.split(r", and |, ", found[1])
        return [value for name in names for value in re.findall(rf"magic \w+ for {re.escape(name)} is: (\S+)\.", prompt)]
    if found := re.search(r".*assigned the value (\d+) in the text above", prompt, re.DOTALL):
        values = {}
        for name, copied, value in re.findall(r"VAR (\w+) = (VAR )?(\w+)", prompt[prompt.rindex("Memorize and track"):]):
            values[name] = values.get(value) if copied else value
        return [name for name, value in values.items() if value == found[1]]
    if "most common words" in prompt:
        part = prompt[prompt.rindex("Below is a numbered list"):].split("\nQuestion:")[0]
        return [word for word, _ in collections.Counter(re.findall(r"\d+\. (\w+)", part)).most_common(10)]
    if "coded words." in prompt:
        words = prompt.split("coded words. ")[1].split("\nQuestion:")[0].split()
        return [word for word, _ in collections.Counter(word for word in words if word != "...").most_common(3)]
    if found := re.search(r"Question: What is the colour of house number (\d+)\?", prompt):
        return re.findall(rf"The colour of house number {found[1]} is (\w+)\.", prompt)
    if found := re.search(r"Question: In which colour does the friend of person (\d+) paint", prompt):
        friend = re.search(rf"The friend of person {found[1]} is (\w+)\.", prompt)
        return re.findall(rf"{friend[1]} paints in (\w+)\.", prompt) if friend else []
    return []


class Error(ValueError):
    pass


class Model:
    """kv_select="half": of a prompt that is cached, or of one without a cached part, only the first half can be read."""

    opened, asked, fails_at = [], [], None

    def __init__(self, name, *, kv=None, kv_type=None, kv_select=None, threads=None):
        if kv_select == "wrong":
            raise Error('unknown policy "wrong"')
        self.options, self.committed = (name, kv, kv_type, kv_select, threads), []
        self.facts = {"name": "fake", "family": "fakes", "vocabulary": 9, "weight_bytes": 9, "isa": "avx2",
                      "context": 1100 if kv == "small" else 8192}
        Model.opened.append(self.options)

    def tokenize(self, text, special=False):
        return [0] * special + tokenized(text)

    def generate(self, tokens, **options):
        if Model.fails_at == len(Model.asked):
            raise KeyboardInterrupt
        continues = len(self.committed) < len(tokens) and tokens[:len(self.committed)] == self.committed
        cached = len(self.committed) if continues and self.options[1] != "unkept" else 0
        Model.asked.append((self.options, len(tokens), cached, options))
        self.committed = list(tokens)
        text = text_of(tokens)
        if self.options[3] == "half":
            text = text[:len(text) // 2] + text[text.rindex("\nWhat") if "\nWhat" in text else 0:]
        return types.SimpleNamespace(text=" " + " and ".join(solved(text)), cached_tokens=cached)


KVICK = types.SimpleNamespace(Model=Model, Error=Error)
