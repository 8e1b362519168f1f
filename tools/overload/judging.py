"""Computes the figures of a phase from its requests, and checks the goals."""

import statistics

from arrivals import load


def share(values, percent):
    return load.share(values, percent)


def good(request, bound):
    """Whether the answer is complete and its first token came within `bound` seconds."""
    return request.answered and bool(request.got.times) and request.got.times[0] <= bound


def tokens_between(request, begin, end):
    """The number of the answer's tokens that came from `begin` to `end`, in seconds of the phase. The last event has no token but the
    finish reason."""
    return sum(begin <= request.at + at < end for at in request.got.times[:-1])


def retry_after(request):
    value = request.got.headers.get("retry-after", "")
    return value.isdecimal() and int(value) > 0


def between(requests):
    """The times between successive tokens of complete answers, in seconds."""
    return [after - before for request in requests if request.answered
            for before, after in zip(request.got.times, request.got.times[1:-1])]


def figures(requests, bound, begin, end):
    """The figures of a phase. Goodput, in tokens/s, counts tokens that came from `begin` to `end`, in seconds of the phase."""
    fair = [request for request in requests if good(request, bound)]
    refused = [request for request in requests if request.refused]
    waits = [request.got.times[0] for request in requests if request.answered and request.got.times]
    to_refuse, gaps = [request.got.head for request in refused], between(requests)
    return {
        "requests": len(requests), "answered": sum(request.answered for request in requests), "in_time": len(fair),
        "refused": len(refused), "refused_share": round(len(refused) / max(1, len(requests)), 4),
        "refused_without_retry_after": sum(not retry_after(request) for request in refused),
        "broken": sum(not request.answered and not request.refused for request in requests),
        "goodput_tok_s": round(sum(tokens_between(request, begin, end) for request in fair) / (end - begin), 1),
        "refuse_s_p50": round(statistics.median(to_refuse or [0]), 4), "refuse_s_p99": round(share(to_refuse, 99), 4),
        "ttft_s_p50": round(statistics.median(waits or [0]), 3), "ttft_s_p99": round(share(waits, 99), 3),
        "between_s_p50": round(statistics.median(gaps or [0]), 4), "between_s_p99": round(share(gaps, 99), 4)}


def is_past_best(rising):
    """Whether the last two rates improved goodput by less than 3 % over the best rate before them."""
    goodput = [one["goodput_tok_s"] for one in rising]
    return len(goodput) > 2 and max(goodput[-2:]) < 1.03 * max(goodput[:-2])


def goals(alone, rounds, times):
    """The goals at `times` the best rate: whether each is met, and the measured value. rounds: a list of {multiple: figures}."""
    median = lambda key, at: statistics.median(one[at][key] for one in rounds)  # noqa: E731
    over = [one[times] for one in rounds]
    kept = median("goodput_tok_s", times) / max(1e-9, median("goodput_tok_s", 1))
    gap, unloaded = median("between_s_p99", times), median("between_s_p99", 1)
    return {
        "goodput_share": round(kept, 3), "goodput_kept": kept >= 0.9,
        "refused_at_once_s_p99": max(one["refuse_s_p99"] for one in over),
        "each_refusal_says_when": not any(one["refused_without_retry_after"] for one in over),
        "none_broken": not any(one["broken"] for one in over),
        "between_p99_over_best_rate": round(gap / max(1e-9, unloaded), 2), "between_kept": gap <= 2 * unloaded,
        "between_p99_over_alone": round(gap / max(1e-9, alone["between_s_p99"]), 2)}
