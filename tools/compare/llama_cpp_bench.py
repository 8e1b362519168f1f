"""Measures the speed of llama.cpp (through llama-cpp-python) on one model. Prints one JSON object.

Measures the same as kvick bench: the prefill of -p pseudo-random tokens in batches of 512, and the decode of -n tokens in each of -b
sequences, all at a depth of -d tokens. Logits are computed for the last prompt token and for every decoded token. Uses the low-level
interface, because the high-level one copies logits through Python. --state FILE stores the cache at that depth, so that only the
first run of a model and configuration has to fill it.
"""
import argparse
import ctypes
import json
import pathlib
import random
import time

import llama_cpp as lc

BATCH = 512
KV_TYPES = {"f16": lc.GGML_TYPE_F16, "q8": lc.GGML_TYPE_Q8_0}


def fail(what):
    raise SystemExit(f"llama_cpp_bench: {what}")


class Log:
    """Captures llama.cpp's log, to find the buffers of the weights and the last message."""

    def __init__(self):
        self.lines = []
        self.callback = lc.llama_log_callback(lambda level, text, data: self.lines.append(text.decode(errors="replace")))
        lc.llama_log_set(self.callback, ctypes.c_void_p(0))

    def weight_buffers(self):
        found = [line.split("model buffer size")[0].split(":")[-1] for line in self.lines if "model buffer size" in line]
        return [name.strip() for name in found]

    def complaint(self):
        return next((line.strip() for line in reversed(self.lines) if line.strip()), "no reason given")


class Context:
    def __init__(self, args, model, log):
        tokens = -(-(args.d + max(args.p, args.n) + 8) // 256) * 256
        params = lc.llama_context_default_params()
        params.n_ctx = tokens * args.b
        params.n_batch = params.n_ubatch = BATCH
        params.n_seq_max = args.b
        params.kv_unified = args.unified
        params.n_threads = params.n_threads_batch = args.threads
        params.flash_attn_type = 1 if args.flash else 0
        params.type_k = params.type_v = KV_TYPES[args.kv_type]
        self.context = lc.llama_init_from_model(model, params)
        if not self.context:
            fail(f"no context: {log.complaint()}")
        self.memory = lc.llama_get_memory(self.context)
        self.batch = lc.llama_batch_init(BATCH, 0, 1)
        self.vocab = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(model))
        self.random = random.Random(1)
        self.lengths = [0] * args.b

    def decode(self, sequences, last_logits_only):
        """Appends one random token for each entry of `sequences` to that sequence, in one batch."""
        batch = self.batch
        batch.n_tokens = len(sequences)
        for i, sequence in enumerate(sequences):
            batch.token[i] = self.random.randrange(self.vocab)
            batch.pos[i] = self.lengths[sequence]
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
            batch.logits[i] = not last_logits_only or i + 1 == len(sequences)
            self.lengths[sequence] += 1
        if lc.llama_decode(self.context, batch) != 0:
            fail("llama_decode failed")

    def wait(self):
        lc.llama_get_logits_ith(self.context, -1)

    def read(self, sequence, count):
        for begin in range(0, count, BATCH):
            self.decode([sequence] * min(BATCH, count - begin), last_logits_only=True)
        if count:
            self.wait()

    def step(self, count):
        for _ in range(count):
            self.decode(range(len(self.lengths)), last_logits_only=False)
            self.wait()

    def clear(self):
        lc.llama_memory_clear(self.memory, False)
        self.lengths = [0] * len(self.lengths)

    def fill(self, depth, state):
        self.clear()
        if state and pathlib.Path(state).exists():
            count = ctypes.c_size_t()
            if lc.llama_state_seq_load_file(self.context, state.encode(), 0, (lc.llama_token * 1)(), 1, count) == 0:
                fail(f"cannot load {state}")
            self.lengths[0] = depth
            return
        for sequence in range(len(self.lengths)):
            self.read(sequence, depth)
        if state:
            lc.llama_state_seq_save_file(self.context, state.encode(), 0, (lc.llama_token * 1)(), 0)

    def cut(self, depth):
        lc.llama_memory_seq_rm(self.memory, 0, depth, -1)
        self.lengths[0] = depth


def rate(tokens, work):
    if not tokens:
        return 0
    start = time.perf_counter()
    work()
    return tokens / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", required=True)
    parser.add_argument("-p", type=int, default=512)
    parser.add_argument("-n", type=int, default=128)
    parser.add_argument("-d", type=int, default=0)
    parser.add_argument("-b", type=int, default=1, help="sequences that decode together")
    parser.add_argument("--unified", action="store_true", help="one cache for all sequences instead of one each")
    parser.add_argument("--kv-type", choices=KV_TYPES, default="f16")
    parser.add_argument("--flash", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--state", help="file for the cache at the depth; for one sequence")
    args = parser.parse_args()
    log = Log()
    lc.llama_backend_init()
    model = lc.llama_model_load_from_file(args.m.encode(), lc.llama_model_default_params())
    if not model:
        fail(f"cannot load {args.m}: {log.complaint()}")
    context = Context(args, model, log)
    context.read(0, min(args.p, BATCH))  # warm-up, not timed
    context.clear()
    context.step(min(args.n, 8))
    context.fill(args.d, args.state)
    prefill = rate(args.p, lambda: context.read(0, args.p))
    context.cut(args.d)
    decode = rate(args.n * args.b, lambda: context.step(args.n))
    print(json.dumps({"prefill_tok_s": prefill, "decode_tok_s": decode, "flash": args.flash, "unified": args.unified,
                      "kv_type": args.kv_type, "weights_in": log.weight_buffers(), "version": lc.__version__}))


main()
