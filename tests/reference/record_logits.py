#!/usr/bin/env python3
"""Records what llama.cpp computes, for tests/parity to compare kvick with. Run by hand; the tests only read the result.

    python3 -m venv venv
    CMAKE_ARGS="<see below>" venv/bin/pip install --no-binary llama-cpp-python llama-cpp-python==0.3.36 gguf==0.19.0 jinja2
    cmake --preset release && cmake --build --preset release --target make_model
    venv/bin/python tests/reference/record_logits.py --make-model build/release/tools/make_model/make_model \\
        --smollm2 SmolLM2-135M-Instruct.Q4_1.gguf --data DATA [--only NAME ...]

DATA holds text/wikitext2-valid.txt and stories260K/{stories260K.bin,tok512.bin} (karpathy's tinyllamas). The build that
made the recorded values had OpenMP, llamafile's matrix products, run-time repacking, and AVX-512 F, CD, VL, DQ, BW, VBMI,
VNNI and BF16, but not FP16: -DGGML_NATIVE=OFF and -DGGML_<each of them>=ON in CMAKE_ARGS.

Logits: flash attention off, KV cache float32 (so that its rounding is not in the comparison), 2 threads, all tokens in one
batch. A case whose weights are not float32 is recorded twice: unchanged (NAME.bin), and with its weights converted to float32
(NAME.exact.bin). The latter has no rounding of activations, so it is the value that both engines approximate.
Greedy: the unchanged file, llama.cpp's default float16 cache, flash attention off, the prompt in one batch, then single
tokens. Also recorded: the step at which two other ways of running llama.cpp first choose another token ("same_flash",
"same_no_repack_f32_kv"; 32: never), and which tokens the float32 weights choose after the same prefix ("exact").
Perplexity: windows of 1024 consecutive tokens, no BOS, no overlap; in each, tokens 1 to 1023 are scored; float16 cache.
NAME.exact: the float32 weights, float32 cache, at most four windows.

NAME.bin is float32, little-endian, per position: the logits at the case's 64 "sampled" ids, log(sum(exp(all logits))), the
L2 norm of all logits, the ids of the 8 largest logits and those logits, largest first. index.json holds the rest.
"""
import argparse
import binascii
import ctypes
import json
import os
import pathlib
import random
import subprocess
import tempfile

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # do not busy-wait, because other processes may need the core
import gguf
import jinja2
import llama_cpp as L
import numpy as np

from references import HERE, compact, difference, file_facts, log_sum_exp, sampled_ids, update_index, widen

THREADS, WINDOW, STEPS = 2, 1024, 32
F32, F16 = 0, 1  # ggml types


class Peer:
    """A model in llama.cpp."""

    def __init__(self, path, repack=True):
        params = L.llama_model_default_params()
        params.use_extra_bufts = repack
        self.model = L.llama_model_load_from_file(str(path).encode(), params)
        assert self.model, path
        self.vocab = L.llama_model_get_vocab(self.model)
        self.size = L.llama_vocab_n_tokens(self.vocab)

    def __del__(self):
        L.llama_model_free(self.model)

    def tokenize(self, text, special):
        data = text.encode()
        out = (ctypes.c_int32 * (len(data) + 8))()
        count = L.llama_tokenize(self.vocab, data, len(data), out, len(out), False, special)
        assert count >= 0
        return list(out[:count])

    def session(self, tokens, kv=F32, flash=False):
        return Session(self, tokens, kv, flash)


class Session:
    """A context with one sequence."""

    def __init__(self, peer, tokens, kv, flash):
        params = L.llama_context_default_params()
        params.n_ctx = params.n_batch = max(tokens, 64)
        params.n_ubatch = min(512, params.n_batch)
        params.n_threads = params.n_threads_batch = THREADS
        params.type_k = params.type_v = kv
        params.flash_attn_type = int(flash)
        self.peer = peer
        self.context = L.llama_init_from_model(peer.model, params)
        self.batch = L.llama_batch_init(params.n_batch, 0, 1)
        self.past = 0

    def __del__(self):
        L.llama_batch_free(self.batch)
        L.llama_free(self.context)

    def clear(self):
        L.llama_memory_clear(L.llama_get_memory(self.context), True)
        self.past = 0

    def feed(self, ids):
        """Logits of every token, [len(ids)][vocab], valid until the next call."""
        self.batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            self.batch.token[i], self.batch.pos[i] = token, self.past + i
            self.batch.n_seq_id[i], self.batch.seq_id[i][0], self.batch.logits[i] = 1, 0, True
        assert L.llama_decode(self.context, self.batch) == 0
        self.past += len(ids)
        return np.ctypeslib.as_array(L.llama_get_logits(self.context), (len(ids), self.peer.size))


