"""The test text: fragments of many scripts (fragments.json), chosen by a pseudo-random sequence. The C++ tests generate the same
bytes (tests/reference/tokens.h), so the text itself is not stored."""
import json
import pathlib

HERE = pathlib.Path(__file__).parent


def generate(size: int, seed: int) -> bytes:
    """Generates at least `size` bytes of UTF-8."""
    groups = json.loads((HERE / "fragments.json").read_text())
    weights = [weight for weight, _ in groups]
    state = seed

    def pick(count):
        nonlocal state  # xorshift32
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        return state % count

    out = bytearray()
    while len(out) < size:
        at, group = pick(sum(weights)), 0
        while at >= weights[group]:
            at -= weights[group]
            group += 1
        fragments = groups[group][1]
        out += fragments[pick(len(fragments))].encode()
        if pick(4) > 0:
            out += b" "
    return bytes(out)


def fnv1a(data: bytes) -> str:
    """The 64-bit FNV-1a hash, in hexadecimal."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"
