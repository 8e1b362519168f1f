"""Measures the speed of vLLM's CPU backend on one model, which is a Hugging Face folder. Prints one JSON object.

Weights, keys and values are bfloat16. Prefill is measured on -p pseudo-random tokens for each of -b sequences: the time of generating
one token. Decode is measured after a prompt of -d tokens: the time of the -n tokens after the first, decoded greedily. The prompt of
one sequence is processed 512 tokens at a time, the prompts of several at once, so that all begin to decode in the same step. With
--chunk N, N tokens are processed at a time in either case.
"""
import argparse
import json
import os
import pathlib
import random
import sys
import time

WARM_UP = 4  # new tokens per sequence


def imported(args):
    """vLLM, set to run in this process with the given threads."""
    os.environ.update({
        "OMP_NUM_THREADS": str(args.threads),
        # Without workers the engine sees all prompts before its first step, and an error is raised here, with its cause.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        # "auto" sets a core aside for a scheduler process, which there is not.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_CPU_KVCACHE_SPACE": str(args.cache_gb),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    })
    import vllm  # reads the environment

    return vllm


def model_config(folder):
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"vllm_bench: {folder} is no Hugging Face folder: {error}")
    if "quantization_config" in config:
        sys.exit(f"vllm_bench: {folder} has quantised weights; give a folder with bfloat16 weights")
    return config


def loaded(vllm, config, args):
    context = max(args.p, args.d + args.n) + 64  # with room for the warm-up
    # Cases may be longer than the model's context. That changes the text, but not the speed.
    short = (config.get("max_position_embeddings") or context) < context
    chunk = args.chunk or (512 if args.b == 1 else max(512, args.b * max(args.p, args.d)))
    try:
        return vllm.LLM(model=args.m, dtype="bfloat16", skip_tokenizer_init=True, seed=0, max_model_len=context, max_num_seqs=args.b,
                        max_num_batched_tokens=min(chunk, args.b * context), enable_prefix_caching=False,
                        disable_log_stats=False,  # the statistics hold the times of tokens
                        hf_overrides={"max_position_embeddings": context} if short else {})
    except Exception as error:  # of many types; messages of several lines end with the least useful, and compare.py keeps the last
        sys.exit(f"vLLM: {' '.join(str(error).split()) or type(error).__name__}")


def generate(vllm, llm, args, prompt, new):
    draw = random.Random(prompt)
    vocab = llm.llm_engine.model_config.get_vocab_size()
    prompts = [{"prompt_token_ids": [draw.randrange(vocab) for _ in range(prompt)]} for _ in range(args.b)]
    params = vllm.SamplingParams(temperature=0.0, max_tokens=new, ignore_eos=True, detokenize=False)
    return llm.generate(prompts, params, use_tqdm=False)


def decode_rate(outputs, args):
    """Tokens per second from the first token of the sequences to their last, so that neither start nor prompts count."""
    times = {(out.metrics.first_token_ts, out.metrics.last_token_ts) for out in outputs}
    if len(times) > 1:
        sys.exit(f"vllm_bench: the sequences did not decode together; give --cache-gb more than {args.cache_gb}, or --chunk more tokens")
    first, last = times.pop()
    return args.b * args.n / (last - first)


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", required=True, metavar="FOLDER")
    parser.add_argument("-p", type=int, default=512)
    parser.add_argument("-n", type=int, default=128)
    parser.add_argument("-d", type=int, default=0)
    parser.add_argument("-b", type=int, default=1, help="sequences that decode together")
    parser.add_argument("--kv-type", default="f16", help="f16 stands for vLLM's bfloat16; no other is measured")
    parser.add_argument("--chunk", type=int, default=0)
    parser.add_argument("--cache-gb", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.kv_type != "f16":
        sys.exit("vllm_bench measures only keys and values of bfloat16: vLLM's CPU backend has fp8, but no q8")
    if args.p and args.d:
        sys.exit("vllm_bench measures prefill only at depth 0: without a prefix cache vLLM would process the -d tokens again")
    return args


def main():
    args = parsed()
    config = model_config(pathlib.Path(args.m))
    vllm = imported(args)
    llm = loaded(vllm, config, args)
    # Not timed: the first step of each shape prepares its kernels.
    generate(vllm, llm, args, min(max(args.p, args.d, 1), 512), WARM_UP)
    result = {"version": vllm.__version__}
    if args.p:
        start = time.perf_counter()
        generate(vllm, llm, args, args.p, 1)
        result["prefill_tok_s"] = args.b * args.p / (time.perf_counter() - start)
    if args.n:
        result["decode_tok_s"] = decode_rate(generate(vllm, llm, args, max(args.d, 1), args.n + 1), args)
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
