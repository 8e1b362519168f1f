"""Records how llama.cpp tokenizes texts, for the C++ tests.

    python -m pip install llama-cpp-python jinja2
    python record_tokens.py MODEL.gguf [FILE ...]

Writes smollm2.json from MODEL (the default model, SmolLM2-135M-Instruct) and vocab-*.json from the small vocabularies
beside this file. With FILEs, it only prints the number and the hash of each file's tokens."""
import ctypes
import json
import pathlib
import sys

import jinja2
import llama_cpp

import text

HERE = pathlib.Path(__file__).parent
CHUNK = 8192  # tokens per hash, which show where two results begin to differ
FIRST = 256
MESSAGES = [
    {"role": "user", "content": "What is the capital of France?"},
    {"role": "assistant", "content": "Paris.\n\n<|im_end|> is how I stop."},
    {"role": "user", "content": "  Und in Österreich? 東京は？ 👩‍👩‍👧 \r\n"},
]
PHRASES = [
    "", " ", "  ", "\n", "a", " a", "a ", "Hello world", " Hello  world ", "Hello\n\nworld\n", "It's 12345 o'clock, they'LL say.",
    "é\u0301 日本語 \u00a0\u2003x", "<tool>x<tool y<tool></tool>", "<a<b>\n<a<b<b>\n", "      \tx   \t  x    ", "the quick the quick",
    "<|im_start|>user\nhi<|im_end|>\n", "<s>a</s> b<unk> c", "<0x41>\u2581\u2581x", "\u0007\u0000\u0004x", "x  \n  \n y",
]


def hash_of(tokens):
    return text.fnv1a(b"".join(token.to_bytes(4, "little") for token in tokens))


def tokenize(llama, data, special):
    return llama.tokenize(data, add_bos=False, special=special)


def record_long(llama, size, seed, special):
    data = text.generate(size, seed)
    tokens = tokenize(llama, data, special)
    return {
        "bytes": size, "seed": seed, "parse_special": special, "text_hash": text.fnv1a(data), "count": len(tokens),
        "hash": hash_of(tokens), "first": tokens[:FIRST],
        "chunk": CHUNK, "chunks": [hash_of(tokens[i : i + CHUNK]) for i in range(0, len(tokens), CHUNK)],
    }


def record_short(llama, phrase, special):
    tokens = llama._model.tokenize(phrase.encode(), True, special)  # with BOS and EOS as the file specifies
    return {"text": phrase, "parse_special": special, "tokens": tokens}


def ends(llama):
    vocab = llama_cpp.llama_model_get_vocab(llama._model.model)
    return [i for i in range(llama.n_vocab()) if llama_cpp.llama_vocab_is_eog(vocab, i)]


def pieces(llama):
    """One hash of the texts of all tokens; control tokens are empty."""
    vocab, all_bytes, buffer = llama_cpp.llama_model_get_vocab(llama._model.model), b"", ctypes.create_string_buffer(4096)
    for token in range(llama.n_vocab()):
        size = llama_cpp.llama_token_to_piece(vocab, token, buffer, 4096, 0, False)
        all_bytes += buffer.raw[:size] + b"\n"
    return text.fnv1a(all_bytes)


def record(path, out, size):
    llama = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
    result = {
        "llama_cpp_python": llama_cpp.__version__, "ends": ends(llama), "pieces_hash": pieces(llama),
        "long": [record_long(llama, size, 1, False), record_long(llama, size // 8, 2, True)],
        "short": [record_short(llama, phrase, special) for phrase in PHRASES for special in (False, True)],
    }
    template = llama.metadata.get("tokenizer.chat_template")
    if template:
        environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        chat = environment.from_string(template).render(messages=MESSAGES, add_generation_prompt=True)
        result["chat"] = {"text": chat, "tokens": tokenize(llama, chat.encode(), True)}
    (HERE / out).write_text(json.dumps(result, indent=None, separators=(",", ":")).replace('},{', '},\n{') + "\n")


def main():
    model, files = sys.argv[1], sys.argv[2:]
    if files:
        llama = llama_cpp.Llama(model, vocab_only=True, verbose=False)
        for name in files:
            tokens = tokenize(llama, pathlib.Path(name).read_bytes(), False)
            print(name, len(tokens), hash_of(tokens))
        return
    record(model, "smollm2.json", 1 << 20)
    for path in sorted(HERE.glob("vocab-*.gguf")):
        record(path, path.name.replace(".gguf", ".json"), 1 << 17)


main()