def logits_of(path, ids, repack=True, one_by_one=False, flash=False):
    session = Peer(path, repack).session(len(ids), flash=flash)
    if one_by_one:
        return np.concatenate([session.feed([token]).copy() for token in ids])
    return session.feed(ids).copy()


def crc_of_ids(ids):
    return binascii.crc32(np.asarray(ids, "<i4").tobytes())


def record(name, path, ids, scratch, quantised):
    logits = logits_of(path, ids)
    (HERE / f"{name}.bin").write_bytes(compact(logits).tobytes())
    case = {"positions": len(ids), "vocab": logits.shape[1], "sampled": sampled_ids(logits.shape[1]), "ids": ids,
            "one_by_one": difference(logits_of(path, ids, one_by_one=True), logits),
            "no_repack": difference(logits_of(path, ids, repack=False), logits),
            "flash": difference(logits_of(path, ids, flash=True), logits)}
    if quantised:
        wide = scratch / "wide.gguf"
        widen(path, wide)
        exact = logits_of(wide, ids)
        (HERE / f"{name}.exact.bin").write_bytes(compact(exact).tobytes())
        case["against_exact"] = difference(logits, exact)
        wide.unlink()
    return case


# -- cases ------------------------------------------------------------------------------------------------------------

TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]


def made_cases():
    """Yields (name, arguments of make_model, number of positions)."""
    for kind in TYPES:
        yield f"llama-{kind}", ["--type", kind], 256 if kind in TYPES[:3] else 64
    for arch in ("qwen2", "qwen3"):
        for kind in ("F32", "Q8_0", "Q4_K"):
            yield f"{arch}-{kind}", ["--arch", arch, "--type", kind], 64
    # Original contexts of 64 (linear, yarn) and 32 tokens (llama3) are scaled to 256, so that 64 positions show the scaling.
    for scaling in ("linear:4", "llama3:8", "yarn:4"):
        yield f"llama-rope-{scaling.split(':')[0]}", ["--context", "256", "--rope-scaling", scaling], 64
    yield "llama-head-dim-96", ["--head-dim", "96"], 64
    yield "llama-tied", ["--tied"], 64


def record_made(args, scratch):
    for seed, (name, arguments, positions) in enumerate(made_cases(), start=1):
        if args.only and name not in args.only:
            continue
        path = scratch / "made.gguf"
        arguments = arguments + ["--seed", str(seed)]
        subprocess.run([args.make_model, *arguments, "-o", path], check=True)
        draw = random.Random(seed)
        ids = [draw.randrange(509) for _ in range(positions)]  # ids from 509 on are special tokens
        quantised = any(kind in arguments for kind in TYPES[1:])
        yield {"name": name, "arguments": arguments, **file_facts(path), **record(name, path, ids, scratch, quantised)}


def record_stories(args, scratch):
    path = scratch / "stories260K.gguf"
    source = pathlib.Path(args.data) / "stories260K"
    subprocess.run([args.make_model, "--from-llama2c", source / "stories260K.bin", "--tokenizer",
                    source / "tok512.bin", "-o", path], check=True)
    ids = [1]
    session = Peer(path).session(256)  # the text is the model's own, so that it is like the training data
    while len(ids) < 256:
        ids.append(int(session.feed(ids[-1:])[-1].argmax()))
    return {"name": "stories260K", **file_facts(path), **record("stories260K", path, ids, scratch, False)}


def record_smollm2(args, scratch):
    text = (pathlib.Path(args.data) / "text" / "wikitext2-valid.txt").read_text()
    ids = Peer(args.smollm2).tokenize(text[:4096], False)[:256]
    return {"name": "smollm2", **file_facts(pathlib.Path(args.smollm2)),
            **record("smollm2", args.smollm2, ids, scratch, True)}


