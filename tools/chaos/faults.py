"""Injects the faults of the chaos test. Each affects a server, one of its ranks, its files, its disk, the router, the store or the
machine, and is reverted after its duration."""

import http.client
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import ranks

BETWEEN_STOPS = 1  # seconds
DRAIN_SECONDS = 60  # limit for exiting after SIGTERM; the server finishes running answers first, for at most 30 s


class Faults:
    """Runs a schedule. Faults overlap, so each has its own thread. `end` waits until all faults are reverted."""

    def __init__(self, servers, store, schedule, say):
        self.servers, self.store, self.schedule, self.say = servers, store, schedule, say
        self.done, self.failed, self.stopping = [], [], threading.Event()
        self.began, self.threads = 0.0, []

    def begin(self):
        self.began = time.monotonic()
        self.threads = [threading.Thread(target=self.one, args=(fault,), daemon=True) for fault in self.schedule]
        for thread in self.threads:
            thread.start()

    def end(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(2 * DRAIN_SECONDS)

    def one(self, fault):
        if self.stopping.wait(max(0, self.began + fault.at - time.monotonic())):
            return
        self.say(fault.words())
        self.done.append(fault)
        try:
            getattr(self, fault.kind)(fault, self.servers.get(fault.target))
        except (OSError, http.client.HTTPException) as error:
            # The target is gone, for example a process that another fault killed or a file that was evicted.
            self.failed.append(f"{fault.words()}: {error!r}")

    def wait(self, fault):
        self.stopping.wait(fault.seconds)

    def stop(self, fault, server, *rank):
        with server.pausing:
            go_on = server.pause(*rank)
            self.wait(fault)
            go_on()
            # Stops that wait for this one must not add up to the time after which ranks end.
            self.stopping.wait(BETWEEN_STOPS)

    def stop_server(self, fault, server):
        self.stop(fault, server)

    stop_router = stop_server

    def kill_server(self, fault, server):
        with server.lock:
            server.end(signal.SIGKILL, DRAIN_SECONDS)
            self.wait(fault)
            server.start()

    kill_router = kill_server

    def kill_rank(self, fault, server):
        with server.lock:
            server.kill_rank(random.Random(fault.seed).randrange(ranks.RANKS), DRAIN_SECONDS)
            self.wait(fault)
            server.start()

    def stop_rank(self, fault, server):
        self.stop(fault, server, random.Random(fault.seed).randrange(ranks.RANKS))

    def stall_rank(self, fault, server):
        with server.lock, server.pausing:
            server.stall_rank(random.Random(fault.seed).randrange(ranks.RANKS), DRAIN_SECONDS, self.stopping)

    def drain_server(self, fault, server):
        with server.lock:
            status = server.end(signal.SIGTERM, DRAIN_SECONDS)
            if status != 0:
                server.trouble.append(f"{server.name} ended with status {status} after SIGTERM")
            self.wait(fault)
            server.start()

    def flush_cache(self, _, server):
        connection = server.connect(DRAIN_SECONDS)
        connection.request("POST", "/flush_cache")
        connection.getresponse().read()
        connection.close()

    def few_cores(self, fault, server):
        cores = os.sched_getaffinity(0)
        server.use_cores({min(cores)})
        self.wait(fault)
        server.use_cores(cores)

    def busy_cores(self, fault, _):
        # The programs also end by themselves, in case this process is killed.
        program = f"import time\nuntil = time.monotonic() + {fault.seconds}\nwhile time.monotonic() < until: pass"
        busy = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(2 * len(os.sched_getaffinity(0)))]
        self.wait(fault)
        for process in busy:
            process.kill()
            process.wait()

    def some_files(self, fault, server):
        generator = random.Random(fault.seed)
        files = sorted(path for path in server.files.rglob("*") if path.is_file() and path.name != FILLER)
        return generator, generator.sample(files, min(len(files), max(1, round(fault.share * len(files)))))

    def each_file(self, fault, server, change):
        generator, paths = self.some_files(fault, server)
        for path in paths:
            try:
                change(generator, path)
            except (FileNotFoundError, ValueError):  # evicted meanwhile, or already truncated to nothing
                pass

    def flip_files(self, fault, server):
        def flip(generator, path):
            with open(path, "r+b") as file:
                at = generator.randrange(path.stat().st_size)
                file.seek(at)
                byte = file.read(1)[0] ^ (1 << generator.randrange(8))
                file.seek(at)
                file.write(bytes([byte]))
        self.each_file(fault, server, flip)

    def cut_files(self, fault, server):
        self.each_file(fault, server, lambda generator, path: os.truncate(path, generator.randrange(path.stat().st_size)))

    def delete_files(self, fault, server):
        self.each_file(fault, server, lambda _, path: path.unlink())

    def swap_files(self, fault, server):
        """Swaps pairs of intact files, so that each has the other's name."""
        _, paths = self.some_files(fault, server)
        for one, two in zip(paths[::2], paths[1::2]):
            between = one.with_suffix(".swapped")
            try:
                one.rename(between)
                two.rename(one)
                between.rename(two)
            except FileNotFoundError:
                pass

    def strange_files(self, fault, server):
        """Replaces files by folders, pipes without a writer, dangling links and links to /dev/zero."""
        made = []

        def replace(generator, path):
            path.unlink()
            how = generator.choice((os.mkdir, os.mkfifo, lambda place: os.symlink("nothing", place), lambda place: os.symlink("/dev/zero", place)))
            how(path)
            made.append(path)
        self.each_file(fault, server, replace)
        self.wait(fault)
        for path in made:
            try:
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
            except OSError:  # the server has removed it or written a new file
                pass

    def lose_folder(self, fault, server):
        """Moves the folder of prefix cache files away, like a disk that is unplugged."""
        away = server.files / "away"
        with server.lock:  # not while the server starts, because it would create a new folder
            folder = server.files / "blocks"
            folder.rename(away)
            self.wait(fault)
            shutil.rmtree(folder, ignore_errors=True)
            away.rename(folder)

    def fill_disk(self, fault, server):
        filler = server.files / FILLER
        try:
            with open(filler, "wb", buffering=0) as file:
                for size in (1 << 16, 512):
                    try:
                        while True:
                            file.write(bytes(size))
                    except OSError:  # the disk is full
                        pass
            self.wait(fault)
        finally:
            filler.unlink(missing_ok=True)

    def stop_store(self, fault, _):
        process = self.store.process
        process.send_signal(signal.SIGSTOP)
        self.wait(fault)
        process.send_signal(signal.SIGCONT)

    def kill_store(self, fault, _):
        with self.store.lock:
            self.store.kill()
            self.wait(fault)
            self.store.start()

    def fill_store(self, fault, _):
        self.store.ask("CONFIG", "SET", "maxmemory", "1mb")
        self.wait(fault)
        self.store.ask("CONFIG", "SET", "maxmemory", "0")

    def flip_store(self, fault, _):
        generator = random.Random(fault.seed)
        keys = sorted(self.store.ask("KEYS", "*"))
        for key in generator.sample(keys, min(len(keys), max(1, round(fault.share * len(keys))))):
            value = bytearray(self.store.ask("GET", key) or b"")
            if value:
                value[generator.randrange(len(value))] ^= 1 << generator.randrange(8)
                self.store.ask("SET", key, bytes(value))

    def cut_connections(self, _, __):
        self.store.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


FILLER = "filler"
