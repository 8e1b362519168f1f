"""What the requests of a phase say together."""

import statistics

from arrivals import load


def share(values, percent):
    return load.share(values, percent)


def good(request, bound):
    """It was answered whole, and its first token came in time."""
    return request.answered and bool(request.got.times) and request.got.times[0] <= bound


def tokens_between(request, begin, end):
    """Tokens of its answer that came in a stretch of the phase's time. The last event says why the answer ended."""
    return sum(begin <= request.at + at < end for at in request.got.times[:-1])


def retry_after(request):
    value = request.got.headers.get("retry-after", "")
    return value.isdecimal() and int(value) > 0


def between(requests):
    """Seconds from one token to the next, of answers that came."""
    return [after - before for request in requests if request.answered
            for before, after in zip(request.got.times, request.got.times[1:-1])]


def figures(requests, bound, begin, end):
    """Of a phase whose figures count from `begin` to `end`, in its seconds; goodput is in tokens/s."""
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
    """Whether the last two of some rates, each with its goodput, brought nothing over the best before them."""
    goodput = [one["goodput_tok_s"] for one in rising]
    return len(goodput) > 2 and max(goodput[-2:]) < 1.03 * max(goodput[:-2])


def goals(alone, rounds, times):
    """The promises under `times` the best rate, each with what was seen; rounds: {times: figures} each."""
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
