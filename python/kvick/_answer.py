"""What a model answers, whole and in pieces."""

import asyncio
import dataclasses
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Optional, Union


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a model answered, and what that took."""

    text: str
    tokens: list[int]
    finish_reason: str  # "stop", "length" or "cancelled"
    prompt_tokens: int
    cached_tokens: int  # of the prompt, not computed again
    prefill_s: float
    decode_s: float
    drafted: int  # tokens guessed ahead
    accepted: int  # draft tokens accepted

    @property
    def usage(self) -> dict[str, int]:
        """The tokens, in the words of OpenAI's API."""
        return {"prompt_tokens": self.prompt_tokens, "completion_tokens": len(self.tokens),
                "total_tokens": self.prompt_tokens + len(self.tokens), "cached_tokens": self.cached_tokens}

    def __str__(self) -> str:
        return self.text


Generate = Callable[[Callable[[str], bool]], Answer]  # writes an answer, of which it hands over each piece
_Written = Union[str, Answer, BaseException]


class _Writer:
    """A thread that writes an answer and hands its pieces over, and last the answer, or what was raised."""

    def __init__(self, generate: Generate, put: Callable[[_Written], None]) -> None:
        self._generate = generate
        self._put = put
        self._wanted = True
        self._thread = threading.Thread(target=self._write, name="kvick answer")
        self._thread.start()

    def _take(self, piece: str) -> bool:
        if piece:
            self._put(piece)
        # A program that ends waits for its threads: it is not kept waiting for an answer that nobody reads.
        return self._wanted and threading.main_thread().is_alive()

    def _write(self) -> None:
        try:
            self._put(self._generate(self._take))
        except BaseException as error:  # raised again where the pieces are read
            self._put(error)

    def stop(self) -> None:
        """At the end of the step that is being computed."""
        self._wanted = False

    def join(self) -> None:
        self._thread.join()


class Stream:
    """Pieces of an answer as they are written, by a thread of their own."""

    def __init__(self, generate: Generate) -> None:
        self.answer: Optional[Answer] = None  # once it has ended
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
        """Ends the answer, and waits for the step that is being computed."""
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
    """The same for asyncio, made where a loop runs."""

    def __init__(self, generate: Generate) -> None:
        self.answer: Optional[Answer] = None  # once it has ended
        self._loop = asyncio.get_running_loop()
        self._pieces: "asyncio.Queue[_Written]" = asyncio.Queue()
        self._ended = asyncio.Event()  # the last piece is there, though it may not have been read
        self._writer = _Writer(generate, self._put)

    def _put(self, piece: _Written) -> None:
        try:
            self._loop.call_soon_threadsafe(self._arrive, piece)
        except RuntimeError:  # the loop is closed: nobody reads
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
        """The whole answer."""
        async for _ in self:
            pass
        assert self.answer is not None
        return self.answer

    async def aclose(self) -> None:
        """Ends the answer, and waits for the step that is being computed. Any task may call it, and a loop that is left calls it
        too."""
        self._writer.stop()
        await self._ended.wait()
