"""The clients of the chaos test: they send valid and invalid requests and record the answers."""

import collections
import dataclasses
import http.client
import json
import random
import socket
import threading
import time

import questions

BAD_BODIES = (b"{", b"[]", b"\xff\xfe{}", b'{"prompt": 5}', b'{"prompt": "a", "temperature": "hot"}', b'{"prompt": "a", "n": 100000}',
              b'{"prompt": "a", "kv": {"strategy": "none"}}', b'{"prompt": "a", "kv": {"strategy": "bounded"}}',
              b'{"prompt": "a", "kv": {"type": "q8", "select": "none:x=1"}}', b'{"prompt": "a", "spec": "skip:layers=0-99"}',
              b'{"prompt": [1, 2, 100000]}', b'{"prompt": [' + b"7," * 5000 + b"7]}", b"[" * 100000)
# What a client does with a request, and how often (relative weights).
MANNERS = {"asks": 60, "vanishes": 12, "stalls": 5, "sends_slowly": 4, "sends_half": 4, "sends_garbage": 9, "converses": 6}
REPORTED = 10  # maximum number of messages kept for each kind of failure


class CutOff(Exception):
    """An event stream that ended with an error or without [DONE], although the connection did not break, or a router's report that a
    server's connection broke."""


class Busy(Exception):
    """Status 503, or the error code "busy" in an event stream."""


class Load:
    """State shared by all streams. Each stream has its own random generator; the counts are guarded by the lock."""

    def __init__(self, args, servers, prompts):
        self.args, self.servers, self.prompts = args, servers, prompts
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.failures = collections.defaultdict(list)  # kind of failure -> the first messages
        self.answers = collections.defaultdict(dict)  # question -> {answer: description of the first request that got it}
        self.requests, self.answered, self.compared = (collections.Counter() for _ in range(3))  # by server
        self.began = time.monotonic()
        self.until = self.began + args.seconds

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def fail(self, sort, words):
        with self.lock:
            self.counts[sort] += 1
            if len(self.failures[sort]) < REPORTED:
                self.failures[sort].append(f"{time.monotonic() - self.began:.1f} s: {words}")

    def run(self):
        """Starts the streams and returns their threads, which end when the time is over."""
        streams = [threading.Thread(target=self.stream, args=(i,), daemon=True) for i in range(self.args.streams)]
        for stream in streams:
            stream.start()
        return streams

    def stream(self, number):
        generator = random.Random(f"stream {self.args.seed} {number}")
        names = list(self.servers)
        time.sleep(generator.random() * min(3, self.args.seconds / 10))
        while time.monotonic() < self.until:
            manner = generator.choices(list(MANNERS), list(MANNERS.values()))[0]
            self.count(manner)
            if manner == "converses":
                self.converse(generator)
            else:
                self.insist(Request(self, self.servers[generator.choice(names)], generator), manner)

    def converse(self, generator):
        """One conversation with servers that share the store. Each turn goes to another server than the one before, or all to the
        router, so a server can read rows that another one has written."""
        replicas = self.servers["router"].replicas
        servers = generator.choice([[self.servers["router"]], replicas, replicas[::-1]])
        request = Request(self, servers[0], generator, talks=True)
        for turn in range(1, questions.TURNS + 1):
            self.insist(request, "asks")
            if turn == questions.TURNS or not request.ids:
                return
            request = Request(self, servers[turn % len(servers)], generator, talks=True, before=request, turn=turn)

    def insist(self, request, manner):
        """Sends a request, up to five times if its server was killed or is busy."""
        for _ in range(5):
            if self.one(request.server, request, manner):
                return
            self.count("asked_again")
            time.sleep(0.2 + request.generator.random() / 2)

    def one(self, server, request, manner):
        """Sends one request. False if it must be sent again because its server was killed or is busy."""
        began = time.monotonic()
        with self.lock:
            self.requests[server.name] += 1
        try:
            getattr(request, manner)()
            return True
        except Busy:
            self.count("busy")
            return False
        except (OSError, http.client.HTTPException, ValueError, KeyError, CutOff) as error:
            if server.excuses(began):
                self.count("lost_with_a_server")
                return time.monotonic() >= self.until
            sort = "hangs" if isinstance(error, TimeoutError) else "broken_answers"
            self.fail(sort, f"{server.name}, {manner}, {request.words()}: {error!r} after {time.monotonic() - began:.1f} s")
            return True
        finally:
            if time.monotonic() - began > self.args.bound:
                self.fail("hangs", f"{server.name}, {manner}, {request.words()}: {time.monotonic() - began:.1f} s")


