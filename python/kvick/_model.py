"""A model with its cache and one sequence."""

import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from kvick import _kvick, _strategies
from kvick._answer import Answer, AsyncStream, Stream
from kvick._kvick import Error
from kvick._program import find_model

if TYPE_CHECKING:
    import numpy

Message = Mapping[str, Any]  # {"role": "user", "content": "..."}
Prompt = Union[str, Sequence[Message], Sequence[int]]


def _given(**options: Any) -> dict[str, Any]:
    """The options that were given; the others have the engine's defaults."""
    return {name: value for name, value in options.items() if value is not None}


def _json(value: Any, what: str) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError) as error:
        raise Error(f"{what} cannot be JSON: {error}") from None


def _list(value: Union[int, Sequence[int]]) -> list[int]:
    return [value] if isinstance(value, int) else list(value)


def _fields(*, max_tokens: int = 256, stop: Union[str, Sequence[str], None] = None, ignore_end: bool = False,
            logit_bias: Optional[Mapping[int, float]] = None, seed: Optional[int] = None,
            schema: Optional[Mapping[str, Any]] = None, **sampling: Optional[float]) -> dict[str, Any]:
    """What generate() was given, for the module."""
    if isinstance(stop, str):
        stop = [stop]
    unknown = sampling.keys() - {"temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty",
                                 "frequency_penalty"}
    if unknown:
        raise TypeError(f"generate() has no option {sorted(unknown)[0]}")
    return _given(max_tokens=max_tokens, ignore_end=ignore_end, stop=None if stop is None else list(stop),
                  logit_bias=None if logit_bias is None else dict(logit_bias),
                  seed=secrets.randbits(63) if seed is None else seed,
                  schema=None if schema is None else _json(schema, "the schema"), **sampling)


def _tokens(tokens: Sequence[int]) -> list[int]:
    numbers = [int(token) for token in tokens]  # numpy's too
    for token in numbers:
        if not 0 <= token < 1 << 31:
            raise Error(f"{token} is no token: tokens are numbers from 0 to the vocabulary's size")
    return numbers


