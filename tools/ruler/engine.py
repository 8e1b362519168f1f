"""Asks a model in kvick's Python module, with one setting of the cache at a time.

The module and not a server: a server keeps no prefix of a policy that forgets rows, and divides prompts by its load. The module's
sequence stays as it is between calls, so a question can follow a context that was cached before, and prompts are always read in the
same pieces, of 512 tokens.
"""

import hashlib
import itertools
import pathlib
import re
import time
from dataclasses import dataclass
from typing import Optional

import kept  # tools/compare
from texts import Mistake

IN_PROMPT, LATER = "question in the prompt", "question later"


def module():
    try:
        import kvick
    except ImportError as error:
        raise Mistake(f"the Python module kvick cannot be imported ({error}): install it with pip install ., or set PYTHONPATH to "
                      f"the folder python of a build with -DKVICK_PYTHON=ON (docs/guides/python.md)") from None
    return kvick


@dataclass(frozen=True)
class Setting:
    kv: Optional[str] = None
    kv_type: Optional[str] = None
    kv_select: Optional[str] = None

    @property
    def label(self):
        parts = [part for part in (self.kv, self.kv_type) if part] + [self.kv_select or "all rows"]
        return kept.without_folders(" ".join(parts))

    def files(self):
        """Predictors that it names."""
        return re.findall(r"\bfile=([^,]+)", self.kv_select or "")


def settings(kv, kv_type, kv_select):
    """All combinations. Each argument is a list, which may be empty; the policy "none" is that of leaving it out."""
    selects = [None if select == "none" else select for select in kv_select or [None]]
    return list(dict.fromkeys(Setting(*one) for one in itertools.product(kv or [None], kv_type or [None], selects)))


class Asked:
    """A model with a setting."""

    def __init__(self, kvick, name, setting, threads):
        self.model = kvick.Model(name, kv=setting.kv, kv_type=setting.kv_type, kv_select=setting.kv_select, threads=threads)
        self.facts = self.model.facts
        # The tokens before every text. The text itself may contain names of control tokens, such as <unk>.
        self.before = self.model.tokenize("", special=True)

    def parts(self, sample):
        """The tokens of the context and of the question, each tokenised by itself, so that both protocols ask with the same tokens."""
        return self.before + self.model.tokenize(sample.context), self.model.tokenize(sample.question)

    def tokens(self, sample):
        return sum(map(len, self.parts(sample)))

    def answer(self, sample, most, later):
        """Returns the greedy answer's text and the seconds that it took. later: the context is cached, and so compressed by policies
        that forget rows, before the question is read."""
        context, question = self.parts(sample)
        began = time.monotonic()
        if later:
            self.generate(context, 1)  # the token that is chosen gets no row
        answer = self.generate(context + question, most)
        if later and answer.cached_tokens != len(context):
            raise Mistake(f"of a context of {len(context)} tokens, {answer.cached_tokens} were cached when the question came; with this setting "
                          "leave --question-later out")
        return answer.text, time.monotonic() - began

    def generate(self, tokens, most):
        return self.model.generate(tokens, max_tokens=most, temperature=0, repetition_penalty=1, presence_penalty=0, frequency_penalty=0)


def digest(*parts):
    """A hash of texts, and of the contents of files that are given as paths."""
    made = hashlib.sha256()
    for part in parts:
        try:
            content = part.read_bytes() if isinstance(part, pathlib.Path) else str(part).encode()
        except OSError as error:
            raise Mistake(f"cannot read {part}: {error.strerror}") from None
        made.update(len(content).to_bytes(8, "little") + content)
    return made.hexdigest()[:32]