class Request:
    """talks: it is a turn of a conversation. before: the request of the turn before, if there was one."""

    def __init__(self, load, server, generator, talks=False, before=None, turn=0):
        self.load, self.server, self.generator, self.talks = load, server, generator, talks
        self.ids = ()  # tokens of the only answer
        if before is None:
            kinds = questions.palette(load.args.seed, server.model, time.monotonic() - load.began)
            self.kind = generator.choice(kinds if generator.random() < 0.9 else questions.KINDS)
            # A conversation goes to several servers, each with another policy of its own.
            if server.policy and not talks and generator.random() < 0.1:
                self.kind = questions.Kind(select=server.policy)
            self.salt = generator.choice((None, None, None, "a", "b"))
            model = server.model or generator.choice(questions.MODELS)
            how = generator.choices(tuple(questions.HOW), (65, 25, 0 if talks else 10))[0]
            question = questions.Question(model, self.kind.row_type(), generator.randrange(len(load.prompts)), how)
        else:
            self.kind, self.salt, question = before.kind, before.salt, before.question
            turns = (*question.turns, *before.ids, *questions.next_turn(question.prompt, turn))
            question = dataclasses.replace(question, turns=turns)
        tokens = question.tokens(load.prompts)
        self.exact = self.kind.exact_for(tokens)
        self.question = dataclasses.replace(question, select=self.kind.choice_for(tokens))
        self.body = self.make_body()

    def make_body(self):
        body, generator = self.question.body(self.load.prompts), self.generator
        # With a policy, the draft tokens of a step choose rows together, so speculative decoding changes the answers.
        likeliest, searched = (self.question.how == how for how in ("likeliest", "searched"))
        drafts = self.exact and not searched and self.question.select is None
        spec = generator.choice(questions.SPECS) if drafts else None
        model = self.question.model if self.server.model is None else None
        for name, value in (("kv", self.kind.fields(self.server.policy)), ("spec", spec), ("model", model),
                            ("cache_salt", self.salt), ("priority", generator.choice((0, 0, 0, -1))),
                            ("cache_prompt", generator.choice((None, None, None, None, False)) if not self.talks else None),
                            ("n", generator.choice((1, 1, 1, 2)) if likeliest and not self.talks else 1)):
            if value or value is False:
                body[name] = value
        body["stream"] = generator.random() < 0.6
        return body

    def words(self):
        fields = {name: value for name, value in self.body.items() if name in ("kv", "spec", "model", "cache_salt", "n", "stream", "seed", "best_of")}
        return f"prompt {self.question.prompt} of {len(self.body['prompt'])} tokens, {json.dumps(fields)}"

    def send(self, slowly=False):
        """Sends the request and waits for the response to begin; returns the connection and the response. slowly: sends the first
        bytes of the body one per second."""
        data = json.dumps(self.body).encode()
        connection = socket.create_connection(("127.0.0.1", self.server.port), self.load.args.bound)
        head = (f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n").encode()
        try:
            sent = 0
            connection.sendall(head)
            while slowly and sent < min(len(data), self.generator.randrange(2, 8)):
                connection.sendall(data[sent:sent + 1])
                sent += 1
                time.sleep(1)
            connection.sendall(data[sent:])
            response = http.client.HTTPResponse(connection)
            response.begin()
            return connection, response
        except BaseException:
            connection.close()
            raise

    def asks(self, slowly=False, stall=0.0):
        connection, response = self.send(slowly)
        with connection:
            time.sleep(stall)
            if response.status != 200:
                return self.judge_status(response.status, response.read(500))
            choices = self.events(response) if self.body["stream"] else json.loads(response.read())["choices"]
        self.judge(questions.answer_of(choices))

    def stalls(self):
        self.asks(stall=self.generator.uniform(0.5, 5))

    def sends_slowly(self):
        self.asks(slowly=True)

    def vanishes(self):
        self.body["stream"] = True
        connection, response = self.send()
        with connection:
            for _ in range(self.generator.randrange(0, 10)):
                response.readline()

    def sends_half(self):
        data = json.dumps(self.body).encode()
        with socket.create_connection(("127.0.0.1", self.server.port), self.load.args.bound) as connection:
            whole = b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data)
            connection.sendall(whole[:self.generator.randrange(1, len(whole))])
            time.sleep(self.generator.uniform(0, 2))

    def sends_garbage(self):
        with socket.create_connection(("127.0.0.1", self.server.port), self.load.args.bound) as connection:
            if self.generator.random() < 0.3:
                connection.sendall(self.generator.randbytes(self.generator.randrange(1, 300)) + b"\r\n\r\n")
            else:
                body = self.generator.choice(BAD_BODIES)
                connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                                   b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            status = connection.recv(100).split(b" ")[1:2]
        if status and not 400 <= int(status[0]) < 500:  # closing the connection without a response is right too
            self.judge_status(int(status[0]), b"to garbage")

    def judge_status(self, status, text):
        if status == 503:
            raise Busy
        if status >= 500 and self.server.reports_others:
            raise CutOff(f"status {status} {text!r}")
        sort = "server_errors" if status >= 500 else "wrong_statuses"
        self.load.fail(sort, f"{self.server.name}, {self.words()}: {status} {text!r}")

    def events(self, response):
        choices = []
        for line in response:
            if not line.startswith(b"data: "):
                continue
            if line.strip() == b"data: [DONE]":
                return choices
            event = json.loads(line[6:])
            if "error" in event:
                if event["error"].get("code") == "busy":  # the server can notice this after the stream has begun
                    raise Busy
                raise CutOff(event["error"]["message"])
            choices += event["choices"]
        raise CutOff("the stream ended without [DONE]")

    def judge(self, answers):
        self.load.count("answers")
        with self.load.lock:
            self.load.answered[self.server.name] += 1
        if len(answers) != self.body["n"] or not all(map(self.question.whole, answers)):
            return self.load.fail("torn_answers", f"{self.server.name}, {self.words()}: {answers}")
        self.ids = answers[0][1]
        if not self.exact:
            return self.load.count("answers_of_lossy_kinds")
        said = f"{time.monotonic() - self.load.began:.1f} s, {self.server.name}, {self.words()}"
        with self.load.lock:
            self.load.compared[self.server.name] += 1
            for answer in answers:
                self.load.answers[self.question].setdefault(answer, said)
