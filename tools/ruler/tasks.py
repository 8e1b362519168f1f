"""RULER's tasks (Hsieh et al. 2024, arXiv:2404.06654): prompts of a given length and how their answers are scored.

The generators are ours, after the paper and the settings of github.com/NVIDIA/RULER (Apache License 2.0); the sentences of the
prompts are RULER's, so that scores mean the same. docs/guides/comparing.md lists what differs. A generator gets a size, in units of
its own such as lines of noise, and fitted() finds the largest size whose prompt and answer fit into the length.
"""

import random
import string
import uuid
from dataclasses import dataclass
from typing import Callable

from texts import ADJECTIVES, NOUNS, Mistake

PROMPTS = 1  # raise it when prompts change: results of other prompts are not continued
TRIES = 20  # draws of a question before documents count as too long
ENDLESS = 1 << 24
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."


@dataclass(frozen=True)
class Sample:
    context: str  # instruction and text
    question: str  # with the beginning of the answer, from which the model goes on
    expected: tuple


@dataclass(frozen=True)
class Task:
    name: str
    what: str
    answer_tokens: int
    make: Callable  # (material, random, size, length) -> Sample
    least: int = 1  # size
    most: Callable = lambda material, length: ENDLESS  # (material, length) -> size
    unit: str = "sentences"
    needs_text: bool = False
    one_suffices: bool = False  # the answer is right with any of the expected texts


# Needles in a haystack

def number(rng):
    return str(rng.randint(10**6, 10**7 - 1))


def word(rng):
    return f"{rng.choice(ADJECTIVES)}-{rng.choice(NOUNS)}"


def uuid4(rng):
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def distinct(draw, rng, count, text=""):
    """`count` different draws that do not occur in the text."""
    found = {}
    while len(found) < count:
        one = draw(rng)
        if one not in text:
            found[one] = None
    return list(found)


def needle(kind, key, value):
    return f"One of the special magic {kind}s for {key} is: {value}."


def listed(names):
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])}, and {names[-1]}"


@dataclass(frozen=True)
class Needles:
    """A generator. keys: how many have needles; values: needles of each key; asked: keys that the question asks for."""

    haystack: str  # noise, text, or needles
    keys: int = 1
    values: int = 1
    asked: int = 1
    draw_key: Callable = word
    draw_value: Callable = number

    def __call__(self, material, rng, size, length):
        kind = "uuid" if self.draw_value is uuid4 else "number"
        hay = []
        if self.haystack == "noise":
            hay = [NOISE] * size
        elif self.haystack == "text":  # each sample begins elsewhere; a short text is repeated
            start = rng.randrange(len(material.sentences))
            hay = [material.sentences[(start + i) % len(material.sentences)] for i in range(size)]
        others = size if self.haystack == "needles" else 0
        text = " ".join(hay)
        keys = distinct(self.draw_key, rng, self.keys + others, text)
        values = distinct(self.draw_value, rng, self.keys * self.values + others, text)
        own = {key: values[i * self.values:(i + 1) * self.values] for i, key in enumerate(keys[:self.keys])}
        planted = [needle(kind, key, value) for key in own for value in own[key]]
        rng.shuffle(planted)
        hay += [needle(kind, *pair) for pair in zip(keys[self.keys:], values[self.keys * self.values:])]
        places = sorted(rng.choices(range(len(hay) + 1), k=len(planted)), reverse=True)
        for place, one in zip(places, planted):
            hay.insert(place, one)
        asked = rng.sample(list(own), self.asked)
        expected = [value for key in asked for value in own[key]]
        return self.asks(kind, (" " if self.haystack == "text" else "\n").join(hay), listed(asked), expected)

    @staticmethod
    def asks(kind, text, query, expected):
        if len(expected) == 1:
            some, what, said, kinds = f"A special magic {kind} is", "What is the", "is", kind
        else:
            some, what, said, kinds = f"Some special magic {kind}s are", "What are all the", "are", f"{kind}s"
        context = f"{some} hidden within the following text. Make sure to memorize it. I will quiz you about the {kinds} afterwards.\n{text}"
        return Sample(context, f"\n{what} special magic {kinds} for {query} mentioned in the provided text? "
                               f"The special magic {kinds} for {query} mentioned in the provided text {said}", tuple(expected))


