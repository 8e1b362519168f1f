#!/usr/bin/env python3
"""Trains a small model of a family on texts and writes it as a Hugging Face folder, which kvick reads.

    tools/small_models/train.py qwen3|gemma3|qwen35|falcon-h1 TEXT... -o FOLDER

The model has the family's layers, computed by transformers, and a byte-level BPE tokenizer that is trained on the same texts. What it
is good for: measuring how the cache behaves with rows that training has shaped, where models with random weights show nothing. It
knows only its texts, so its answers are worthless. The README beside this file says more.

Needs torch, transformers and tokenizers. gemma3 has a window of a quarter of the context in all layers but every sixth, qwen35
a gated delta net in all layers but every fourth, falcon-h1 a state beside attention in each. The learning rate rises for a tenth of
the steps, at most 100, and then falls to zero along half a cosine.
"""
import argparse
import json
import math
import pathlib
import sys
import time
import types

import shapes

PACKAGES = ("torch", "transformers", "tokenizers")
SIZES = {  # option: (default, what it is)
    "dim": (192, "elements of the hidden state; the feed-forward layers have three times as many"),
    "layers": (6, "layers"),
    "heads": (4, "attention heads"),
    "kv_heads": (2, "heads of keys and values"),
    "head_dim": (64, "elements of a key or value in each head; a row's cost in bits and its loss depend on it"),
    "context": (1024, "tokens of a training window, and the model's context"),
}
COUNTS = {
    "vocab": (2048, "highest number of tokens of the tokenizer"),
    "batch": (2, "windows in each step"),
    "steps": (1200, "steps"),
    "seed": (1, "seed of the first weights and of the windows drawn from the texts"),
}


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def parsed(argv):
    """The options, with the texts read. Ends the program for wrong ones, before anything is trained."""
    parser = Parser(prog="train.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=shapes.FAMILIES, help="whose layers the model has")
    parser.add_argument("texts", nargs="+", metavar="TEXT", help="text file in UTF-8; some megabytes in all are enough")
    parser.add_argument("-o", "--output", required=True, type=pathlib.Path, metavar="FOLDER", help="new folder for the model")
    for name, (default, what) in (SIZES | COUNTS).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default, metavar="N", help=f"{what} (default: {default})")
    parser.add_argument("--rate", type=float, default=2e-3, metavar="R", help="highest learning rate (default: 0.002)")
    parser.add_argument("--type", choices=("bf16", "f32"), default="bf16", help="type in which products are computed; take f32 on "
                        "processors without AVX512-BF16 and AMX (default: bf16)")
    parser.add_argument("--threads", type=int, metavar="N", help="threads (default: torch's)")
    args = parser.parse_args(argv)
    args.sizes = types.SimpleNamespace(**{name: getattr(args, name) for name in SIZES})
    try:
        shapes.check(args.family, args.sizes, args.vocab)
        for name, least in ("batch", 1), ("steps", 1), ("seed", 0), ("threads", 1):
            if (value := getattr(args, name)) is not None and value < least:
                raise ValueError(f"--{name} {value}: must be at least {least}")
        if not 0 < args.rate < 1:
            raise ValueError(f"--rate {args.rate}: must be above 0 and below 1")
        if args.output.is_file() or args.output.is_dir() and any(args.output.iterdir()):
            raise ValueError(f"{args.output} exists and is not an empty folder; give a new one to -o")
        args.contents = [read(name) for name in args.texts]
    except ValueError as error:
        parser.error(str(error))
    return args


def read(name):
    try:
        return pathlib.Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{name}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: byte {error.start} is not UTF-8; convert the file, for example with iconv") from None


def trained_tokenizer(texts, size):
    """A byte-level BPE tokenizer, which can encode any text. It has fewer tokens than size if the texts are short."""
    import tokenizers

    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=size, special_tokens=["<|end|>"], show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(texts, trainer)
    assert made.token_to_id("<|end|>") == shapes.END
    return made


