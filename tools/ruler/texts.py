"""What prompts are made of: sentences and words of the user's text, keys of needles, and questions about documents."""

import json
import pathlib
import re
from dataclasses import dataclass, field

# No adjective ends with another one and no noun begins with another one, so no key is a part of another key.
ADJECTIVES = """amber ancient bitter brave breezy brisk broken calm careful cheerful clever cloudy clumsy common crisp curious
dainty daring dusty eager earnest elegant faithful famous fancy fierce fluffy fragile frosty frozen gentle giant glossy graceful
grumpy handy hasty hollow honest humble hungry ideal jolly keen lively lonely lucky mellow merry mighty misty modest muddy narrow
noble patient placid polite proud quiet rapid rustic sandy secret shiny silent sleepy solid spicy sturdy subtle sunny swift tender
timid tranquil vivid wandering witty yellow""".split()
NOUNS = """anchor apple arrow badge balloon banner barrel basket beacon bishop blanket bottle bridge bucket button cabin camel candle
canyon carpet castle cherry circle comet copper cotton cradle curtain daisy desert dragon drummer falcon feather ferry fiddle forest
fountain garden glacier guitar hammer harbor helmet island jacket kettle ladder lantern lemon magnet maple meadow mirror monkey
orchard oyster paddle parrot pebble pencil pepper pillow planet pocket pumpkin rabbit ribbon river saddle scarf shadow spider temple
ticket tunnel turtle valley violin window""".split()
SENTENCE_WORDS = 40  # longer sentences are cut, so that a prompt comes near its length also in a text without full stops


class Mistake(Exception):
    """A mistake of the user: an option or a file. Its text says what is wrong and what to do."""


@dataclass(frozen=True)
class Question:
    text: str
    answers: list
    documents: list  # numbers of the documents with the answer
    related: list = field(default_factory=list)  # numbers of further documents of the same article


@dataclass(frozen=True)
class Questions:
    questions: list
    documents: list  # texts


@dataclass(frozen=True)
class Material:
    sentences: list = ()
    words: list = ()  # different words of 4 to 10 letters, sorted
    questions: dict = field(default_factory=dict)  # {name of a task: Questions}


def read(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Mistake(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Mistake(f"{path} is not a text in UTF-8: give a text file") from None


def sentences_of(text):
    found = []
    for sentence in re.split(r"(?<=[.!?])\s+", text):
        words = sentence.split()
        found += [" ".join(words[i:i + SENTENCE_WORDS]) for i in range(0, len(words), SENTENCE_WORDS)]
    return found


def words_of(text):
    return sorted(set(word for word in text.split() if re.fullmatch("[a-z]{4,10}", word)))


def squad(data):
    """Questions of a file in SQuAD's form. Each has its paragraph; the other paragraphs of its article are related."""
    paragraphs = [(article, paragraph) for article in data["data"] for paragraph in article["paragraphs"]]
    documents = sorted({paragraph["context"] for _, paragraph in paragraphs})
    number = {document: i for i, document in enumerate(documents)}
    questions = []
    for article, paragraph in paragraphs:
        own = number[paragraph["context"]]
        related = sorted({number[other["context"]] for other in article["paragraphs"]} - {own})
        questions += [Question(one["question"], [answer["text"] for answer in one["answers"]], [own], related)
                      for one in paragraph["qas"] if one["answers"] and not one.get("is_impossible")]
    return Questions(questions, documents)


def hotpot(data):
    """Questions of a file in HotpotQA's form. Each has all the paragraphs that the file lists for it."""
    listed = [[f"{title}\n{''.join(lines)}" for title, lines in one["context"]] for one in data]
    documents = sorted({document for own in listed for document in own})
    number = {document: i for i, document in enumerate(documents)}
    return Questions([Question(one["question"], [one["answer"]], [number[document] for document in own])
                      for one, own in zip(data, listed)], documents)


def read_questions(path):
    try:
        data = json.loads(read(path))
        found = squad(data) if isinstance(data, dict) else hotpot(data)
        valid = all(isinstance(text, str) for one in found.questions for text in [one.text, *one.answers])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Mistake(f"{path} has neither SQuAD's form, {{\"data\": [{{\"paragraphs\": ...}}]}}, nor HotpotQA's, "
                      f"[{{\"question\": ..., \"answer\": ..., \"context\": ...}}]: give such a JSON file") from None
    if not found.questions or not valid:
        raise Mistake(f"{path} has no question with an answer: give another file")
    return found


def material(text=None, questions=None):
    """text: path of a text, or None. questions: {name of a task: path}."""
    content = read(text) if text else ""
    sentences = sentences_of(content)
    if text and not sentences:
        raise Mistake(f"{text} is empty: give another --text")
    return Material(sentences, words_of(content), {name: read_questions(path) for name, path in (questions or {}).items()})
