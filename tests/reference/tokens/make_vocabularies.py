"""Makes the small vocabularies beside this file: GGUF files with a tokenizer and no tensors.

    python -m pip install tokenizers sentencepiece gguf
    python make_vocabularies.py path/to/sentencepiece.model

The byte-level vocabularies are trained on the test text with each family's pre-tokenizer. The SentencePiece ones are copied from
the given file (llama2.c's 512-piece tok512.model). Overlapping control and user-defined tokens are added."""
import json
import pathlib
import sys

import gguf
import sentencepiece
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

import text

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def by_regex(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), BYTE_LEVEL])


PRE = {
    "gpt-2": GPT2,
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), GPT2]),
    "llama-bpe": by_regex(LLAMA3),
    "qwen2": by_regex(LLAMA3.replace("{1,3}", "")),
    "default": GPT2,  # llama.cpp's own split; trained with the most similar one
    "falcon": GPT2,
}
CONTROL = ["<|begin|>", "<|end|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<a<b"]
USER_DEFINED = ["<tool>", "<tool", "<b>\n", "    ", "   \t", "the quick"]


def write(name, model, pre, pieces, kinds, merges=None, scores=None, bos=None, eos=None, **flags):
    out = gguf.GGUFWriter(pathlib.Path(__file__).parent / f"vocab-{name}.gguf", "llama")
    out.add_context_length(64)  # llama.cpp requires these even to load only a vocabulary
    out.add_embedding_length(32)
    out.add_block_count(1)
    out.add_feed_forward_length(32)
    out.add_head_count(1)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_tokenizer_model(model)
    if pre:
        out.add_tokenizer_pre(pre)
    out.add_token_list(pieces)
    out.add_token_types(kinds)
    if scores:
        out.add_token_scores(scores)
    if merges:
        out.add_token_merges(merges)
    if bos is not None:
        out.add_bos_token_id(bos)
    if eos is not None:
        out.add_eos_token_id(eos)
    for flag, value in flags.items():
        getattr(out, flag)(value)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def byte_level(pre):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = PRE[pre]
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([text.generate(200_000, 7).decode()], trainer)
    trained = json.loads(tokenizer.to_str())["model"]
    pieces = [piece for piece, _ in sorted(trained["vocab"].items(), key=lambda item: item[1])]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in trained["merges"]]
    special = CONTROL + USER_DEFINED
    kinds = [1] * len(pieces) + [3] * len(CONTROL) + [4] * len(USER_DEFINED)
    bos, eos = len(pieces), len(pieces) + 1
    write(pre, "gpt2", pre, pieces + special, kinds, merges=merges, bos=bos, eos=eos)


def sentence_piece(path):
    model = sentencepiece.SentencePieceProcessor(path)
    ids = range(model.vocab_size())
    kind = lambda i: (
        2 if model.is_unknown(i) else 3 if model.is_control(i) else 6 if model.is_byte(i) else 5 if model.is_unused(i) else 1
    )
    pieces = [model.id_to_piece(i) for i in ids]
    scores = [model.get_score(i) for i in ids]
    write("spm", "llama", None, pieces, [kind(i) for i in ids], scores=scores, bos=1, eos=2)
    special = ["<tool>", "<tool", "  \n"]
    write("spm-bare", "llama", None, pieces + special, [kind(i) for i in ids] + [4, 4, 4], scores=scores + [0.0] * 3,
          bos=1, eos=2, add_add_space_prefix=False, add_add_eos_token=True)


if __name__ == "__main__":
    for name in PRE:
        byte_level(name)
    sentence_piece(sys.argv[1])
