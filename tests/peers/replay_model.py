"""A model that repeats given answers word for word. It tests what a server makes of a real model's answers without that model.

The next token depends on the previous token and on the newest piece: the last token that occurs only once in all answers. One
attention layer finds the newest piece, because attention scores grow with a piece's place in its answer. One-hot vectors hold both
tokens, and the output layer adds the votes of each for the tokens that may follow. Prompts have no such pieces. The request's
logit_bias chooses the answer, unless the model has a bias of its own (`begin` of `write`).
"""

import math
import re
import struct

VOTE, BEGIN, NEXT = 1000, 100, 50  # logits: each of two votes, an answer's first token, and the next tokens up to its first piece
STEP = 20  # difference between the attention scores of neighbouring places
HEAD = 64
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6


def byte_alphabet():
    """GPT-2's characters for bytes: printable Latin-1 stands for itself, other bytes become U+0100 and up."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return {byte: chr(byte if byte in printable else next(others)) for byte in range(256)}


def cut(text, used):
    """Splits a text into pieces that are not in `used`, and adds them to it. If that is not possible, the text is one piece."""
    pieces, at = [], 0
    while at < len(text):
        size = 4 if len(text) - at >= 8 else len(text) - at
        while text[at:at + size] in used and at + size < len(text):
            size += 1
        piece = text[at:at + size]
        at += size
        while piece in used and pieces:
            used.remove(pieces[-1])
            piece = pieces.pop() + piece
        pieces.append(piece)
        used.add(piece)
    return pieces


class Replay:
    """answers: texts that each end with a token that ends the model's turn. marks: token -> whether it is a control token."""

    def __init__(self, answers, marks, spm=False, space_prefix=True, context=1 << 15):
        self.context = context
        self.spm, self.space_prefix = spm, space_prefix
        self.pieces, self.types = [], []
        alphabet = byte_alphabet()
        self.spell = (lambda text: text.replace(" ", "\u2581")) if spm else (
            lambda text: "".join(alphabet[byte] for byte in text.encode()))
        if spm:
            self.add("<unk>", UNKNOWN)
            self.add("\u2581", NORMAL)
        for byte in range(256):
            self.add(f"<0x{byte:02X}>" if spm else alphabet[byte], BYTE if spm else NORMAL)
        for mark, control in marks.items():
            self.add(mark, CONTROL if control else USER_DEFINED)
        self.marks = {mark: self.pieces.index(mark) for mark in marks}
        self.control = {mark for mark, control in marks.items() if control}
        self.chains = self.chain(answers)
        self.begins = [self.begin(tokens) for tokens in self.chains]

    def add(self, piece, kind):
        self.pieces.append(piece)
        self.types.append(kind)
        return len(self.pieces) - 1

    def chain(self, answers):
        """The tokens of each answer: its control tokens, and pieces of the text between them. Sets self.place: the index in its answer
        of each piece that occurs once."""
        pattern = "(" + "|".join(map(re.escape, sorted(self.control, key=len, reverse=True))) + ")"
        used, texts = set(self.marks), []
        for answer in answers:
            split = [part for part in re.split(pattern, answer) if part]
            texts.append([piece for part in split for piece in ([part] if part in self.control else cut(part, used))])
        every = [piece for text in texts for piece in text]
        ids = {piece: self.marks.get(piece) for piece in every}
        for piece in ids:
            if ids[piece] is None:
                spelt = self.spell(piece)
                ids[piece] = self.pieces.index(spelt) if spelt in self.pieces else self.add(spelt, NORMAL)
        self.place = {ids[piece]: at for text in texts for at, piece in enumerate(text)
                      if piece not in self.control and len(piece) > 2 and every.count(piece) == 1}
        return [[ids[piece] for piece in text] for text in texts]

    def begin(self, tokens):
        """The logit_bias that starts an answer. It covers the tokens up to the first piece, since before that no vote tells this
        answer from others."""
        first = next(at for at, token in enumerate(tokens) if token in self.place)
        begin = {token: NEXT for token in tokens[:first + 1]}
        return {**begin, tokens[0]: BEGIN}

    def votes(self):
        """token -> (newest pieces, previous tokens) after which it comes."""
        votes = {}
        for tokens in self.chains:
            newest = None
            for token, following in zip(tokens, tokens[1:]):
                newest = token if token in self.place else newest
                pieces, before = votes.setdefault(following, (set(), set()))
                before.add(token)
                pieces.add(newest)
        return votes

    def write(self, path, template, bos, *ends, begin=None):
        """ends: tokens that end the model's turn. begin: one of `begins`, which becomes part of the model."""
        current = {token: at for at, token in enumerate(sorted({token for chain in self.chains for token in chain}))}
        newest = {token: at for at, token in enumerate(sorted(self.place))}
        heads = math.ceil(len(newest) / HEAD)
        # Dimensions of the residual stream: token, its piece, newest piece, place, a value that makes the vector's length 2, and 1.
        piece, found = len(current), len(current) + len(newest)
        place, fill, one = (found + len(newest) + at for at in range(3))
        dim = math.ceil((one + 1) / 64) * 64
        norm, last = math.sqrt(dim / 4), HEAD - 2  # the norm's factor; RoPE hardly rotates a head's last pair
        most = max(self.place.values()) + 1
        embedding, output = Matrix(len(self.pieces), dim), Matrix(len(self.pieces), dim)
        for token in range(len(self.pieces)):
            row = {one: 1}
            if token in current:
                row[current[token]] = 1
            if token in newest:
                row[piece + newest[token]] = 1
                row[place] = (self.place[token] + 1) / most
            row[fill] = math.sqrt(4 - sum(value * value for value in row.values()))
            embedding.put(token, row)
        for token, (pieces, before) in self.votes().items():
            columns = [current[other] for other in before] + [found + newest[other] for other in pieces - {None}]
            output.put(token, dict.fromkeys(columns, VOTE / math.sqrt(dim / 5)))
        for token, bias in (begin or {}).items():
            output.add(token, one, bias / norm)
        query, key, value = (Matrix(heads * HEAD, dim) for _ in range(3))
        back, feed, down = Matrix(dim, heads * HEAD), Matrix(64, dim), Matrix(dim, 64)
        for head in range(heads):
            query.put(head * HEAD + last, {one: math.sqrt(HEAD) / norm})
            key.put(head * HEAD + last, {place: STEP * most / norm})
        for at in range(len(newest)):
            value.put(at, {piece + at: 1})
            back.put(found + at, {at: 1 / norm})
        ones = Matrix(1, dim)
        ones.put(0, dict.fromkeys(range(dim), 1))
        tensors = {"token_embd": embedding, "output_norm": ones, "output": output, "blk.0.attn_norm": ones, "blk.0.attn_q": query,
                   "blk.0.attn_k": key, "blk.0.attn_v": value, "blk.0.attn_output": back, "blk.0.ffn_norm": ones,
                   "blk.0.ffn_gate": feed, "blk.0.ffn_up": feed, "blk.0.ffn_down": down}
        write_gguf(path, {**self.metadata(dim, heads), "tokenizer.chat_template": template,
                          "tokenizer.ggml.bos_token_id": self.marks[bos],
                          **{f"tokenizer.ggml.{key}_token_id": self.marks[end]
                             for key, end in zip(("eos", "eot", "eom"), ends, strict=False)}}, tensors)

    def metadata(self, dim, heads):
        numbers = {"context_length": self.context, "embedding_length": dim, "block_count": 1, "feed_forward_length": 64,
                   "attention.head_count": heads, "attention.head_count_kv": heads, "attention.key_length": HEAD,
                   "attention.value_length": HEAD, "attention.layer_norm_rms_epsilon": 1e-6, "rope.dimension_count": HEAD,
                   "rope.freq_base": 1e12, "vocab_size": len(self.pieces)}
        words = {"model": "llama" if self.spm else "gpt2", "pre": "default" if self.spm else "gpt-2", "tokens": self.pieces,
                 "token_type": self.types, "add_bos_token": False, "add_space_prefix": self.space_prefix}
        if self.spm:
            words["scores"] = [0.0] * len(self.pieces)
        else:
            words["merges"] = []
        return {"general.architecture": "llama", **{f"llama.{key}": value for key, value in numbers.items()},
                **{f"tokenizer.ggml.{key}": value for key, value in words.items()}}


