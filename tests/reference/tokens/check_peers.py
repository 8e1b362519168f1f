"""Compares the recorded tokens of llama.cpp with those of tokenizers and sentencepiece, the libraries that models are trained with.

    python -m pip install tokenizers sentencepiece gguf
    python check_peers.py path/to/sentencepiece.model

Prints one line per vocabulary, and exits with 1 if one differs. llama.cpp's splits "default" and "falcon" are not compared, because
tokenizers has no equivalent."""
import json
import pathlib
import sys

import gguf
import sentencepiece
from tokenizers import AddedToken, Tokenizer, models

import make_vocabularies
import text

HERE = pathlib.Path(__file__).parent


def byte_level(name):
    fields = gguf.GGUFReader(HERE / f"vocab-{name}.gguf").fields
    pieces = fields["tokenizer.ggml.tokens"].contents()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
    normal = {piece: i for i, piece in enumerate(pieces) if kinds[i] == 1}
    tokenizer = Tokenizer(models.BPE(normal, merges, ignore_merges=name == "llama-bpe"))
    tokenizer.pre_tokenizer = make_vocabularies.PRE[name]
    special = [i for i in range(len(pieces)) if kinds[i] != 1]  # added in this order they get the same ids
    tokenizer.add_tokens([AddedToken(pieces[i], normalized=False, special=kinds[i] == 3) for i in special])
    tokenizer.encode_special_tokens = True  # names of control tokens in the text are plain text
    return lambda data: tokenizer.encode(data, add_special_tokens=False).ids


def compare(name, encode):
    record = json.loads((HERE / f"vocab-{name}.json").read_text())["long"][0]
    ids = encode(text.generate(record["bytes"], record["seed"]).decode())
    same = text.fnv1a(b"".join(i.to_bytes(4, "little") for i in ids)) == record["hash"]
    print(f"{name}: {len(ids)} tokens, {'the same' if same else 'DIFFERENT'}")
    return same


def main():
    same = [compare(name, byte_level(name)) for name in ("gpt-2", "smollm", "llama-bpe", "qwen2")]
    # For "llama" files llama.cpp keeps repeated spaces, whatever the model's normalizer_spec says. Appending a second
    # normalizer_spec {remove_extra_whitespaces: false} to the model makes sentencepiece keep them too.
    proto = pathlib.Path(sys.argv[1]).read_bytes() + b"\x1a\x02\x20\x00"
    model = sentencepiece.SentencePieceProcessor(model_proto=proto)
    same.append(compare("spm", model.encode))
    sys.exit(0 if all(same) else 1)


main()
