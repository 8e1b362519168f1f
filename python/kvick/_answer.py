"""A model's answer, as a whole (Answer) or streamed in pieces of text (Stream, AsyncStream)."""

import asyncio
import dataclasses
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Optional, Union


@dataclasses.dataclass(frozen=True)
class Answer:
    """The text and tokens of an answer, with token counts and times."""

    text: str
    tokens: list[int]  # generated tokens, without the end token
    finish_reason: str  # "stop", "length" or "cancelled"
    prompt_tokens: int
    cached_tokens: int  # prompt tokens whose cached rows were reused
    prefill_s: float  # seconds to process the prompt
    decode_s: float  # seconds to generate the answer
    drafted: int  # draft tokens of speculative decoding
    accepted: int  # draft tokens that the model accepted

    @property
    def usage(self) -> dict[str, int]:
        """Token counts under the names of OpenAI's API."""
        return {"prompt_tokens": self.prompt_tokens, "completion_tokens": len(self.tokens),
                "total_tokens": self.prompt_tokens + len(self.tokens), "cached_tokens": self.cached_tokens}

    def __str__(self) -> str:
        return self.text


Generate = Callable[[Callable[[str], bool]], Answer]  # generates an answer and passes each piece of text to its argument
_Written = Union[str, Answer, BaseException]


class _Writer:
    """A thread that generates an answer. It passes each piece of text to put(), and finally the Answer or the exception."""

    def __init__(self, generate: Generate, put: Callable[[_Written], None]) -> None:
        self._generate = generate
        self._put = put
        self._wanted = True
        self._thread = threading.Thread(target=self._write, name="kvick answer")
        self._thread.start()

    def _take(self, piece: str) -> bool:
        if piece:
            self._put(piece)
        # The interpreter joins its threads at exit. Stop then, so that an unread answer does not delay the exit.
        return self._wanted and threading.main_thread().is_alive()

    def _write(self) -> None:
        try:
            self._put(self._generate(self._take))
        except BaseException as error:  # raised again in the reader
            self._put(error)

    def stop(self) -> None:
        """Ends the answer after the current step. Does not wait."""
        self._wanted = False

    def join(self) -> None:
        self._thread.join()


class Stream:
    """An iterator over the pieces of an answer, which a thread generates in the background.

    Iterating raises what the generation raised. Leaving the loop ends the answer.
    """

    def __init__(self, generate: Generate) -> None:
        self.answer: Optional[Answer] = None  # the whole answer; None until it has ended
        self._pieces: "queue.SimpleQueue[_Written]" = queue.SimpleQueue()
        self._ended = False
        self._writer = _Writer(generate, self._pieces.put)

    def __iter__(self) -> Iterator[str]:
        try:
            while not self._ended:
                piece = self._pieces.get()
                if isinstance(piece, str):
                    yield piece
                    continue
                self._ended = True
                if isinstance(piece, BaseException):
                    raise piece
                self.answer = piece
        finally:
            self.close()

    def close(self) -> None:
        """Ends the answer and waits for the current step to finish."""
        self._writer.stop()
        self._writer.join()
        while not self._ended:
            piece = self._pieces.get()
            if isinstance(piece, str):
                continue
            self._ended = True
            if isinstance(piece, Answer):
                self.answer = piece


class AsyncStream:
    """Stream for asyncio. It must be created while an event loop runs (RuntimeError otherwise)."""

    def __init__(self, generate: Generate) -> None:
        self.answer: Optional[Answer] = None  # the whole answer; None until it has ended
        self._loop = asyncio.get_running_loop()
        self._pieces: "asyncio.Queue[_Written]" = asyncio.Queue()
        self._ended = asyncio.Event()  # set once the last item is in the queue, even if it has not been read
        self._writer = _Writer(generate, self._put)

    def _put(self, piece: _Written) -> None:
        try:
            self._loop.call_soon_threadsafe(self._arrive, piece)
        except RuntimeError:  # the event loop is closed, so nobody reads
            self._writer.stop()

    def _arrive(self, piece: _Written) -> None:
        self._pieces.put_nowait(piece)
        if isinstance(piece, Answer):
            self.answer = piece
        if not isinstance(piece, str):
            self._ended.set()

    async def __aiter__(self) -> AsyncIterator[str]:
        try:
            while not (self._ended.is_set() and self._pieces.empty()):
                piece = await self._pieces.get()
                if isinstance(piece, BaseException):
                    raise piece
                if isinstance(piece, str):
                    yield piece
        finally:
            await self.aclose()

    async def read(self) -> Answer:
        """Waits for the end and returns the whole answer."""
        async for _ in self:
            pass
        assert self.answer is not None
        return self.answer

    async def aclose(self) -> None:
        """Ends the answer and waits for the current step to finish. Leaving the `async for` loop calls it; any task may call it."""
        self._writer.stop()
        await self._ended.wait()
