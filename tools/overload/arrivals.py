"""Sends requests in an open loop: at times that do not depend on the server (Poisson arrivals). Records what became of each."""

import asyncio
import importlib.machinery
import importlib.util
import pathlib
import random
import time

TOOLS = pathlib.Path(__file__).resolve().parents[1]


def load_tool():
    """The module tools/load, which has the client for one request."""
    loader = importlib.machinery.SourceFileLoader("load", str(TOOLS / "load"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("load", loader))
    loader.exec_module(module)
    return module


load = load_tool()


class Request:
    """A request that is due `at` seconds after the begin of its phase, and its response."""

    def __init__(self, at):
        self.at, self.got, self.error = at, None, ""

    @property
    def refused(self):
        return self.got is not None and self.got.status in (429, 503)

    @property
    def answered(self):
        return self.got is not None and self.got.status == 200 and self.got.whole


def poisson(chance, rate, seconds):
    """Random arrival times in seconds, at `rate` arrivals per second on average."""
    times, now = [], chance.expovariate(rate)
    while now < seconds:
        times.append(now)
        now += chance.expovariate(rate)
    return times


class Phase:
    """Sends the requests of one phase and waits for their responses. server: (host, port). work: the options prompt, answer, vocab."""

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
        """Sends `count` requests, one after another."""
        began, requests = time.perf_counter(), []
        for _ in range(count):
            requests.append(Request(time.perf_counter() - began))
            await self.one(began, requests[-1])
        return requests