class Matrix:
    def __init__(self, rows, columns):
        self.rows, self.columns, self.data = rows, columns, bytearray(4 * rows * columns)

    def put(self, row, values):
        for column, value in values.items():
            struct.pack_into("<f", self.data, 4 * (row * self.columns + column), value)

    def add(self, row, column, value):
        at = 4 * (row * self.columns + column)
        struct.pack_into("<f", self.data, at, struct.unpack_from("<f", self.data, at)[0] + value)


def packed(value):
    """The GGUF type and the bytes of a metadata value."""
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return 4, struct.pack("<I", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, struct.pack("<Q", len(value.encode())) + value.encode()
    kinds, items = zip(*map(packed, value)) if value else ((8,), ())
    return 9, struct.pack("<IQ", kinds[0], len(value)) + b"".join(items)


def write_gguf(path, metadata, tensors):
    with open(path, "wb") as out:
        out.write(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata)))
        for key, value in metadata.items():
            kind, data = packed(value)
            out.write(packed(key)[1] + struct.pack("<I", kind) + data)
        at = 0
        for name, matrix in tensors.items():
            sizes = (matrix.columns,) if matrix.rows == 1 else (matrix.columns, matrix.rows)
            out.write(packed(f"{name}.weight")[1] + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, 0, at))
            at += len(matrix.data)  # a multiple of the alignment, 32: columns are multiples of 64
        out.write(bytes(-out.tell() % 32))
        for matrix in tensors.values():
            out.write(matrix.data)

