#!/usr/bin/env python3
"""Chaos test: servers under load while faults of all kinds are injected, following a schedule that is drawn from a seed.

    tools/chaos/chaos.py [--kvick build/release/kvick] [--make-model build/release/tools/make_model/make_model]
                         [--seconds 60] [--streams 64] [--seed N] [--every 2] [--bound 60] [--router PROGRAM] [--report FILE]
    tools/chaos/chaos.py --schedule FILE --seed N ...     injects the faults of that file
    tools/chaos/chaos.py --shrink ...                     if the run fails, searches for a smaller schedule that still fails

Runs six servers on random models: "plain" and "replica" (all layers alike, one model), "windows" (sliding-window layers), "states"
(recurrent layers), "ranked", whose model is divided among two processes by heads or, if the seed is odd, by layers (--pipeline), and
"several", which serves three models with memory for two. All but the last have --kv-dir and, if redis-server or valkey-server is
installed, --kv-store. A router is in front of "plain" and "replica" (router.py, or --router PROGRAM). Without mpirun, or a kvick that
was built with MPI, "ranked" is left out.

The streams send requests to random servers, with all cache strategies, row types and policies, with and without speculative decoding.
Three servers have a policy of their own, for which the tool trains a file (loki, kvzap, maple or duo). Some streams hold conversations
whose turns alternate between "plain" and "replica", so that one reads rows that the other one has written. Some clients disconnect,
stall, send one byte per second, half a request or garbage. Meanwhile servers, single ranks, the router and the store are stopped,
killed and restarted, a rank is stopped for longer than the others wait for it, files are damaged and swapped, the disk and the store
fill up, and cores are taken away (schedule.py, faults.py). To fill a disk the tool mounts a small tmpfs in a namespace of its own; if
it may not mount, that fault is left out.

The run passes if all of this holds:
* Every complete answer from an exact cache (questions.py) equals, to the last bit of its log-probabilities, the answer of a reference
  server that computes each prompt alone and without the prefix cache.
* No status is 500 or above except 503, and no valid request is refused with another error.
* Connections break only if their server, a server behind their router, or the router was killed or restarted. Those requests are sent
  again.
* No server exits by itself or hangs. But if a rank ends, or is stopped for longer than the limit, all ranks end by themselves.
* At the end each server still answers, holds no sequences and no used cache bytes, exits with status 0 after SIGTERM, and has
  written only expected lines to stderr.
* Resident memory does not grow.

Prints its progress to stderr and one JSON object at the end, which --report FILE also writes to a file. If a check failed, the object
contains the schedule and the exit status is 1. Uses only loopback addresses. The faults of a schedule are repeated exactly; the timing of requests is not, because streams are
threads.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import clients  # noqa: E402
import faults  # noqa: E402
import judging  # noqa: E402
import processes  # noqa: E402
import questions  # noqa: E402
import ranks  # noqa: E402
import report  # noqa: E402
import schedule  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OWN_MOUNTS = "KVICK_CHAOS_MOUNTS"  # environment variable, set if this process runs in its own mount namespace
DISK = "4m"


def say(words):
    print(words, file=sys.stderr, flush=True)


def may_mount():
    """Whether file systems can be mounted. If so, restarts this program in a mount namespace of its own, so that no mount outlives
    it."""
    if OWN_MOUNTS in os.environ:
        return True
    for flags in ("-m", "-rm"):
        with tempfile.TemporaryDirectory() as folder:
            tried = subprocess.run(["unshare", flags, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True) \
                if shutil.which("unshare") else None
        if tried is not None and tried.returncode == 0:
            os.environ[OWN_MOUNTS] = "1"
            os.execvp("unshare", ["unshare", flags, sys.executable, *sys.argv])
    return False


class Run:
    """One run of a schedule, with new servers and files."""

    def __init__(self, args, models, policy, folder, reference):
        self.args, self.models, self.policy, self.folder, self.reference = args, models, policy, folder, reference
        self.store = processes.Store(folder) if processes.STORE else None
        self.servers = {name: self.server(name) for name in schedule.SERVERS if name != schedule.RANKED or args.ranks}
        replicas = [self.servers[name] for name in questions.REPLICAS]
        self.servers["router"] = processes.Router(folder, replicas, args.router)
        self.resident = collections.defaultdict(list)  # (server, number of its start) -> samples in MB

    def server(self, name):
        # Routers are told the ports of their servers only when they start, so these stay on theirs.
        port = processes.free_port() if name in questions.REPLICAS else 0
        command = [self.args.kvick, "--json", "serve", "--port", str(port), "--ctx", "1024", "--threads", "2", "--client-kv", "any",
                   "--max-queue", str(2 * self.args.streams), "--max-wait", "0"]
        if name == "several":
            for model in questions.MODELS:
                command += ["-m", self.models[model], "--name", model]
            return processes.Server(name, [*command, "--kv-memory", "4MB", "--models-memory", "11MB"], self.folder)
        model = questions.MODEL_OF[name]
        if name == schedule.RANKED:
            server = ranks.RankServer(name, [*command, *ranks.options(self.args.seed)], self.folder, model)
        else:
            server = processes.Server(name, command, self.folder, model, port)
        server.files.mkdir()
        if self.args.disk:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", server.files], check=True)
        server.command += ["-m", self.models[model], "--kv-memory", "3MB", "--kv-dir", server.files / "blocks", "--kv-dir-size", "3MB"]
        if own := questions.own_policies(self.args.seed).get(name):
            server.policy = own
            server.command += ["--kv-select", self.policy(model, own)]
        if name == "windows":
            server.command += ["--instances", str(min(2, len(os.sched_getaffinity(0))))]
        if self.store:
            server.command += ["--kv-store", f"redis://127.0.0.1:{self.store.port}"]
        return server

    def do(self, faults_of_it):
        load = None
        try:
            if self.store:
                self.store.start()
            for server in self.servers.values():
                server.start()
            load = clients.Load(self.args, self.servers, questions.make_prompts(self.args.seed, self.args.prompts))
            done = self.under_load(load, faults.Faults(self.servers, self.store, faults_of_it, say))
            # The router first, because it needs its servers.
            metrics = {server.name: judging.close(load, server, faults.DRAIN_SECONDS) for server in reversed(self.servers.values())}
            for (name, _), samples in self.resident.items():
                if judging.grown(samples):
                    load.fail("memory_growth", f"{name}: {[round(mb) for mb in samples[::10]]} MB")
            judging.wrong_answers(load, self.reference)
        finally:
            self.clean()
        return {"ok": not load.failures, "failures": load.failures, "counts": load.counts, "answered": load.answered,
                "questions": len(load.answers), "faults": collections.Counter(fault.kind for fault in done.done),
                "faults_without_effect": done.failed, "metrics": metrics,
                "servers": report.servers(self.servers.values(), load, done.done, self.resident),
                "store": report.store(self.store, done.done)}

    def under_load(self, load, work):
        streams = load.run()
        work.begin()
        told = load.began
        while time.monotonic() < load.until:
            time.sleep(0.5)
            self.watch(load)
            if time.monotonic() - told > 10:
                told = time.monotonic()
                say(f"{told - load.began:6.1f} s  {load.counts['answers']} answers, {sum(map(len, load.failures.values()))} failures")
        work.end()
        until = time.monotonic() + 2 * self.args.bound
        for stream in streams:
            stream.join(max(0, until - time.monotonic()))
        if left := sum(stream.is_alive() for stream in streams):
            load.fail("hangs", f"{left} streams still wait for an answer")
        return work

    def watch(self, load):
        for server in self.servers.values():
            if server.died():
                with server.lock:
                    if server.died():  # no fault has started it again meanwhile
                        load.fail("deaths", f"{server.name} exited by itself with status {server.process.returncode}")
                        server.down = True
                        server.start()
                continue
            start, mb = server.lives, server.resident()
            if mb is not None and not server.down and server.lives == start:  # not while it ends or starts
                self.resident[server.name, start].append(mb)

    def clean(self):
        for server in self.servers.values():
            server.kill()
            if self.args.disk and os.path.ismount(server.files):
                subprocess.run(["umount", "-l", server.files], check=False)
        if self.store:
            self.store.kill()


class Runs:
    """Several runs with the same arguments, which share the models and the reference answers."""

    def __init__(self, args, folder):
        self.args, self.folder, self.count = args, folder, 0
        self.models = {name: folder / f"{name}.gguf" for name in questions.MADE}
        for name, path in self.models.items():
            subprocess.run([args.make_model, "-o", path, *questions.MADE[name]], check=True, stdin=subprocess.DEVNULL)
        self.reference = judging.Reference(self.reference_server)

    def policy(self, model, name):
        """A policy (--kv-select) with its file, which is trained when it is first needed."""
        file = self.folder / f"{model}-{name}.kvp"
        if not file.exists():
            text = self.folder / "text"
            text.write_text(questions.TEXT)
            subprocess.run([self.args.kvick, "--json", "--quiet", "train", questions.FILES[name][0], "-m", self.models[model], "-f", text,
                            "-o", file, *questions.FILES[name][1:]], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return f"{name}:file={file},budget=0.25"

    def reference_server(self, model, policy):
        command = [self.args.kvick, "--json", "serve", "--port", "0", "--ctx", "1024", "--client-kv", "any", "-m", self.models[model]]
        if policy:
            command += ["--kv-select", self.policy(model, policy)]
        name, split = f"reference-{model}", ranks.options(self.args.seed)
        # With --pipeline, ranks must give the answers of one process. Otherwise they add up in another order, and policies with a file
        # choose among the heads of a rank.
        if model == questions.RANKED and (policy or "--pipeline" not in split):
            server = ranks.RankServer(name, [*command, *split], self.folder, model)
        else:
            server = processes.Server(name, command, self.folder, model)
        server.start()
        return server

    def run(self, faults_of_it):
        self.count += 1
        folder = self.folder / f"run-{self.count}"
        folder.mkdir()
        result = Run(self.args, self.models, self.policy, folder, self.reference).do(faults_of_it)
        if result["ok"] and not self.args.keep:
            shutil.rmtree(folder, ignore_errors=True)
        return result

    def fails(self, part):
        """Whether the schedule `part` fails in at least one of --tries runs. Several runs, because a failure may be intermittent."""
        say(f"== {len(part)} faults")
        return any(not self.run(part)["ok"] for _ in range(self.args.tries))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kvick", default=str(ROOT / "build/release/kvick"))
    parser.add_argument("--make-model", default=str(ROOT / "build/release/tools/make_model/make_model"))
    parser.add_argument("--seconds", type=float, default=60, help="duration of the load; starting and checking take additional time (default: 60)")
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--every", type=float, default=2, help="average seconds between faults (default: 2)")
    parser.add_argument("--prompts", type=int, default=18)
    parser.add_argument("--bound", type=float, default=60, help="maximum duration of a request in seconds, faults included (default: 60)")
    parser.add_argument("--schedule", type=pathlib.Path, help="JSON file with the faults, instead of drawing them from the seed")
    parser.add_argument("--shrink", action="store_true", help="if the run fails, search for a smaller schedule that still fails")
    parser.add_argument("--tries", type=int, default=2, help="runs of each smaller schedule (default: 2)")
    parser.add_argument("--router", metavar="PROGRAM", help="vllm-router, to be used instead of the tool's own small router")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE", help="write the JSON object to this file too")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for models, files and logs (default: a temporary folder)")
    return parser.parse_args()


def chosen_schedule(args):
    """The schedule without the faults that this machine cannot inject. A seed draws the same schedule on every machine."""
    machine = {"store": processes.STORE is not None, "disk": args.disk, "ranks": args.ranks}
    drawn = schedule.from_text(args.schedule.read_text()) if args.schedule else schedule.draw(args.seed, args.seconds, args.every)
    possible = [fault for fault in drawn if schedule.possible(fault, **machine)]
    for fault in drawn:
        if fault not in possible:
            say(f"left out, not possible on this machine: {fault.words()}")
    return possible


def main():
    args = parse()
    args.disk = may_mount()
    args.ranks = ranks.can_start(args.kvick)
    if args.router and shutil.which(args.router) is None:
        sys.exit(f"chaos: --router: {args.router} is not a program; give the path of vllm-router, or leave the option out")
    try:
        faults_of_it = chosen_schedule(args)
    except (OSError, ValueError) as error:
        sys.exit(f"chaos: --schedule: {error}")
    with tempfile.TemporaryDirectory() as own:
        folder = args.keep or pathlib.Path(own)
        folder.mkdir(exist_ok=True)
        runs = Runs(args, folder)
        say(f"seed {args.seed}, {len(faults_of_it)} faults in {args.seconds:.0f} s")
        result = {"seed": args.seed, "streams": args.streams, "seconds": args.seconds, **runs.run(faults_of_it)}
        if not result["ok"]:
            if args.shrink:
                faults_of_it = schedule.shrink(faults_of_it, runs.fails)
            result["schedule"] = [vars(fault) for fault in faults_of_it]
            say(f"failed; repeat with --seed {args.seed} and this schedule as --schedule FILE:\n{schedule.to_text(faults_of_it)}")
    if args.report:
        args.report.write_text(json.dumps(result) + "\n")
    print(json.dumps(result))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