def record_logits(args, scratch):
    yield from record_made(args, scratch)
    if not args.only or "stories260K" in args.only:
        yield record_stories(args, scratch)
    if not args.only or "smollm2" in args.only:
        yield record_smollm2(args, scratch)


def greedy(peer, ids, kv, flash):
    """Decodes greedily. Returns per step the four likeliest tokens, best first, and by how much their logits are below the best one."""
    session = peer.session(len(ids) + STEPS, kv=kv, flash=flash)
    row, best, below = session.feed(ids)[-1], [], []
    for _ in range(STEPS):
        top = np.argsort(-row, kind="stable")[:4]
        best.append(top.tolist())
        below.append([round(float(row[top[0]] - row[i]), 4) for i in top])
        row = session.feed(best[-1][:1])[-1]
    return best, below


def first_difference(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x[0] != y[0]), len(a))


def record_greedy(args, scratch):
    peer, plain = Peer(args.smollm2), Peer(args.smollm2, repack=False)
    widen(args.smollm2, scratch / "wide.gguf")
    wide = Peer(scratch / "wide.gguf")
    template = jinja2.Environment().from_string(
        gguf.GGUFReader(args.smollm2).fields["tokenizer.chat_template"].contents())
    for prompt in json.loads((HERE / "prompts.json").read_text()):
        text = prompt.get("text") or template.render(messages=prompt["chat"], add_generation_prompt=True)
        ids = peer.tokenize(text, True)
        best, below = greedy(peer, ids, F16, False)
        others = {"flash": greedy(peer, ids, F16, True), "no_repack_f32_kv": greedy(plain, ids, F32, False)}
        read = ids + [top[0] for top in best[:-1]]
        session = wide.session(len(read))  # keeps the memory of feed's result alive
        exact = session.feed(read)[len(ids) - 1:].argmax(-1)
        yield {"text": text, "ids": ids, "best": best, "below": below, "exact": exact.tolist(),
               **{f"same_{name}": first_difference(best, other[0]) for name, other in others.items()}}


def record_perplexity(peer, name, text, windows, kv):
    ids = peer.tokenize(text, False)[:windows * WINDOW]
    session, totals = peer.session(WINDOW, kv=kv), []
    for first in range(0, len(ids), WINDOW):
        session.clear()
        window = np.array(ids[first:first + WINDOW])
        logits = session.feed(window.tolist())[:-1]
        chosen = np.take_along_axis(logits, window[1:, None], -1)[:, 0]
        totals.append(round(float((log_sum_exp(logits) - chosen).sum()), 4))
    assert len(totals) == windows
    scored = windows * (WINDOW - 1)
    return {"name": name, "window": WINDOW, "tokens": len(ids), "ids_crc32": crc_of_ids(ids),
            "scored": scored, "nll": round(sum(totals), 4), "perplexity": round(float(np.exp(sum(totals) / scored)), 6),
            "window_nll": totals}


def record_perplexities(args, scratch):
    texts = {"LICENSE": (HERE.parents[2] / "LICENSE").read_text(),
             "wikitext2-valid": (pathlib.Path(args.data) / "text" / "wikitext2-valid.txt").read_text()}
    for name, windows in (("LICENSE", 2), ("wikitext2-valid", 64)):
        if not args.only or name in args.only:
            yield record_perplexity(Peer(args.smollm2), name, texts[name], windows, F16)
        if not args.only or name + ".exact" in args.only:
            widen(args.smollm2, scratch / "wide.gguf")
            yield record_perplexity(Peer(scratch / "wide.gguf"), name + ".exact", texts[name], min(windows, 4), F32)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--make-model", required=True)
    parser.add_argument("--smollm2", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--only", nargs="*", help="names of cases; greedy; LICENSE, wikitext2-valid, and NAME.exact")
    args = parser.parse_args()
    L.llama_backend_init()
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        for kind, record_kind in (("logits", record_logits), ("greedy", record_greedy), ("perplexity", record_perplexities)):
            if kind == "greedy" and args.only and kind not in args.only:
                continue
            update_index(kind, list(record_kind(args, scratch)),
                         {"llama_cpp_python": L.__version__, "system": L.llama_print_system_info().decode().strip(),
                          "threads": THREADS})


if __name__ == "__main__":
    main()