def share_of_rate(step, steps):
    """The learning rate of a step (from 0) as a share of the highest."""
    rise = min(100, math.ceil(steps / 10))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / (steps - rise)))


def progress(done, steps, loss, seconds):
    left = seconds / done * (steps - done)
    return f"step {done} of {steps}, loss {loss:.3f}, {seconds / done:.2f} s a step, " + (
        f"{left / 60:.0f} min left" if left >= 120 else f"{left:.0f} s left")


class Display:
    """Shows the progress: on a terminal in one line that is replaced, else in a line for each twentieth of the steps."""

    def __init__(self, steps, out):
        self.steps, self.out, self.start = steps, out, time.monotonic()
        self.every = 1 if out.isatty() else max(1, steps // 20)

    def show(self, done, loss):
        if done % self.every and done != self.steps:
            return
        line = progress(done, self.steps, loss, time.monotonic() - self.start)
        self.out.write(f"\r\x1b[K{line}" + "\n" * (done == self.steps) if self.out.isatty() else f"{line}\n")
        self.out.flush()


def train(model, tokens, args):
    """Trains the model and returns the mean loss of the last steps."""
    import torch

    draw = torch.Generator().manual_seed(args.seed)
    weights = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": weights, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}], lr=args.rate,
                                  betas=(0.9, 0.95))
    display, mean = Display(args.steps, sys.stderr), None
    for step in range(args.steps):
        for group in optimizer.param_groups:
            group["lr"] = args.rate * share_of_rate(step, args.steps)
        starts = torch.randint(0, len(tokens) - args.context + 1, (args.batch,), generator=draw)
        batch = torch.stack([tokens[start:start + args.context] for start in starts])
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.type == "bf16"):
            loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean = loss.item() if mean is None else 0.95 * mean + 0.05 * loss.item()
        display.show(step + 1, mean)
    return mean


def record(args, tokens, parameters, loss):
    """What training.json says, so that figures of the model can name what it was trained on."""
    names = [pathlib.Path(name).name for name in args.texts]
    return {"family": args.family, "texts": names, "tokens": tokens, "parameters": parameters, "loss": round(loss, 4), "rate": args.rate,
            "type": args.type} | {name: getattr(args, name) for name in SIZES | COUNTS}


def main(argv=None):
    args = parsed(argv)
    try:
        import tokenizers  # noqa: F401
        import torch
        import transformers
    except ImportError as error:
        sys.exit(f"train.py: {error}; install {', '.join(PACKAGES)} with pip, in a virtual environment")
    transformers.utils.logging.disable_progress_bar()  # of saving, which takes no time; train() shows its own
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    tokenizer = trained_tokenizer(args.contents, args.vocab)
    tokens = torch.tensor([token for text in args.contents for token in [*tokenizer.encode(text).ids, shapes.END]])
    if len(tokens) < args.context:
        sys.exit(f"train.py: the texts have {len(tokens)} tokens, but a window has {args.context}; give more text or a smaller --context")
    args.output.mkdir(parents=True, exist_ok=True)  # now: after the training it would be too late to hear that it cannot be made
    values = shapes.FAMILIES[args.family](args.sizes, tokenizer.get_vocab_size())
    config = transformers.AutoConfig.for_model(values.pop("model_type"), **values)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{parameters:,} parameters, {len(tokens):,} tokens of text, {args.steps * args.batch * args.context:,} tokens to train on")
    loss = train(model, tokens, args)
    model.save_pretrained(args.output)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>").save_pretrained(args.output)
    (args.output / "training.json").write_text(json.dumps(record(args, len(tokens), parameters, loss), indent=1) + "\n")
    print(f"{args.output}: loss {loss:.3f}. Measure its perplexity on another text: kvick ppl -m {args.output} -f OTHER")


if __name__ == "__main__":
    main()
