"""What was right: answers against a server that has nothing to go wrong, and the servers as they are at the end."""

import json
import re
import signal
import statistics
import time

import questions

IDLE_SECONDS = 60
# What a server may say on stderr of what is done to it; anything else is a failure.
EXPECTED = (
    r"^kvick: the store at 127\.0\.0\.1:\d+/0 (answers again$|is not used until it answers: )",
    r"^kvick: (loaded|unloads) the model (plain|windows|states)$",
)


class Reference:
    """Right answers, asked for one at a time from a server of its own for each model, and kept for further runs."""

    def __init__(self, start):
        self.start, self.answers = start, {}  # start(model) gives a server

    def learn(self, wanted, prompts):
        for model in questions.MODELS:
            missing = [question for question in wanted if question.model == model and question not in self.answers]
            if not missing:
                continue
            server = self.start(model)
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
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def wrong_answers(load, reference):
    reference.learn(load.answers, load.prompts)
    for question, answers in load.answers.items():
        right = reference.answers[question]
        for answer, said in answers.items():
            if answer != right:
                load.fail("wrong_answers", f"{said}: {answer} is not {right}")


def last_words(load, server):
    """Once all is quiet each of its models must answer a long prompt right, through the caches that were damaged."""
    for model in questions.MODELS if server.name == "several" else (server.name,):
        for prompt in (1, 2):
            question = questions.Question(model, None, prompt, "likeliest")
            body = {**question.body(load.prompts), **({"model": model} if server.name == "several" else {})}
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
    """Gauges that must be zero when nobody asks, but are not after some time; and the metrics."""
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
    lines = server.log.read_text(errors="replace").splitlines()
    return [line for line in lines if not any(re.search(pattern, line) for pattern in EXPECTED)]


def grown(samples):
    """Of resident MB in one life of a server: by how much the last third has more than the middle one beyond a quarter and 16 MB, or
    0; with faults it goes up and down by as much. The first third is for warming up, and less than half a minute says nothing."""
    third = len(samples) // 3
    if third < 20:
        return 0
    middle, last = statistics.median(samples[third:-third]), statistics.median(samples[-third:])
    return max(0, last - (1.25 * middle + 16))


def close(load, server, bound):
    """Looks at a server whose clients have gone, and ends it; its metrics."""
    metrics = {}
    if server.alive():
        try:
            last_words(load, server)
            left, metrics = left_over(server)
            if left:
                load.fail("left_over", f"{server.name}: {left}")
        except OSError as error:
            load.fail("hangs", f"{server.name}, at the end: {error!r}")
        status = server.end(signal.SIGTERM, bound)
        if status != 0:
            load.fail("bad_ends", f"{server.name} ended with status {status} after SIGTERM")
    for words in server.trouble:
        load.fail("bad_ends", words)
    for line in unexpected_lines(server):
        load.fail("unexpected_lines", f"{server.name}: {line}")
    if not load.answered[server.name]:
        load.fail("no_answers", server.name)
    return {name: value for name, value in metrics.items()
            if value and name.startswith(("kv_file_events", "kv_store_events", "preemptions", "kv_resumed", "accepted", "http_dropped"))}
