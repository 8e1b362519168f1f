"""Schedules of faults: drawn from a seed, written to and read from files, and shrunk while they still make a run fail.

A schedule is a list of faults ordered by time. Each fault contains everything it needs, including a seed for its own random choices,
so it does the same whichever other faults are left out.
"""

import dataclasses
import json
import random

RANKED = "ranked"  # the server of several ranks
SERVERS = ("plain", "replica", "windows", "states", RANKED, "several")
WITH_FILES = SERVERS[:5]  # --kv-dir and --kv-store take one model
# The targets of faults, by what they affect. Other faults affect the only one of its kind: the store, the router, the machine.
TARGETS = {"server": SERVERS, "files": WITH_FILES, "disk": WITH_FILES, "ranks": (RANKED,)}
# Kind: (what it affects, relative weight, shortest and longest duration in seconds).
KINDS = {
    "stop_server": ("server", 3, 0.3, 4.0),
    "kill_server": ("server", 4, 0.1, 1.5),
    "drain_server": ("server", 2, 0.1, 1.0),
    "flush_cache": ("server", 2, 0, 0),
    "few_cores": ("server", 2, 1.0, 6.0),
    "kill_rank": ("ranks", 3, 0.1, 1.5),
    "stop_rank": ("ranks", 3, 0.3, 4.0),
    "stall_rank": ("ranks", 1, 0, 0),  # lasts until all ranks have ended
    "kill_router": ("router", 3, 0.1, 1.5),
    "stop_router": ("router", 2, 0.3, 4.0),
    "busy_cores": ("machine", 2, 1.0, 6.0),
    "flip_files": ("files", 4, 0, 0),
    "cut_files": ("files", 3, 0, 0),
    "delete_files": ("files", 3, 0, 0),
    "swap_files": ("files", 3, 0, 0),
    "strange_files": ("files", 2, 1.0, 4.0),
    "lose_folder": ("files", 2, 0.5, 4.0),
    "fill_disk": ("disk", 3, 1.0, 5.0),
    "stop_store": ("store", 3, 0.5, 5.0),
    "kill_store": ("store", 3, 0.1, 2.0),
    "fill_store": ("store", 2, 1.0, 4.0),
    "flip_store": ("store", 3, 0, 0),
    "cut_connections": ("store", 2, 0, 0),
}
QUIET = 0.8  # all faults end within this share of the run; in the rest the servers recover


@dataclasses.dataclass(frozen=True)
class Fault:
    at: float  # seconds since the begin of the load
    kind: str
    seconds: float  # duration
    target: str  # a server, "store", "router" or "machine"
    share: float  # share of the files or of the store's values that are affected
    seed: int

    def words(self):
        lasts = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.at:6.1f} s  {self.kind} {self.target}{lasts}"


def possible(fault, store, disk, ranks):
    """Whether a machine can inject a fault. store: a store program is installed. disk: file systems can be mounted. ranks: ranks can be
    started."""
    on = KINDS[fault.kind][0]
    return (on != "store" or store) and (on != "disk" or disk) and (fault.target != RANKED or ranks)


def draw(seed, seconds, every):
    """Draws a schedule for a run of `seconds`, with one fault every `every` seconds on average."""
    generator = random.Random(f"schedule {seed}")
    kinds = tuple(KINDS)
    faults = []
    for _ in range(max(1, round(QUIET * seconds / every))):
        kind = generator.choices(kinds, [KINDS[kind][1] for kind in kinds])[0]
        on, _, least, most = KINDS[kind]
        at = generator.uniform(0.05, 0.9 * QUIET) * seconds
        target = generator.choice(TARGETS.get(on, (on,)))
        faults.append(Fault(round(at, 2), kind, round(min(generator.uniform(least, most), QUIET * seconds - at), 2), target,
                            round(generator.uniform(0.05, 0.6), 2), generator.randrange(1 << 31)))
    return sorted(faults, key=lambda fault: fault.at)


def to_text(faults):
    return json.dumps([dataclasses.asdict(fault) for fault in faults])


def from_text(text):
    """The schedule in a JSON text. Raises ValueError with a message if it is not one."""
    try:
        faults = [Fault(**one) for one in json.loads(text)]
        for fault in faults:
            on = KINDS[fault.kind][0]
            if fault.target not in TARGETS.get(on, (on,)) or min(fault.at, fault.seconds) < 0 or not 0 <= fault.share <= 1:
                raise ValueError(fault)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a schedule (a JSON list of faults, as a failing run prints it): {error!r}") from error
    return sorted(faults, key=lambda fault: fault.at)


def shrink(faults, fails):
    """A smaller schedule that still fails, found by delta debugging: it tries to leave out halves, then quarters, down to single
    faults, until leaving out any single fault makes the run pass. fails(part) runs a schedule; it is called at most once for each."""
    known = {}

    def failing(part):
        if tuple(part) not in known:
            known[tuple(part)] = fails(part)
        return known[tuple(part)]

    if failing([]):
        return []
    pieces = 2
    while len(faults) > 1:
        size = -(-len(faults) // pieces)
        for begin in range(0, len(faults), size):
            rest = faults[:begin] + faults[begin + size:]
            if rest and failing(rest):
                faults, pieces = rest, max(2, pieces - 1)
                break
        else:
            if size == 1:
                break
            pieces = min(len(faults), 2 * pieces)
    return faults
