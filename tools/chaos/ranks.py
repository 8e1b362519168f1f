"""A server whose model is divided among several processes (ranks), which mpirun starts on this machine.

If a rank ends or does not answer for RANK_SECONDS, all ranks must end by themselves, and running requests get an error or a closed
connection (docs/promises.md).
"""

import http.client
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

import processes

MPIRUN = shutil.which("mpirun")
RANKS = 2
RANK_SECONDS = 15  # --rank-seconds: longer than any other fault stops a rank, also on a busy machine
LATE_SECONDS = 20  # by how much ranks may end later than RANK_SECONDS after one of them was stopped
MARK = "KVICK_CHAOS_RANKS"  # environment variable of the processes of one server
# Lines that are written to stderr if a rank has ended: by the other ranks, and by mpirun.
EXPECTED = (
    r"^kvick: (.*: )?(rank \d+ \(process \d+ of \S+\) has ended|a rank has not answered for [0-9.]+ seconds)(; this rank ends too)?$",
    r"^-{20,}$",
    r"^ *$",
    r"^Primary job +terminated normally, but ",
    r"^a non-zero exit code\. Per user-direction, the job has been aborted\.$",
    r"^mpirun (noticed|detected) that (?!.*on signal (4|6|7|8|11) )",  # these signals are crashes
    r"^that caused that situation\.$",
    r"^the job to be terminated\. The first process to do so was:$",
    r"^ +(Process name|Exit code): ",
    r"^MPI_ABORT was invoked on rank \d+ in communicator MPI_COMM_WORLD$",
    r"^with errorcode 1\.$",
    r"^NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes\.$",
    r"^You may or may not see output from other processes, depending on$",
    r"^exactly when Open MPI kills them\.$",
    # Open MPI itself. Asterisks would be its report of a crash.
    r"^\[\S+:\d+\] (?!\*\*\*)",
)


def launcher(count):
    return (MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", str(count))


def can_start(kvick):
    """Whether mpirun is installed and kvick was built with MPI. One rank alone has no network to measure, and says so."""
    if MPIRUN is None:
        return False
    done = subprocess.run([*launcher(1), kvick, "network"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          check=False)
    return "needs at least two processes" in done.stderr


def send(process, number):
    try:
        os.kill(process, number)
    except ProcessLookupError:  # it has ended
        pass


def options(seed):
    """Options of kvick: an odd seed divides the model by layers, an even one by heads."""
    return ("--ranks", "--rank-seconds", str(RANK_SECONDS), *(("--pipeline",) if seed % 2 else ()))


class RankServer(processes.Server):
    """`process` is mpirun."""

    def __init__(self, name, command, folder, model):
        super().__init__(name, [*launcher(RANKS), *command], folder, model)
        mark = f"{name} {folder}"
        # Ranks that are killed leave their files, also those of shared memory. In this folder they are removed at the end.
        self.environment = {**os.environ, MARK: mark, "OMPI_MCA_btl_vader_backing_directory": str(folder),
                            "OMPI_MCA_orte_tmpdir_base": str(folder),
                            # Open MPI leaks memory. Leaks of kvick itself are found in the other servers.
                            "ASAN_OPTIONS": ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "detect_leaks=0")))}
        self.mark = f"{MARK}={mark}".encode()
        self.ranks = {}  # as find() gave them at the last start

    def start(self):
        super().start()
        self.ranks = self.find()

    def find(self):
        """The ranks of this server that exist: {rank: process id}."""
        found = {}  # process id -> (its parent, its rank)
        for name in os.listdir("/proc"):
            try:
                environment = pathlib.Path(f"/proc/{name}/environ").read_bytes().split(b"\0") if name.isdigit() else []
                if self.mark not in environment:
                    continue
                parent = int(pathlib.Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):  # it has ended
                continue
            rank = next((v for v in environment if v.startswith(b"OMPI_COMM_WORLD_RANK=")), None)
            if rank:  # mpirun has none
                found[int(name)] = parent, int(rank.split(b"=")[1])
        # A child of a rank has the rank's environment.
        return {rank: process for process, (parent, rank) in found.items() if parent not in found}

    def ids(self):
        return list(self.ranks.values())

    def pause(self, rank=0):
        process = self.find().get(rank)
        if process is None:
            return lambda: None
        send(process, signal.SIGSTOP)
        return lambda: send(process, signal.SIGCONT)

    def end(self, number, bound):
        self.take_down()
        ranks = self.find()
        if 0 in ranks:  # rank 0 finishes its requests and ends the others; mpirun would kill all of them
            send(ranks[0], number)
        for process in ranks.values():
            send(process, signal.SIGCONT)
        return self.wait(bound, f"signal {number} to rank 0")

    def wait(self, bound, cause):
        status = super().wait(bound, cause)
        self.ranks = {}
        until = time.monotonic() + bound
        while (left := self.find()) and time.monotonic() < until:
            time.sleep(0.1)
        if left:
            self.trouble.append(f"{self.name}: ranks {sorted(left)} still run {bound} s after mpirun has ended because of {cause}")
            self.kill()
        return status

    def kill_rank(self, rank, bound):
        """Kills one rank. All others must end by themselves, and mpirun must report a failure."""
        self.take_down()
        process = self.find().get(rank)
        if process is not None:
            send(process, signal.SIGKILL)
        if self.wait(bound, f"the death of rank {rank}") == 0:
            self.trouble.append(f"{self.name} ended with status 0 after the death of rank {rank}")

    def stall_rank(self, rank, bound, stopping):
        """Stops one rank for longer than RANK_SECONDS. All ranks must end by themselves; they are started again. If `stopping` is set
        meanwhile, the rank continues at once."""
        self.take_down()
        process = self.find().get(rank)
        if process is not None:
            send(process, signal.SIGSTOP)
            threading.Thread(target=self.ask, daemon=True).start()  # ranks notice it only in a step
            # Without a step, other ranks wait for rank 0 as long as it takes.
            until = time.monotonic() + RANK_SECONDS + (LATE_SECONDS if rank > 0 else 3)
            while self.alive() and time.monotonic() < until and not stopping.is_set():
                time.sleep(0.1)
            must_end = self.alive() and rank > 0 and not stopping.is_set()
            send(process, signal.SIGCONT)
            if must_end:
                self.trouble.append(f"{self.name}: no rank has ended although rank {rank} was stopped for {RANK_SECONDS + LATE_SECONDS} s")
        if self.goes_on():
            self.since, self.down = time.monotonic(), False
            return
        if self.wait(bound, f"the stop of rank {rank}") == 0:
            self.trouble.append(f"{self.name} ended with status 0 after rank {rank} was stopped")
        self.start()

    def goes_on(self):
        """Whether the ranks answer. They may also end now, because one has noticed the stop."""
        until = time.monotonic() + LATE_SECONDS
        while self.alive() and time.monotonic() < until:
            time.sleep(2)  # a rank that ends gives its requests 0.7 s
            if self.alive() and self.ask() == 200:
                return True
        return False

    def ask(self):
        """Sends a request of some steps, and returns the status of the answer, or 0 if there is none."""
        connection = self.connect(RANK_SECONDS)
        try:
            connection.request("POST", "/v1/completions", '{"prompt": "any text", "max_tokens": 8}', {"Content-Type": "application/json"})
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def kill(self):
        """Kills all ranks and then mpirun, which removes its files if it ends by itself."""
        self.down = True
        for process in self.find().values():
            send(process, signal.SIGKILL)
        if self.alive():
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for process in self.find().values():  # those that have started meanwhile
            send(process, signal.SIGKILL)
