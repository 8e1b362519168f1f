#!/usr/bin/env python3
"""Records llama.cpp's logits of a small random model of each family, and its results of embedding models and rerankers, for
tests/parity. Run by hand; the tests only read the result.

    c++ -O2 tests/reference/peer_logits.cc -o peer_logits -I LLAMA.CPP/include -I LLAMA.CPP/ggml/include -L LIBRARIES -lllama -lggml -lggml-base
    python3 -m venv venv && venv/bin/pip install gguf==0.19.0
    cmake --preset release && cmake --build --preset release --target make_model
    venv/bin/python tests/reference/record_families.py --make-model build/release/tools/make_model/make_model --peer ./peer_logits [--only NAME ...]

The recorded values are from llama.cpp v0.5.0 (de3ff81, September 2026) as built by npm's node-llama-cpp: libllama and the
libggml-*.so of @node-llama-cpp/linux-x64. The environment variable KVICK_PEER_LIBRARIES is their folder. One thread, float32 cache,
no flash attention, all tokens in one batch. record_logits.py describes the format of the result.
"""
import argparse
import binascii
import pathlib
import random
import subprocess
import tempfile

import gguf
import numpy as np

from references import HERE, compact, difference, file_facts, sampled_ids, update_index, widen

VOCAB, CONTEXT = 512, 512
QUANTISED = {"qwen3moe-all": ["Q8_0", "Q4_0", "Q4_K", "IQ4_XS"], "gpt-oss-all": ["Q8_0", "MXFP4"], "gemma3": ["Q8_0", "Q4_0"],
             "phi3": ["Q8_0", "Q4_K"],
             # The types that record_logits.py does not record.
             "smollm3": ["IQ4_NL", "IQ4_XS", "MXFP4", "IQ3_S", "IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S", "TQ2_0",
                         "TQ1_0"]}


def run_peer(args, path, context, ids):
    command = [args.peer, str(path), context, *map(str, ids)]
    return np.frombuffer(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout, "<f4")


def logits_of(args, path, ids):
    return run_peer(args, path, str(CONTEXT), ids).reshape(len(ids), VOCAB)


def pools(path):
    return any(key.endswith(".pooling_type") for key in gguf.GGUFReader(path).fields)


def record(args, name, seed, arguments, scratch, quantised):
    path = scratch / "made.gguf"
    arguments = [*arguments, "--seed", str(seed)]
    subprocess.run([args.make_model, *arguments, "-o", path], check=True)
    draw = random.Random(seed)
    positions = 128 if quantised else 64  # with more positions the largest error varies less
    ids = [draw.randrange(509) for _ in range(positions)]  # ids from 509 on are special tokens
    if pools(path):
        (HERE / f"{name}.bin").write_bytes(run_peer(args, path, "pooled", ids).tobytes())
        return "pooled", {"name": name, "arguments": arguments, **file_facts(path), "ids": ids, "peer": "v0.5.0"}
    logits = logits_of(args, path, ids)
    (HERE / f"{name}.bin").write_bytes(compact(logits).tobytes())
    case = {"name": name, "arguments": arguments, **file_facts(path), "positions": positions, "vocab": VOCAB,
            "sampled": sampled_ids(VOCAB), "ids": ids, "peer": "v0.5.0"}
    if quantised:
        wide = scratch / "wide.gguf"
        wide.unlink(missing_ok=True)
        widen(path, wide)
        exact = logits_of(args, wide, ids)
        (HERE / f"{name}.exact.bin").write_bytes(compact(exact).tobytes())
        case["against_exact"] = difference(logits, exact)
    return "logits", case


def cases(families):
    for family in families:
        for kind in ["F32", *QUANTISED.get(family, [])]:
            # The bounds of tests/parity assume a width of 256, over which rounding averages out.
            wider = [] if kind == "F32" else ["--dim", "256", "--ffn", "512"]
            if kind in ("Q4_K", "IQ4_XS") and family.startswith("qwen"):  # the heads together are wider than the model
                wider += ["--odd-type", "Q8_0"]
            yield f"{family}-{kind}", ["--family", family, "--type", kind, *wider], kind != "F32"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--make-model", required=True)
    parser.add_argument("--peer", required=True, help="peer_logits, compiled as above")
    parser.add_argument("--only", nargs="+", default=[])
    args = parser.parse_args()
    unknown = subprocess.run([args.make_model, "--family", "?", "-o", "-"], stderr=subprocess.PIPE, text=True)
    families = unknown.stderr.split("the families are ")[1].strip().split(", ")
    with tempfile.TemporaryDirectory() as scratch:
        for name, arguments, quantised in cases(families):
            if args.only and name not in args.only:
                continue
            seed = binascii.crc32(name.encode()) % 1000
            kind, case = record(args, name, seed, arguments, pathlib.Path(scratch), quantised)
            update_index(kind, [case])
            print(name, flush=True)


if __name__ == "__main__":
    main()
