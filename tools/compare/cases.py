"""The cases that compare.py measures. Each is a row of its tables."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    prompt: int = 0  # length of the timed prefill in tokens; 0: the case times decode
    decode: int = 0  # length of the timed decode in tokens per sequence
    depth: int = 0  # tokens in each sequence's cache before the measurement
    parallel: int = 1  # sequences that decode together
    kv: str = "f16"  # type of keys and values: f16 or q8

    @property
    def rate(self):
        """The field in the JSON output of the benches that has the figure."""
        return "prefill_tok_s" if self.prompt else "decode_tok_s"

    @property
    def title(self):
        if self.prompt:
            return f"prefill {self.prompt}" + (f" at {self.depth}" if self.depth else "") + self._kv
        sequences = f"{self.parallel} x " if self.parallel > 1 else ""
        return f"decode {sequences}{self.decode} at {self.depth}" + self._kv

    @property
    def _kv(self):
        return "" if self.kv == "f16" else f", KV {self.kv}"


CASES = [
    Case("decode", decode=128),
    Case("prefill", prompt=512),
    Case("batch8", decode=64, depth=128, parallel=8),
    Case("batch16", decode=64, depth=128, parallel=16),
    Case("batch32", decode=64, depth=128, parallel=32),
    Case("deep4k", decode=64, depth=4096),
    Case("deep4k-q8", decode=64, depth=4096, kv="q8"),
    Case("deep16k", decode=64, depth=16384),
    Case("deep16k-q8", decode=64, depth=16384, kv="q8"),
    Case("prefill8k", prompt=8192),
]
QUICK = "decode,prefill,batch8,deep4k,deep4k-q8"  # one of each kind of work; the README says how long they take


def named(text):
    """The cases in a comma-separated list of names; "all": every case. Raises ValueError for an unknown name."""
    if text == "all":
        return CASES
    known = {case.name: case for case in CASES}
    unknown = [name for name in text.split(",") if name not in known]
    if unknown:
        raise ValueError(f"no case {', '.join(unknown)}; the cases are {', '.join(known)}")
    return [known[name] for name in text.split(",")]