class Model:
    """A model that is ready to answer.

    It has one sequence: what a prompt has in common with the last one and its answer is not computed again, so give a chat's
    whole conversation each time. Threads may share a model; they take turns. Its own threads do not survive os.fork(): with
    multiprocessing, use "spawn".
    """

    def __init__(self, model: Union[str, "os.PathLike[str]"] = "smollm2", *, kv: Optional[str] = None,
                 kv_type: Optional[str] = None, kv_tier: Optional[str] = None, kv_select: Optional[str] = None, kv_memory: Optional[int] = None,
                 spec: Optional[str] = None, prompt_arithmetic: Optional[str] = None, context: Optional[int] = None,
                 threads: Optional[int] = None) -> None:
        """Opens a model: a .gguf file, a Hugging Face folder, or a name that `kvick run` takes, such as "smollm2" or
        "hf:Qwen/Qwen3-0.6B-GGUF:Q8_0", which is fetched if it is not there.

        kv, kv_type, kv_tier, kv_select, spec, prompt_arithmetic: as `kvick run` takes them. kv_memory: most bytes of keys and
        values, by default what is free. context: most tokens of a sequence, by default the model's. threads: by default all
        processors.
        """
        path = find_model(model)
        before, _strategies.models_opened = _strategies.models_opened, True
        try:
            self._model = _kvick.Model(_given(path=path, kv=kv, kv_type=kv_type, kv_tier=kv_tier, kv_select=kv_select,
                                              spec=spec, prompt_arithmetic=prompt_arithmetic, kv_memory=kv_memory,
                                              context=context, threads=threads))
        except BaseException:
            _strategies.models_opened = before  # a plugin may be what was missing
            raise
        self._facts: dict[str, Any] = self._model.facts()

    @property
    def facts(self) -> dict[str, Any]:
        """`name`, `family`, `context`, `vocabulary`, `weight_bytes`, `kv`, `kv_type`, `isa`, `has_chat_template`."""
        return dict(self._facts)

    def __repr__(self) -> str:
        return f"kvick.Model({self._facts['name']!r}, kv={self._facts['kv']!r}, kv_type={self._facts['kv_type']!r})"

    def generate(self, prompt: Prompt, *, max_tokens: int = 256,
                 temperature: Optional[float] = None, top_k: Optional[int] = None, top_p: Optional[float] = None,
                 min_p: Optional[float] = None, repetition_penalty: Optional[float] = None,
                 presence_penalty: Optional[float] = None, frequency_penalty: Optional[float] = None,
                 logit_bias: Optional[Mapping[int, float]] = None, seed: Optional[int] = None,
                 stop: Union[str, Sequence[str], None] = None, ignore_end: bool = False,
                 schema: Optional[Mapping[str, Any]] = None, template: Optional[Mapping[str, Any]] = None,
                 on_text: Optional[Callable[[str], Optional[bool]]] = None) -> Answer:
        """Answers a prompt.

        prompt: a text, which the model goes on from as it is; messages, which it answers by its chat template; or tokens.
        max_tokens: 0 is until the model ends or the context is full. temperature: 0 is greedy; what is None has `kvick run`'s
        default. seed: by default a random one. schema: a JSON Schema that the answer is an instance of. template: what else the
        chat template is to see, such as {"tools": [...]} or {"enable_thinking": False}. on_text: called with each piece of the
        answer as soon as it is certain, and with "" while the prompt is read; if it returns False, the answer ends.
        """
        tokens, continues = self._tokens_of(prompt, template)
        fields = _fields(max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
                         repetition_penalty=repetition_penalty, presence_penalty=presence_penalty,
                         frequency_penalty=frequency_penalty, logit_bias=logit_bias, seed=seed, stop=stop, ignore_end=ignore_end,
                         schema=schema)
        fields.update(prompt=tokens, continues=continues)
        return Answer(**self._model.generate(fields, on_text))

    def chat(self, messages: Sequence[Message], **options: Any) -> Answer:
        """Answers as the assistant, by the model's chat template. options: those of generate()."""
        if isinstance(messages, (str, bytes)):
            raise Error('chat() takes messages, [{"role": "user", "content": "..."}]; generate() takes a text')
        return self.generate(messages, **options)

    def stream(self, prompt: Prompt, **options: Any) -> "Stream":
        """The same, as an iterator over the answer's pieces. Its `answer` is what generate() returns, once it has ended; leaving
        the loop ends the answer. options: those of generate() but for on_text."""
        return Stream(self._writes("stream", prompt, options))

    def astream(self, prompt: Prompt, **options: Any) -> AsyncStream:
        """stream() for asyncio: `async for piece in model.astream(...)`. A task that is cancelled ends the answer."""
        return AsyncStream(self._writes("astream", prompt, options))

    async def agenerate(self, prompt: Prompt, **options: Any) -> Answer:
        """generate() for asyncio, but for on_text. Several at once take turns: batch() computes answers together."""
        return await self.astream(prompt, **options).read()

    def batch(self, prompts: Sequence[Prompt], *, parallel: int = 64, template: Optional[Mapping[str, Any]] = None,
              on_answer: Optional[Callable[[int, Answer], Optional[bool]]] = None, **options: Any) -> list[Answer]:
        """Answers many prompts, at most `parallel` at once, which are computed together: several times as fast as one by one.

        Prompts that begin alike are read once as far as they do. on_answer: called with the number of a prompt, from 0 on, and
        its answer as soon as it has ended; if it returns False, those that have not ended are cancelled. options: those of
        generate() but for on_text, for all; prompt i has the seed `seed` + i. The cache is made for the call, with what of
        kv_memory the model's one sequence does not hold, and later answers know nothing of it.
        """
        if isinstance(prompts, (str, bytes)):
            raise Error("batch() takes a list of prompts; generate() takes one")
        if "on_text" in options:
            raise Error("batch() has no on_text: on_answer is told of whole answers")
        if parallel < 1:
            raise Error(f"parallel is {parallel}, but at least one prompt is answered at once")
        given = []
        for prompt in prompts:
            tokens, continues = self._tokens_of(prompt, template)
            given.append({"prompt": tokens, "continues": continues})
        told = None if on_answer is None else lambda number, fields: on_answer(number, Answer(**fields))
        return [Answer(**fields) for fields in self._model.batch(given, _fields(**options), parallel, told)]

    def embed(self, texts: Union[str, Sequence[str]], *, pooling: Optional[str] = None, dimensions: Optional[int] = None,
              normalize: bool = True) -> "numpy.ndarray":
        """A vector of each text, as float32 [texts][width], as `kvick embed` has them. Needs numpy.

        pooling: which of a text's states its vector is: the last token's ("last"), the mean of all ("mean"), or the first token's
        ("cls"); by default as the model's file says, else the last one, or an encoder's mean. dimensions: only the first ones.
        normalize: their length is 1.
        """
        texts = [texts] if isinstance(texts, str) else list(texts)
        if not all(isinstance(text, str) for text in texts):
            raise Error("embed() takes a text or a list of texts")
        if dimensions is not None and dimensions < 1:
            raise Error(f"dimensions is {dimensions}, but a vector has at least one")
        return self._model.embed(texts, pooling or "", dimensions or 0, normalize)

    def rerank(self, query: str, documents: Sequence[str], *, most: Optional[int] = None, pooling: Optional[str] = None) -> list[tuple[int, float]]:
        """Which documents answer the query best: (index, score), the best first, as `/v1/rerank` has them.

        A model that scores pairs reads the query with each document and gives 0 to 1; of others it is the cosine of their vectors.
        most: only the first ones. pooling: as of embed().
        """
        documents = list(documents)
        if not isinstance(query, str) or not all(isinstance(text, str) for text in documents):
            raise Error("rerank() takes a query and a list of documents, all of them texts")
        if most is not None and most < 1:
            raise Error(f"most is {most}, but there is at least one best document")
        scores = self._model.scores(query, documents, pooling or "")
        return sorted(enumerate(scores), key=lambda scored: -scored[1])[:most]

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """special: with what the model begins a text with, and names such as <|im_end|> as their tokens."""
        return self._model.tokenize(text, special)

    def detokenize(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """special: with the names of control tokens. What is no whole character becomes U+FFFD."""
        return self._model.detokenize(_tokens(tokens), special).decode("utf-8", errors="replace")

    def logits(self, tokens: Sequence[int], *, last: bool = False) -> "numpy.ndarray":
        """Of what follows each of the tokens, as float32 [tokens][vocabulary]; last: behind the last one alone, [1][vocabulary].

        Computed anew, in a cache of its own, so it changes nothing for later answers. Needs numpy.
        """
        numbers = _tokens(tokens)
        if not numbers:
            raise Error("there are no logits of no tokens: give at least one")
        return self._model.logits(numbers, not last)

    def perplexity(self, text: str, *, window: Optional[int] = None, prompt: int = 0, max_tokens: int = 0) -> dict[str, Any]:
        """How well the model predicts a text with this cache, as `kvick ppl` says it.

        window: tokens that are read with an empty cache before, by default 1024 or the context; prompt: of a window, those at
        its front that do not count; max_tokens: of the text, 0 for all.
        """
        window = min(1024, self._facts["context"]) if window is None else window
        return self._model.perplexity(text, {"window": window, "prompt": prompt, "most": max_tokens})

    def bench(self, prompt_tokens: Union[int, Sequence[int]] = 512, new_tokens: Union[int, Sequence[int]] = 128,
              depth: Union[int, Sequence[int]] = 0, *, parallel: Union[int, Sequence[int]] = 1,
              repeats: int = 5) -> list[dict[str, Any]]:
        """How fast it reads prompts and writes answers behind `depth` tokens; one row per measurement, as `kvick bench` has them.

        prompt_tokens, new_tokens: 0 is none of that phase. parallel: sequences that decode together. A row's `tok_s` is the
        median of its `rounds`.
        """
        return self._model.bench({"prompt_tokens": _list(prompt_tokens), "new_tokens": _list(new_tokens), "depth": _list(depth),
                                  "parallel": _list(parallel), "repeats": repeats})

    def _writes(self, name: str, prompt: Prompt, options: Mapping[str, Any]) -> Callable[[Callable[[str], bool]], Answer]:
        if "on_text" in options:
            raise Error(f"{name}() gives the pieces itself: leave on_text out")
        return lambda on_text: self.generate(prompt, on_text=on_text, **options)

    def _tokens_of(self, prompt: Prompt,
                   template: Optional[Mapping[str, Any]]) -> tuple[list[int], bool]:
        """And whether the answer goes on their text."""
        parts = [] if isinstance(prompt, str) else list(prompt)
        if parts and all(isinstance(part, Mapping) for part in parts):
            messages = _json([dict(message) for message in parts], "a message")
            return self._model.chat_prompt(messages, _json(dict(template or {}), "what the chat template is to see")), False
        if template is not None:
            raise Error("template is for messages: texts and tokens are gone on from as they are")
        if isinstance(prompt, str):
            return self._model.text_prompt(prompt), True
        if not all(hasattr(part, "__index__") for part in parts):
            raise Error('a prompt is a text, a list of messages such as {"role": "user", "content": "..."}, or a list of tokens')
        return _tokens(parts), True
