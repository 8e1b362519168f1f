"""The class Model: a loaded model with a KV cache that holds one sequence."""

import json
import operator
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
    """The options that are not None. The engine has defaults for the others."""
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
    """The options of generate(), as the compiled module takes them. Raises TypeError for an unknown option."""
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
    try:
        numbers = [operator.index(token) for token in tokens]  # converts numpy integers as well
    except TypeError:
        raise Error("tokens are a list of whole numbers; tokenize() makes them of a text") from None
    for token in numbers:
        if not 0 <= token < 1 << 31:
            raise Error(f"{token} is not a token: tokens are numbers from 0 up to the vocabulary's size")
    return numbers


class Model:
    """A loaded model with a KV cache that holds one sequence.

    The cache keeps the last prompt and its answer. A new prompt reuses the part that it has in common with them, so pass the
    whole conversation of a chat each time. Several threads may share a model; their calls run one after another. A model's
    threads do not survive os.fork(): with multiprocessing, use the start method "spawn".

    The methods raise kvick.Error for mistakes of the caller: an option out of range, a prompt longer than the context, no room.
    """

    def __init__(self, model: Union[str, "os.PathLike[str]"] = "smollm2", *, kv: Optional[str] = None,
                 kv_type: Optional[str] = None, kv_tier: Optional[str] = None, kv_select: Optional[str] = None, kv_memory: Optional[int] = None,
                 spec: Optional[str] = None, prompt_arithmetic: Optional[str] = None, context: Optional[int] = None,
                 threads: Optional[int] = None) -> None:
        """Loads a model.

        model: a .gguf file, a Hugging Face folder, or a name that `kvick run` accepts, such as "smollm2" or
        "hf:Qwen/Qwen3-0.6B-GGUF:Q8_0". A named model is downloaded if it is not on this machine.
        kv, kv_type, kv_tier, kv_select, spec, prompt_arithmetic: the values of the options of `kvick run` with these names.
        kv_memory: limit for keys and values in bytes; default: the free memory.
        context: maximum length of a sequence in tokens; default: the model's context.
        threads: number of threads; default: one for each processor that this process may use.

        Raises kvick.Error if an option is wrong or the file is not a model that kvick can read, and RuntimeError if a download
        fails.
        """
        path = find_model(model)
        before, _strategies.models_opened = _strategies.models_opened, True
        try:
            self._model = _kvick.Model(_given(path=path, kv=kv, kv_type=kv_type, kv_tier=kv_tier, kv_select=kv_select,
                                              spec=spec, prompt_arithmetic=prompt_arithmetic, kv_memory=kv_memory,
                                              context=context, threads=threads))
        except BaseException:
            _strategies.models_opened = before  # the caller may load a missing plugin and try again
            raise
        self._facts: dict[str, Any] = self._model.facts()

    @property
    def facts(self) -> dict[str, Any]:
        """`name`, `family`, `context` (tokens), `vocabulary` (tokens), `weight_bytes`, `kv`, `kv_type`, `isa`, `has_chat_template`."""
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
        """Generates an answer to a prompt.

        prompt: a text or tokens, which the model continues without a chat template; or messages, which are formatted with its
        chat template.
        max_tokens: maximum length of the answer in tokens; 0: until the model ends it or the context is full.
        temperature: 0 is greedy decoding. Sampling options that are None have the defaults of `kvick run`.
        logit_bias: {token: number added to its logit}.
        seed: seed of the random numbers; default: a random one.
        stop: texts that end the answer; they are not part of it.
        ignore_end: continue past the model's end tokens.
        schema: a JSON Schema. The answer is a JSON text that satisfies it, unless max_tokens cuts it off.
        template: further variables for the chat template, such as {"tools": [...]} or {"enable_thinking": False}.
        on_text: called with each piece of the answer once its text can no longer change, and with "" while the prompt is
        processed. If it returns False, the answer ends. What it raises ends the answer and is raised here.
        """
        tokens, continues = self._tokens_of(prompt, template)
        fields = _fields(max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
                         repetition_penalty=repetition_penalty, presence_penalty=presence_penalty,
                         frequency_penalty=frequency_penalty, logit_bias=logit_bias, seed=seed, stop=stop, ignore_end=ignore_end,
                         schema=schema)
        fields.update(prompt=tokens, continues=continues)
        return Answer(**self._model.generate(fields, on_text))

    def chat(self, messages: Sequence[Message], **options: Any) -> Answer:
        """Answers a conversation as the assistant, using the model's chat template. options: those of generate()."""
        if isinstance(messages, (str, bytes)):
            raise Error('chat() takes messages, [{"role": "user", "content": "..."}]; generate() takes a text')
        return self.generate(messages, **options)

    def stream(self, prompt: Prompt, **options: Any) -> "Stream":
        """generate() as an iterator over the pieces of the answer. options: those of generate() except on_text.

        Leaving the loop ends the answer. Afterwards the iterator's `answer` is what generate() would have returned."""
        return Stream(self._writes("stream", prompt, options))

    def astream(self, prompt: Prompt, **options: Any) -> AsyncStream:
        """stream() for asyncio: `async for piece in model.astream(...)`. Cancelling the task ends the answer."""
        return AsyncStream(self._writes("astream", prompt, options))

    async def agenerate(self, prompt: Prompt, **options: Any) -> Answer:
        """generate() for asyncio, without on_text. Concurrent calls run one after another; batch() computes answers together."""
        return await self.astream(prompt, **options).read()

    def batch(self, prompts: Sequence[Prompt], *, parallel: int = 64, template: Optional[Mapping[str, Any]] = None,
              on_answer: Optional[Callable[[int, Answer], Optional[bool]]] = None, **options: Any) -> list[Answer]:
        """Answers many prompts together, which is several times as fast as one after another. Returns answers in prompt order.

        parallel: maximum number of prompts computed at once.
        on_answer: called with a prompt's index (from 0) and its answer when that answer has ended. If it returns False, the
        answers that have not ended are cancelled.
        options: those of generate() except on_text. They apply to all prompts; prompt i has the seed `seed` + i.

        A common prefix of several prompts is computed once. The call has a cache of its own, in the part of kv_memory that the
        model's sequence does not use, and keeps nothing of it for later calls. An error names its prompt and cancels the others.
        """
        if isinstance(prompts, (str, bytes)):
            raise Error("batch() takes a list of prompts; generate() takes one")
        if "on_text" in options:
            raise Error("batch() does not take on_text: use on_answer, which gets whole answers")
        if parallel < 1:
            raise Error(f"parallel is {parallel}; it must be at least 1")
        given = []
        for prompt in prompts:
            tokens, continues = self._tokens_of(prompt, template)
            given.append({"prompt": tokens, "continues": continues})
        told = None if on_answer is None else lambda number, fields: on_answer(number, Answer(**fields))
        return [Answer(**fields) for fields in self._model.batch(given, _fields(**options), parallel, told)]

    def embed(self, texts: Union[str, Sequence[str]], *, pooling: Optional[str] = None, dimensions: Optional[int] = None,
              normalize: bool = True) -> "numpy.ndarray":
        """The embedding of each text: float32 [texts][width], as `kvick embed` computes them. Needs numpy.

        pooling: how a text's vector is made from the hidden states of its tokens: the last token's ("last"), their mean ("mean")
        or the first token's ("cls"). Default: what the model's file says; otherwise "mean" for an encoder and "last" for others.
        dimensions: keep only the first `dimensions` components of each vector. Default: all.
        normalize: scale each vector to length 1.
        """
        texts = [texts] if isinstance(texts, str) else list(texts)
        if not all(isinstance(text, str) for text in texts):
            raise Error("embed() takes a text or a list of texts")
        if dimensions is not None and dimensions < 1:
            raise Error(f"dimensions is {dimensions}; it must be at least 1")
        return self._model.embed(texts, pooling or "", dimensions or 0, normalize)

    def rerank(self, query: str, documents: Sequence[str], *, most: Optional[int] = None, pooling: Optional[str] = None) -> list[tuple[int, float]]:
        """Ranks documents by how well they answer the query, as `/v1/rerank` does: (index, score) pairs, best first.

        A cross-encoder reads the query together with each document and scores the pair from 0 to 1. For other models the score
        is the cosine similarity of the two embeddings.
        most: return only the best `most` documents. pooling: as in embed().
        """
        documents = list(documents)
        if not isinstance(query, str) or not all(isinstance(text, str) for text in documents):
            raise Error("rerank() takes a query and a list of documents, all of them texts")
        if most is not None and most < 1:
            raise Error(f"most is {most}; it must be at least 1")
        scores = self._model.scores(query, documents, pooling or "")
        return sorted(enumerate(scores), key=lambda scored: -scored[1])[:most]

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """The tokens of a text. special: add the tokens that the model puts before a text, and parse the names of control tokens,
        such as <|im_end|>, as those tokens."""
        return self._model.tokenize(text, special)

    def detokenize(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """The text of tokens. special: include the names of control tokens. Incomplete UTF-8 characters become U+FFFD."""
        return self._model.detokenize(_tokens(tokens), special).decode("utf-8", errors="replace")

    def logits(self, tokens: Sequence[int], *, last: bool = False) -> "numpy.ndarray":
        """The logits of the token after each token: float32 [tokens][vocabulary]; with last, only the final row: [1][vocabulary].

        Uses a cache of its own, so the model's sequence stays as it is. Needs numpy.
        """
        numbers = _tokens(tokens)
        if not numbers:
            raise Error("logits() needs at least one token")
        return self._model.logits(numbers, not last)

    def perplexity(self, text: str, *, window: Optional[int] = None, prompt: int = 0, max_tokens: int = 0) -> dict[str, Any]:
        """Measures how well the model predicts a text with this cache, as `kvick ppl` does.

        window: length of a window in tokens; each window starts with an empty cache. Default: 1024, or the context if shorter.
        prompt: number of tokens at the start of each window that are read as a prompt and not scored.
        max_tokens: use only this many tokens of the text; 0: all.

        Returns `perplexity`, `nll` (mean negative log-likelihood per token, in nats), `nll_error` (its standard error over the
        windows), `tokens` (predicted), `kv_bytes` (allocated for a full window) and `kv_read_bytes_per_token`.
        """
        window = min(1024, self._facts["context"]) if window is None else window
        return self._model.perplexity(text, {"window": window, "prompt": prompt, "most": max_tokens})

    def bench(self, prompt_tokens: Union[int, Sequence[int]] = 512, new_tokens: Union[int, Sequence[int]] = 128,
              depth: Union[int, Sequence[int]] = 0, *, parallel: Union[int, Sequence[int]] = 1,
              repeats: int = 5) -> list[dict[str, Any]]:
        """Measures the speed of prefill and decode, as `kvick bench` does. Every argument but repeats may be a list of values.

        prompt_tokens: length of a prefill in tokens; 0: do not measure prefill.
        new_tokens: length of a decode in tokens per sequence; 0: do not measure decode.
        depth: tokens in each sequence's cache before the measurement.
        parallel: sequences that decode together.
        repeats: timed rounds of each measurement.

        Returns one row for each measurement: `phase`, `tokens`, `depth`, `parallel`, `rounds` (tokens per second of each round,
        over all sequences), `tok_s` (their median), `spread` ((highest - lowest) / median), `kv_used_bytes`,
        `kv_allocated_bytes` and `kv_copied_bytes`.
        """
        return self._model.bench({"prompt_tokens": _list(prompt_tokens), "new_tokens": _list(new_tokens), "depth": _list(depth),
                                  "parallel": _list(parallel), "repeats": repeats})

    def _writes(self, name: str, prompt: Prompt, options: Mapping[str, Any]) -> Callable[[Callable[[str], bool]], Answer]:
        if "on_text" in options:
            raise Error(f"{name}() yields the pieces itself: leave on_text out")
        return lambda on_text: self.generate(prompt, on_text=on_text, **options)

    def _tokens_of(self, prompt: Prompt,
                   template: Optional[Mapping[str, Any]]) -> tuple[list[int], bool]:
        """The tokens of a prompt, and whether the answer continues their text (True) or replies to messages (False)."""
        parts = [] if isinstance(prompt, str) else list(prompt)
        if parts and all(isinstance(part, Mapping) for part in parts):
            messages = _json([dict(message) for message in parts], "a message")
            return self._model.chat_prompt(messages, _json(dict(template or {}), "template")), False
        if template is not None:
            raise Error("template is for messages: a text or tokens are continued without a chat template")
        if isinstance(prompt, str):
            return self._model.text_prompt(prompt), True
        if not all(hasattr(part, "__index__") for part in parts):
            raise Error('a prompt is a text, a list of messages such as {"role": "user", "content": "..."}, or a list of tokens')
        return _tokens(parts), True
