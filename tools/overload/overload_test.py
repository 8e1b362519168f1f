#!/usr/bin/env python3
"""Tests tools/overload against a small fake server that refuses, queues or breaks off requests."""

import asyncio
import contextlib
import io
import pathlib
import random
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import arrivals  # noqa: E402
import judging  # noqa: E402
import overload  # noqa: E402

ANSWER = 4  # tokens


class Service:
    """A fake server that answers two requests at a time, lets four wait, and refuses the others."""

    def __init__(self, retry_after="1", breaks=False):
        self.retry_after, self.breaks = retry_after, breaks
        self.loop, self.ready = asyncio.new_event_loop(), threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        self.ready.wait()

    def run(self):
        asyncio.set_event_loop(self.loop)
        self.turn, self.inside = asyncio.Semaphore(2), 0
        server = self.loop.run_until_complete(asyncio.start_server(self.client, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        self.loop.run_forever()
        server.close()

    def stop(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    async def client(self, reader, writer):
        length = 0
        while (line := await reader.readline()).strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        await reader.readexactly(length)
        if self.inside == 6:
            says = f"Retry-After: {self.retry_after}\r\n" if self.retry_after else ""
            writer.write(f"HTTP/1.1 503 Service Unavailable\r\n{says}\r\nfull".encode())
        else:
            self.inside += 1
            async with self.turn:
                await self.answer(writer)
            self.inside -= 1
        writer.close()

    async def answer(self, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(ANSWER + 1):  # the last event has the finish reason
            await asyncio.sleep(0.005)
            writer.write(b'data: {"choices": [{}]}\n\n')
        if not self.breaks:
            writer.write(b'data: {"choices": [], "usage": {"completion_tokens": 4}}\n\ndata: [DONE]\n\n')


class Overload(unittest.TestCase):
    def run_of(self, **service):
        service = Service(**service)
        self.addCleanup(service.stop)
        args = overload.parsed(["--seconds", "0.6", "--prompt", "3", "--answer", str(ANSWER), "--alone", "3", "--rate", "20"])
        return overload.Run(args, ("127.0.0.1", service.port), None)

    def quietly(self, call):
        with contextlib.redirect_stderr(io.StringIO()):
            return call()

    def test_excess_requests_are_refused_and_counted(self):
        run = self.run_of()
        alone, calm, much = self.quietly(lambda: (run.alone(), run.offered(20), run.offered(600)))
        self.assertEqual((alone["answered"], alone["refused"]), (3, 0))
        self.assertGreater(much["refused"], 0)
        self.assertEqual(much["requests"], much["answered"] + much["refused"])
        self.assertEqual((much["refused_without_retry_after"], much["broken"]), (0, 0))
        self.assertGreater(much["goodput_tok_s"], 0)
        rounds = [{1: calm, 10: much}]
        goals = judging.goals(alone, rounds, 10)
        self.assertTrue(goals["each_refusal_says_when"] and goals["none_broken"])
        cells = overload.table([("10x", much)]).splitlines()[-1]
        self.assertIn(f"| {much['answered']} |", cells)

    def test_a_refusal_without_retry_after_is_counted(self):
        run = self.run_of(retry_after="")
        much = self.quietly(lambda: run.offered(600))
        self.assertEqual(much["refused_without_retry_after"], much["refused"])
        self.assertFalse(judging.goals(much, [{1: much, 10: much}], 10)["each_refusal_says_when"])

    def test_a_broken_answer_does_not_count_as_goodput(self):
        run = self.run_of(breaks=True)
        seen = self.quietly(lambda: run.offered(20))
        self.assertEqual((seen["answered"], seen["broken"], seen["goodput_tok_s"]), (0, seen["requests"], 0))

    def test_a_late_answer_does_not_count_as_goodput(self):
        request = arrivals.Request(1.0)
        request.got = arrivals.load.Exchange(200, {}, "", 0.1, [2.0, 2.5, 3.0, 3.0], 3, True)
        self.assertEqual([judging.good(request, bound) for bound in (1.9, 2.0)], [False, True])
        self.assertEqual(judging.tokens_between(request, 0, 3.6), 2)  # seconds of the phase; the request was sent after 1 s
        self.assertEqual(judging.between([request]), [0.5, 0.5])
        figures = judging.figures([request], 1.9, 0, 5)
        self.assertEqual((figures["in_time"], figures["goodput_tok_s"], figures["answered"]), (0, 0, 1))
        self.assertEqual(judging.figures([request], 2, 0, 5)["goodput_tok_s"], 0.6)

    def test_the_rate_rises_while_goodput_rises(self):
        rates = lambda *goodput: [{"goodput_tok_s": one} for one in goodput]  # noqa: E731
        self.assertFalse(judging.is_past_best(rates(10, 20)))
        self.assertFalse(judging.is_past_best(rates(10, 20, 30, 20)))
        self.assertTrue(judging.is_past_best(rates(10, 20, 20, 10)))

    def test_arrivals_are_a_poisson_process_of_their_rate(self):
        times = arrivals.poisson(random.Random(1), 100, 50)
        self.assertLess(abs(len(times) - 5000), 250)
        gaps = sorted(b - a for a, b in zip(times, times[1:]))
        self.assertLess(gaps[len(gaps) // 2], 0.8 / 100)  # the median of an exponential distribution is 0.69 of its mean

    def test_wrong_options_are_refused(self):
        for words in (["--seconds", "0"], ["--kvick", "kvick"], ["--times", "0,1"]):
            with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                overload.parsed(words)


if __name__ == "__main__":
    unittest.main()