def most_needles(material, length):
    return len(ADJECTIVES) * len(NOUNS) // 2  # drawing takes long where few keys are left


# Variable tracking

HOPS = 4
EXAMPLE_LINES = 10  # of noise: the example has less than RULER's 500 tokens


def chain(rng, letters, lines):
    """A prompt's parts: context, question and variables."""
    names = distinct(lambda rng: "".join(rng.choices(string.ascii_uppercase, k=letters)), rng, HOPS + 1)
    value = str(rng.randint(10000, 99999))
    said = [f"VAR {names[0]} = {value}"] + [f"VAR {name} = VAR {before}" for before, name in zip(names, names[1:])]
    hay = [NOISE] * lines
    places = sorted(rng.sample(range(lines + 1), len(said)))
    for i, (place, one) in enumerate(zip(places, said)):  # later assignments stay behind earlier ones
        hay.insert(place + i, one)
    context = "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n" + "\n".join(hay)
    question = (f"\nQuestion: Find all variables that are assigned the value {value} in the text above. Answer: According to the "
                f"chain(s) of variable assignment in the text above, {len(names)} variables are assigned the value {value}, they are:")
    return context, question, names


def tracking(material, rng, size, length):
    example, asks, names = chain(rng, 3, EXAMPLE_LINES)
    context, question, expected = chain(rng, 5, size)
    return Sample(f"{example}{asks} {' '.join(names)}\n\n{context}", question, tuple(expected))


# Common words, frequent words

COMMON = 10


def repeats(length):
    """(of a common word, of another word) in the list, the same two in the example, and the words of the example."""
    return ((6, 1), (3, 1), 20) if length < 4096 else ((30, 3), (10, 3), 40)


def word_list(rng, words, often, seldom):
    entries = words[:COMMON] * often + words[COMMON:] * seldom
    rng.shuffle(entries)
    context = ("Below is a numbered list of words. In these words, some appear more often than others. Memorize the ones that appear "
               "most often.\n" + numbered(entries))
    return context, ("\nQuestion: What are the 10 most common words in the above list? "
                     "Answer: The top 10 words that appear most often in the list are:")


def numbered(words):
    return " ".join(f"{i}. {word}" for i, word in enumerate(words, 1))


def common_words(material, rng, size, length):
    often, in_example, count = repeats(length)
    words = rng.sample(material.words, count + COMMON + size)
    shown, words = words[:count], words[count:]
    example, asks = word_list(rng, shown, *in_example)
    context, question = word_list(rng, words, *often)
    return Sample(f"{example}{asks} {numbered(shown[:COMMON])}\n{context}", question, tuple(words[:COMMON]))


def most_common_words(material, length):
    return len(material.words) - COMMON - repeats(length)[2]


ZETA_2 = 1.6449340668482264  # pi^2 / 6: the words' shares 1 / rank^2 add up to it
TOP = 3


