"""Measures the speed of OpenVINO GenAI (LLMPipeline) on one model. Prints one JSON object.

Prefill is measured on -p pseudo-random tokens for each of -b sequences: the time to the first token. Decode is measured after a
prompt of -d tokens: the time for the -n tokens after the first, decoded greedily. Prompts are processed at once or, with --chunk N,
N tokens at a time.
"""
import argparse
import json
import random
import time

import numpy as np
import openvino as ov
import openvino_genai as genai


def scheduler(args):
    config = genai.SchedulerConfig()
    config.max_num_batched_tokens = args.chunk or max(512, args.b * (args.d + args.p))
    config.max_num_seqs = args.b
    config.cache_size = args.cache_gb
    config.enable_prefix_caching = False
    return config


def pipeline(args):
    properties = {"INFERENCE_NUM_THREADS": args.threads, "KV_CACHE_PRECISION": "f16" if args.kv_type == "f16" else "u8"}
    if args.attention == "paged":
        properties["scheduler_config"] = scheduler(args)
    else:
        properties["ATTENTION_BACKEND"] = "SDPA"
    if args.precision:
        properties["INFERENCE_PRECISION_HINT"] = args.precision
    return genai.LLMPipeline(args.m, "CPU", **properties)


def tokens_of(sequences, length, vocab):
    draw = random.Random(1)
    ids = np.array([[draw.randrange(vocab) for _ in range(length)] for _ in range(sequences)], dtype=np.int64)
    return genai.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids)))


def rates(pipe, args, prompt, decode):
    """Tokens per second over all sequences, of the prompts (prefill) and of the tokens after the first of each sequence (decode)."""
    inputs = tokens_of(args.b, prompt, args.vocab)
    start = time.perf_counter()
    result = pipe.generate(inputs, genai.GenerationConfig(max_new_tokens=decode + 1, ignore_eos=True, do_sample=False))
    raw = result.perf_metrics.raw_metrics
    first = raw.m_times_to_first_token[0] / 1e6
    durations, sizes = [d / 1e6 for d in raw.m_durations], list(raw.m_batch_sizes)
    whole = [(d, n) for d, n in zip(durations[-decode:], sizes[-decode:])] if decode else []
    return {"prefill": args.b * prompt / first, "decode": sum(n for _, n in whole) / sum(d for d, _ in whole) if whole else 0,
            "seconds": time.perf_counter() - start, "steps": len(durations), "batch_sizes": sorted(set(sizes))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", required=True)
    parser.add_argument("-p", type=int, default=512)
    parser.add_argument("-n", type=int, default=128)
    parser.add_argument("-d", type=int, default=0)
    parser.add_argument("-b", type=int, default=1, help="sequences that decode together")
    parser.add_argument("--kv-type", choices=("f16", "q8"), default="f16")
    parser.add_argument("--attention", choices=("paged", "stateful"), default="paged")
    parser.add_argument("--precision", help="type of activations: f32, bf16 or f16 (default: OpenVINO's choice)")
    parser.add_argument("--chunk", type=int, default=0)
    parser.add_argument("--cache-gb", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=30000, help="token ids are below this number (default: 30000)")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    pipe = pipeline(args)
    rates(pipe, args, 64, 4)  # warm-up, not timed: compiles kernels for the shapes
    result = {"version": genai.get_version(), "attention": args.attention}
    if args.p:
        measured = rates(pipe, args, args.p, 0)
        result["prefill_tok_s"] = measured["prefill"]
    if args.n:
        measured = rates(pipe, args, max(args.d, 1), args.n)
        result |= {"decode_tok_s": measured["decode"], "batch_sizes": measured["batch_sizes"]}
    print(json.dumps(result))


main()
