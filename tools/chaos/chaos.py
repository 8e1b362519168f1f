#!/usr/bin/env python3
"""Servers under load to which everything happens at once, by a schedule that a seed gives; nothing may go wrong that shows.

    tools/chaos/chaos.py [--kvick build/release/kvick] [--make-model build/release/tools/make_model/make_model]
                         [--seconds 60] [--streams 64] [--seed N] [--every 2] [--bound 60]
    tools/chaos/chaos.py --schedule FILE --seed N ...     does the faults of that file
    tools/chaos/chaos.py --shrink ...                     where it fails, looks for the smallest schedule that fails still

Four servers on made models: one whose layers are alike, one with windows, one with states, each with --kv-dir and, where
redis-server or valkey-server is installed, --kv-store; and one that has all three models in memory for two. Every stream asks one and
another, for caches of all strategies, types and policies, with drafts and without; some vanish, stall, send a byte a second, half a request or
garbage. Meanwhile servers and store are stopped, killed and started again, files are damaged and change places, the disk
and the store fill up, and cores are taken away (schedule.py, faults.py). A disk that can be full needs the right to mount a small file
system, in a namespace of its own; without it that fault is left out.

Right is: every answer that came whole is, where its cache is exact (questions.py), to the last bit of its log-probabilities
that of a server that reads each prompt alone and anew; no status from 500 up but 503; no good request is refused; no
connection breaks but by a server that was killed (those are asked again); no server ends by itself or hangs; at the end each
answers, has no sequence and no used byte left, ends with status 0 at SIGTERM, and said nothing on stderr that is not expected;
resident memory does not grow.

Prints what it does, and one JSON object at the end, with the schedule where something was not right; then it exits with 1. Only
loopback addresses. Streams are threads, so a schedule is kept exactly and what meets it is not.
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
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import clients  # noqa: E402
import faults  # noqa: E402
import judging  # noqa: E402
import processes  # noqa: E402
import questions  # noqa: E402
import schedule  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OWN_MOUNTS = "KVICK_CHAOS_MOUNTS"  # set where this process has mounts of its own
DISK = "4m"


def say(words):
    print(words, file=sys.stderr, flush=True)


def may_mount():
    """Begins again in a namespace of its own, so that no mount outlives this process."""
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
    """One schedule, on servers and files of its own."""

    def __init__(self, args, models, folder, reference):
        self.args, self.models, self.folder, self.reference = args, models, folder, reference
        self.store = processes.Store(folder) if processes.STORE else None
        self.servers = {name: self.server(name) for name in schedule.SERVERS}
        self.resident = collections.defaultdict(list)  # (server, life) -> MB

    def server(self, name):
        command = [self.args.kvick, "--json", "serve", "--port", "0", "--ctx", "1024", "--threads", "2", "--client-kv", "any",
                   "--max-queue", str(2 * self.args.streams), "--max-wait", "0"]
        if name == "several":
            for model in questions.MODELS:
                command += ["-m", self.models[model], "--name", model]
            return processes.Server(name, [*command, "--kv-memory", "4MB", "--models-memory", "11MB"], self.folder)
        server = processes.Server(name, command, self.folder)
        server.files.mkdir()
        if self.args.disk:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", server.files], check=True)
        server.command += ["-m", self.models[name], "--kv-memory", "3MB", "--kv-dir", server.files / "blocks", "--kv-dir-size", "3MB"]
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
            metrics = {server.name: judging.close(load, server, faults.DRAIN_SECONDS) for server in self.servers.values()}
            for (name, _), samples in self.resident.items():
                if judging.grown(samples):
                    load.fail("memory_growth", f"{name}: {[round(mb) for mb in samples[::10]]} MB")
            judging.wrong_answers(load, self.reference)
        finally:
            self.clean()
        return {"ok": not load.failures, "failures": load.failures, "counts": load.counts, "answered": load.answered,
                "questions": len(load.answers), "faults": collections.Counter(fault.kind for fault in done.done),
                "faults_without_effect": done.failed, "metrics": metrics,
                "resident_mb": {name: round(max(samples, default=0)) for (name, _), samples in self.resident.items()}}

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
            load.fail("hangs", f"{left} streams wait for their last answers")
        return work

    def watch(self, load):
        for server in self.servers.values():
            if server.died():
                load.fail("deaths", f"{server.name} ended by itself: status {server.process.returncode}")
                with server.lock:
                    server.down = True
                    server.start()
            elif (mb := server.resident()) is not None:
                self.resident[server.name, server.lives].append(mb)

    def clean(self):
        for server in self.servers.values():
            server.kill()
            if self.args.disk and server.files.exists():
                subprocess.run(["umount", "-l", server.files], check=False)
        if self.store:
            self.store.kill()


class Runs:
    """Runs of one set of arguments; right answers are kept from one to the next."""

    def __init__(self, args, folder):
        self.args, self.folder, self.count = args, folder, 0
        self.models = {name: folder / f"{name}.gguf" for name in questions.MODELS}
        for name, path in self.models.items():
            subprocess.run([args.make_model, "-o", path, *questions.MADE[name]], check=True, stdin=subprocess.DEVNULL)
        self.reference = judging.Reference(self.reference_server)

    def reference_server(self, model):
        command = [self.args.kvick, "--json", "serve", "--port", "0", "--ctx", "1024", "--client-kv", "any", "-m", self.models[model]]
        server = processes.Server(f"reference-{model}", command, self.folder)
        server.start()
        return server

    def run(self, faults_of_it):
        self.count += 1
        folder = self.folder / f"run-{self.count}"
        folder.mkdir()
        result = Run(self.args, self.models, folder, self.reference).do(faults_of_it)
        if result["ok"] and not self.args.keep:
            shutil.rmtree(folder, ignore_errors=True)
        return result

    def fails(self, part):
        """Whether one of a few runs of it does: what fails now and then must not be taken for what does not."""
        say(f"== {len(part)} faults")
        return any(not self.run(part)["ok"] for _ in range(self.args.tries))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kvick", default=str(ROOT / "build/release/kvick"))
    parser.add_argument("--make-model", default=str(ROOT / "build/release/tools/make_model/make_model"))
    parser.add_argument("--seconds", type=float, default=60, help="of load; some more go by before and after it")
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--every", type=float, default=2, help="seconds from one fault to the next, about")
    parser.add_argument("--prompts", type=int, default=18)
    parser.add_argument("--bound", type=float, default=60, help="seconds that a request may take, with all that is done to its server")
    parser.add_argument("--schedule", type=pathlib.Path, help="faults as JSON, in place of those of the seed")
    parser.add_argument("--shrink", action="store_true", help="where it fails, make the schedule smaller")
    parser.add_argument("--tries", type=int, default=2, help="runs of each smaller schedule")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for models, files and logs (default: removed at the end)")
    return parser.parse_args()


def chosen_schedule(args):
    """A seed has one schedule on all machines; what one of them cannot do is left out."""
    kinds = schedule.kinds_with(processes.STORE is not None, args.disk)
    drawn = schedule.from_text(args.schedule.read_text()) if args.schedule else schedule.draw(args.seed, args.seconds, args.every)
    for fault in drawn:
        if fault.kind not in kinds:
            say(f"cannot be done on this machine: {fault.words()}")
    return [fault for fault in drawn if fault.kind in kinds]


def main():
    args = parse()
    args.disk = may_mount()
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
            say(f"seed {args.seed}, and this schedule for --schedule FILE:\n{schedule.to_text(faults_of_it)}")
    print(json.dumps(result))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
