"""Speed of llama.cpp (through llama-cpp-python) on one model: one JSON object on stdout.

Timed as kvick bench times itself: `prompt` pseudo-random tokens in batches of 512, then `decode` single ones behind
`depth`; logits of the last prompt token and of every decoded one. The low-level interface, since the high-level one
copies logits through Python.
"""
import argparse
import ctypes
import json
import random
import time

import llama_cpp as lc


def fail(what):
    raise SystemExit(f"llama_cpp_bench: {what}")


class Context:
    def __init__(self, args, model, tokens):
        params = lc.llama_context_default_params()
        params.n_ctx = tokens
        params.n_batch = params.n_ubatch = 512
        params.n_threads = params.n_threads_batch = args.threads
        params.flash_attn_type = 1 if args.flash else 0
        self.context = lc.llama_init_from_model(model, params)
        if not self.context:
            fail("no context")
        vocab = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(model))
        self.random = random.Random(1)
        self.draw = lambda: self.random.randrange(vocab)

    def read(self, count, batch_size):
        for begin in range(0, count, batch_size):
            n = min(batch_size, count - begin)
            tokens = (lc.llama_token * n)(*[self.draw() for _ in range(n)])
            if lc.llama_decode(self.context, lc.llama_batch_get_one(tokens, n)) != 0:
                fail("llama_decode failed")
        lc.llama_get_logits_ith(self.context, -1)  # waits for the result

    def clear(self):
        lc.llama_memory_clear(lc.llama_get_memory(self.context), False)


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", required=True)
    parser.add_argument("-p", type=int, default=512)
    parser.add_argument("-n", type=int, default=128)
    parser.add_argument("-d", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--flash", action="store_true")
    args = parser.parse_args()
    silent = lc.llama_log_callback(lambda level, text, data: None)
    lc.llama_log_set(silent, ctypes.c_void_p(0))
    lc.llama_backend_init()
    model = lc.llama_model_load_from_file(args.m.encode(), lc.llama_model_default_params())
    if not model:
        fail(f"cannot load {args.m}")
    context = Context(args, model, args.d + max(args.p, args.n) + 8)
    rates = {}
    for timed in (False, True):
        context.clear()
        context.read(args.d, 512)
        prefill = seconds(lambda: context.read(args.p, 512)) if args.p else 0
        context.clear()
        context.read(args.d, 512)
        decode = seconds(lambda: context.read(args.n, 1)) if args.n else 0
        if timed:
            rates = {"prefill_tok_s": args.p / prefill if args.p else 0,
                     "decode_tok_s": args.n / decode if args.n else 0}
    print(json.dumps(rates | {"flash": args.flash, "version": lc.__version__}))


main()
