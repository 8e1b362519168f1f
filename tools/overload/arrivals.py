"""Requests that come when they come, however busy the server is (an open loop, Poisson arrivals), and what became of each."""

import asyncio
import importlib.machinery
import importlib.util
import pathlib
import random
import time

TOOLS = pathlib.Path(__file__).resolve().parents[1]


def load_tool():
    """tools/load, which has the client of one request."""
    loader = importlib.machinery.SourceFileLoader("load", str(TOOLS / "load"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("load", loader))
    loader.exec_module(module)
    return module


load = load_tool()


class Request:
    """One that was sent `at` seconds into its phase."""

    def __init__(self, at):
        self.at, self.got, self.error = at, None, ""

    @property
    def refused(self):
        return self.got is not None and self.got.status in (429, 503)

    @property
    def answered(self):
        return self.got is not None and self.got.status == 200 and self.got.whole


def poisson(chance, rate, seconds):
    """Times of arrivals."""
    times, now = [], chance.expovariate(rate)
    while now < seconds:
        times.append(now)
        now += chance.expovariate(rate)
    return times


class Phase:
    """Sends requests at their times, and waits for their ends."""

    def __init__(self, server, work, seed):
        self.host, self.port = server
        self.work, self.chance = work, random.Random(seed)

    def body(self):
        prompt = [self.chance.randrange(1000, self.work.vocab) for _ in range(self.work.prompt)]
        return load.body_of(prompt, self.work.answer)

    async def one(self, began, request):
        due = began + request.at
        await asyncio.sleep(max(0, due - time.perf_counter()))
        try:
            request.got = await load.exchange(self.host, self.port, self.body(), due)
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            request.error = repr(error)

    async def open(self, rate, seconds):
        requests = [Request(at) for at in poisson(self.chance, rate, seconds)]
        began = time.perf_counter()
        await asyncio.gather(*(self.one(began, request) for request in requests))
        return requests

    async def alone(self, count):
        """One behind the other."""
        began, requests = time.perf_counter(), []
        for _ in range(count):
            requests.append(Request(time.perf_counter() - began))
            await self.one(began, requests[-1])
        return requests