def frequent_words(material, rng, size, length):
    """`size` words, of which the share of rank k is 1 / (k^2 zeta(2)), rounded down. Dots have rank 1, as noise."""
    ranks = max(TOP + 2, (length - FREQUENT_TOKENS) // 50)
    words = ["...", *distinct(lambda rng: "".join(rng.choices(string.ascii_lowercase, k=6)), rng, ranks - 1)]
    text = [one for rank, one in enumerate(words, 1) for _ in range(int(size / (rank * rank * ZETA_2)))]
    rng.shuffle(text)
    context = ("Read the following coded text and track the frequency of each coded word. Find the three most frequently appeared "
               f"coded words. {' '.join(text)}")
    return Sample(context, "\nQuestion: Do not provide any explanation. Please ignore the dots '....'. What are the three most "
                           "frequently appeared words in the above coded text? Answer: According to the coded text above, the three "
                           "most frequently appeared words are:", tuple(words[1:1 + TOP]))


FREQUENT_TOKENS = 50  # of its answer


# Questions about documents

TOLD = "Answer the question based on the given documents. Only give me the answer and do not output any other words."


def documents_with(name):
    def make(material, rng, size, length):
        all_of = material.questions[name]
        question = rng.choice(all_of.questions)
        own, related = question.documents, list(question.related)
        rng.shuffle(related)
        taken = {*own, *related}
        rest = [i for i in range(len(all_of.documents)) if i not in taken]
        rng.shuffle(rest)
        shown = own + (related + rest)[:size]  # the hardest to tell apart come first
        rng.shuffle(shown)
        text = "\n\n".join(f"Document {i}:\n{all_of.documents[one]}" for i, one in enumerate(shown, 1))
        return Sample(f"{TOLD}\n\nThe following are given documents.\n\n{text}", f"\n\n{TOLD}\n\nQuestion: {question.text} Answer:",
                      tuple(question.answers))
    return make


def most_documents(name):
    return lambda material, length: len(material.questions[name].documents) - max(
        len(one.documents) for one in material.questions[name].questions)


def niah(name, what, needles, **more):
    return Task(f"niah_{name}", what, 128, needles, needs_text=needles.haystack == "text", **more)


def qa(name, what):
    return Task(name, what, 32, documents_with(name), least=0, most=most_documents(name), unit="documents", one_suffices=True)


TASKS = {task.name: task for task in (
    niah("single_1", "a number in a repeated sentence", Needles("noise"), unit="lines"),
    niah("single_2", "a number in a text", Needles("text")),
    niah("single_3", "a UUID in a text", Needles("text", draw_value=uuid4)),
    niah("multikey_1", "one of four numbers in a text", Needles("text", keys=4)),
    niah("multikey_2", "a number among numbers of other keys", Needles("needles"), most=most_needles, unit="needles"),
    niah("multikey_3", "a UUID among UUIDs of other UUIDs", Needles("needles", draw_key=uuid4, draw_value=uuid4), unit="needles"),
    niah("multivalue", "four numbers of one key in a text", Needles("text", values=4)),
    niah("multiquery", "four numbers of four keys in a text", Needles("text", keys=4, asked=4)),
    Task("vt", "five variables that have one value, by assignments", 30, tracking, least=HOPS, unit="lines"),
    Task("cwe", "the ten most common words of a list", 120, common_words, most=most_common_words, unit="different words of 4 to 10 letters",
         needs_text=True),
    Task("fwe", "the three most frequent of made-up words", FREQUENT_TOKENS, frequent_words, least=100, unit="words"),
    qa("qa_1", "a question about one of many documents (SQuAD)"),
    qa("qa_2", "a question about two of many documents (HotpotQA)"),
)}


def score(task, answer, expected):
    """The share of the expected texts that the answer contains; of tasks with one_suffices: whether it contains any."""
    found = [one.lower() in answer.lower() for one in expected]
    return float(any(found)) if task.one_suffices else sum(found) / len(found)


def largest(fits, least, most):
    """The largest size for which fits(size) holds, if it holds for `least` and for no size behind one for which it does not."""
    low, high = least, least + 1
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def fitted(task, material, length, seed, index, tokens):
    """Sample number `index`: the longest prompt that leaves room for the answer. tokens: counts the tokens of a Sample."""
    room, most = length - task.answer_tokens, task.most(material, length)
    if most < task.least:
        raise Mistake(f"{task.name} needs more {task.unit}: give a longer file")
    for attempt in range(TRIES if task.one_suffices else 1):
        made = lambda size: task.make(material, random.Random(f"{seed} {task.name} {length} {index} {attempt}"), size, length)  # noqa: E731, B023
        shortest = tokens(made(task.least))
        if shortest > room:
            continue
        size = largest(lambda size: tokens(made(size)) <= room, task.least, most)  # noqa: B023
        if size == most:
            raise Mistake(f"{task.name} needs more {task.unit} for a prompt of {length} tokens than the {most} that there are: "
                          "give a longer file or shorter --lengths")
        return made(size)
    raise Mistake(f"{task.name} does not fit into {length} tokens: its shortest prompt has {shortest}, its answer {task.answer_tokens}; "
                  "give longer --lengths")
