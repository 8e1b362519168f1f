"""Judges a run: compares answers with those of a reference server without faults, and checks the servers' state at the end."""

import json
import re
import signal
import statistics
import time

import questions
import ranks

IDLE_SECONDS = 60
# Lines that a server may write to stderr because of the faults. Any other line is a failure.
EXPECTED = (
    r"^kvick: the store at 127\.0\.0\.1:\d+/0 (answers again$|is not used until it answers: |refuses rows, so servers find no new ones there: OOM |takes rows again$)",
    # Rows of these policies are not stored. Those of requests with another policy are.
    r"^kvick: --kv-dir: no files of rows are read or written: \S+ keeps rows of \S+ where they cannot be moved under (kvzap|duo); ",
    r"^kvick: (loaded|unloads) the model (plain|windows|states)$",
)


class Reference:
    """Reference answers, requested one at a time from a separate server for each model and own policy, and kept for further runs."""

    def __init__(self, start):
        self.start, self.answers = start, {}  # start(model, policy) starts a server; policy: one that has a file, or None

    def learn(self, wanted, prompts):
        by_server = {}
        for question in wanted:
            if question not in self.answers:
                policy = question.select if question.select in questions.FILES else None
                by_server.setdefault((question.model, policy), []).append(question)
        for (model, policy), missing in by_server.items():
            server = self.start(model, policy)
            try:
                for question in missing:
                    status, answer = ask(server, question.reference(prompts))
                    if status != 200:
                        raise RuntimeError(f"the reference of {question} has status {status}: {answer}")
                    self.answers[question] = questions.answer_of(answer["choices"])[0]
            finally:
                server.kill()


def ask(server, body):
    connection = server.connect(IDLE_SECONDS)
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read() or "null")  # a router whose servers are gone sends no body
    finally:
        connection.close()


def wrong_answers(load, reference):
    reference.learn(load.answers, load.prompts)
    for question, answers in load.answers.items():
        right = reference.answers[question]
        for answer, said in answers.items():
            if answer != right:
                load.fail("wrong_answers", f"{said}: got {answer}, expected {right}")


def last_words(load, server):
    """After the load, asks each model of the server for answers to two long prompts. They must be right although the cache files
    were damaged."""
    for model in questions.MODELS if server.model is None else (server.model,):
        for prompt in (1, 2):
            question = questions.Question(model, None, prompt, "likeliest")
            kv = questions.Kind().fields(server.policy)
            body = {**question.body(load.prompts), **({"model": model} if server.model is None else {}), **({"kv": kv} if kv else {})}
            try:
                status, answer = ask(server, body)
            except OSError as error:
                status, answer = 0, repr(error)
            if status != 200:
                load.fail("no_last_word", f"{server.name}, {model}: {status} {answer}")
                continue
            with load.lock:
                load.answers[question].setdefault(questions.answer_of(answer["choices"])[0], f"{server.name}, at the end")


def left_over(server):
    """(gauges that should be zero on an idle server but are not after IDLE_SECONDS, all metrics)."""
    until = time.monotonic() + IDLE_SECONDS
    while True:
        metrics = server.metrics()
        left = {name: value for name, value in metrics.items() if value and (
            name.startswith(("jobs{", "job_tokens", "kv_sequences"))
            or (name.startswith("kv_bytes{") and ('what="used"' in name or 'what="wasted"' in name)))}
        if not left or time.monotonic() > until:
            return left, metrics
        time.sleep(0.2)


def unexpected_lines(server):
    """The lines of a server's log that no fault explains. vllm-router logs each failed request."""
    expected = (*EXPECTED, *(ranks.EXPECTED if isinstance(server, ranks.RankServer) else ()))
    lines = server.log.read_text(errors="replace").splitlines() if not server.reports_others else ()
    return [line for line in lines if not any(re.search(pattern, line) for pattern in expected)]


def grown(samples):
    """By how many MB a server's resident memory grew too much between two restarts, or 0.

    The median of the last third of the samples may exceed that of the middle third by a quarter plus 16 MB, since faults make memory
    vary by as much. The first third is for warming up. Fewer than 60 samples (half a minute) are not judged."""
    third = len(samples) // 3
    if third < 20:
        return 0
    middle, last = statistics.median(samples[third:-third]), statistics.median(samples[-third:])
    return max(0, last - (1.25 * middle + 16))


def close(load, server, bound):
    """Checks a server after its clients have ended, stops it, and returns the metrics that are worth reporting."""
    metrics = {}
    if server.alive():
        try:
            last_words(load, server)
            left, metrics = left_over(server) if server.name != "router" else ({}, {})
            if left:
                load.fail("left_over", f"{server.name}: {left}")
        except OSError as error:
            load.fail("hangs", f"{server.name}, at the end: {error!r}")
        status = server.end(signal.SIGTERM, bound)
        if status != 0 and not server.reports_others:
            load.fail("bad_ends", f"{server.name} ended with status {status} after SIGTERM")
    for words in server.trouble:
        load.fail("bad_ends", words)
    for line in unexpected_lines(server):
        load.fail("unexpected_lines", f"{server.name}: {line}")
    if not load.answered[server.name]:
        load.fail("no_answers", server.name)
    return {name: value for name, value in metrics.items()
            if value and name.startswith(("kv_file_events", "kv_store_events", "preemptions", "kv_resumed", "accepted", "http_dropped"))}
