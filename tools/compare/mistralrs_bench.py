"""Measures the speed of mistral.rs on one GGUF file. Prints one JSON object.

Prefill is measured on a text of about -d + -p tokens (one repeated word), decode of -n tokens after a text of about -d tokens. Token
counts and times are those that the engine reports.
"""
import argparse
import json
import os
import pathlib
import sys


def runner(args):
    # The engine reads this when it starts its threads, so it must be set before the import.
    os.environ["RAYON_NUM_THREADS"] = str(args.threads)
    import mistralrs

    file = pathlib.Path(args.m).resolve()
    which = mistralrs.Which.GGUF(quantized_model_id=str(file.parent), quantized_filename=file.name)
    return mistralrs, mistralrs.Runner(which=which, prefix_cache_n=0)


def usage(engine, runner, prompt, decode):
    request = engine.CompletionRequest(model="default", prompt=" a" * prompt, max_tokens=max(decode, 1), temperature=0.0,
                                       ignore_eos=True)
    return runner.send_completion_request(request).usage


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", required=True)
    parser.add_argument("-p", type=int, default=512)
    parser.add_argument("-n", type=int, default=128)
    parser.add_argument("-d", type=int, default=0)
    parser.add_argument("-b", type=int, default=1)
    parser.add_argument("--kv-type", default="f16")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.b > 1 or args.kv_type != "f16":
        sys.exit("mistralrs_bench supports only one sequence and the engine's default type of keys and values")
    engine, loaded = runner(args)
    usage(engine, loaded, 16, 4)  # warm-up, not timed
    result = {}
    if args.p:
        measured = usage(engine, loaded, args.d + args.p, 1)
        result |= {"prompt_tokens": measured.prompt_tokens, "prefill_tok_s": measured.avg_prompt_tok_per_sec}
    if args.n:
        measured = usage(engine, loaded, max(args.d, 1), args.n)
        result |= {"completion_tokens": measured.completion_tokens, "decode_tok_s": measured.avg_compl_tok_per_sec}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
