"""What the chaos test reports of each server: requests, answers, faults, restarts and resident memory."""

import collections


def lives(name, resident):
    """Of each start of a server: its resident memory in MB at the begin and at the end, and the most in between. Starts so short that no
    sample was taken are left out."""
    starts = sorted((start, samples) for (one, start), samples in resident.items() if one == name and samples)
    return [{"start": start, "begin_mb": round(samples[0], 1), "end_mb": round(samples[-1], 1), "most_mb": round(max(samples), 1)}
            for start, samples in starts]


def faults_of(target, done):
    return dict(collections.Counter(fault.kind for fault in done if fault.target == target))


def servers(running, load, done, resident):
    """running: the servers. done: the faults that were injected. resident: {(server, number of its start): samples in MB}."""
    return {server.name: {"requests": load.requests[server.name], "answers": load.answered[server.name],
                          "compared": load.compared[server.name], "faults": faults_of(server.name, done),
                          "restarts": max(0, server.lives - 1), "lives": lives(server.name, resident)} for server in running}


def store(running, done):
    """None without a store."""
    return {"faults": faults_of("store", done), "restarts": max(0, running.lives - 1)} if running else None
