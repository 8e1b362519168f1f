#!/usr/bin/env python3
"""Writes the fuzzers' seeds, small good files, into seeds/ beside this script.

Those of fuzz_model are whole models: make_model -o seeds/model/ARCH.gguf --arch llama|qwen2|bct --type Q8_0 --tied --layers 1
--dim 32 --ffn 32 --heads 2 --kv-heads 1 --vocab 280 --context 16 --seed 1 (bct: --slots 4).
"""
import ctypes
import json
import math
import pathlib
import struct

SEEDS = pathlib.Path(__file__).parent / "seeds"
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<B", 10: "<Q", 11: "<q", 12: "<d"}
# ggml's number, elements and bytes of a block
TYPES = [(0, 1, 4), (1, 1, 2), (30, 1, 2), (8, 32, 34), (2, 32, 18), (3, 32, 20), (6, 32, 22), (7, 32, 24),
         (10, 256, 84), (11, 256, 110), (12, 256, 144), (13, 256, 176), (14, 256, 210)]


def write(folder, name, data):
    (SEEDS / folder).mkdir(parents=True, exist_ok=True)
    (SEEDS / folder / name).write_bytes(data)


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def key(name, kind, payload):
    return text(name) + struct.pack("<I", kind) + payload


def array(kind, elements):
    return struct.pack("<IQ", kind, len(elements)) + b"".join(elements)


def gguf(keys, tensors=(), version=3, alignment=32):
    """tensors: (name, dims innermost first, type, bytes)."""
    infos, data = b"", b""
    for name, dims, kind, content in tensors:
        data += bytes(-len(data) % alignment)
        infos += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        data += content
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys)) + b"".join(keys) + infos
    return head + (bytes(-len(head) % alignment) + data if tensors else b"")


def safetensors(header, data):
    header = json.dumps(header, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + data


def gguf_seeds():
    scalars = [key(f"k{kind}", kind, struct.pack(form, 1)) for kind, form in SCALARS.items()]
    lists = [key(f"a{kind}", 9, array(kind, [struct.pack(form, 1)] * 3)) for kind, form in SCALARS.items()]
    write("gguf", "scalars.gguf", gguf(scalars + [key("k8", 8, text("hello"))]))
    nested = key("nested", 9, array(9, [array(0, [b"1", b"2"]), array(8, [text("x")])]))
    write("gguf", "arrays.gguf", gguf(lists + [key("a8", 9, array(8, [text("a"), text("")])), nested]))
    tensors = [(f"t{kind}", (block,), kind, bytes(size)) for kind, block, size in TYPES]
    write("gguf", "tensors.gguf", gguf([], tensors))
    align = key("general.alignment", 4, struct.pack("<I", 64))
    write("gguf", "aligned_v2.gguf", gguf([align], [("a", (4, 2), 0, bytes(32)), ("b", (2,), 1, bytes(4))], 2, 64))
    arch = key("general.architecture", 8, text("llama"))
    write("gguf", "llama.gguf", gguf([arch], [("token_embd.weight", (32, 2), 8, bytes(68))]))


def safetensors_seeds():
    one = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    two = {"dtype": "F16", "shape": [3], "data_offsets": [16, 22]}
    three = {"dtype": "BF16", "shape": [], "data_offsets": [22, 24]}
    write("safetensors", "one.safetensors", safetensors({"w": one}, bytes(16)))
    write("safetensors", "three.safetensors",
          safetensors({"__metadata__": {"format": "pt"}, "a": one, "b": two, "c": three}, bytes(24)))
    write("safetensors", "none.safetensors", safetensors({}, b""))


def huggingface_seeds():
    base = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
            "max_position_embeddings": 16}
    llama = base | {"model_type": "llama", "intermediate_size": 8, "rope_scaling": {
        "type": "llama3", "factor": 2, "low_freq_factor": 1, "high_freq_factor": 4}}
    yarn = base | {"model_type": "qwen3", "intermediate_size": 8, "head_dim": 4, "sliding_window": 4,
                   "rope_parameters": {"rope_type": "yarn", "factor": 2, "rope_theta": 1e4}}
    opt = base | {"model_type": "opt", "ffn_dim": 8}
    split = {"type": "Split", "pattern": {"Regex": "\\s+"}, "behavior": "Isolated"}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False}
    gpt2 = {"added_tokens": [{"id": 4, "content": "<e>", "special": True}], "pre_tokenizer": byte_level,
            "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<e>"}}, {}]},
            "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}}
    refused = gpt2 | {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]}}
    spm = {"added_tokens": [{"id": 0, "content": "<unk>", "special": True}],
           "normalizer": {"type": "Prepend", "prepend": "\u2581"},
           "model": {"byte_fallback": True, "unk_token": "<unk>", "merges": [["a", "b"]],
                     "vocab": {"<unk>": 0, "<0x0A>": 1, "a": 2, "b": 3, "ab": 4}}}
    special = {"bos_token": {"content": "<e>"}, "eos_token": "<e>", "add_bos_token": True,
               "model_max_length": 1000000000000000019884624838656, "chat_template": "{{ x }}"}
    for name, parts in {"llama": (llama, gpt2, special, {"eos_token_id": [4, 2]}), "qwen3": (yarn, refused, {}, {}),
                        "opt": (opt, spm, {}, {"bos_token_id": 1})}.items():
        write("huggingface", name, b"\0".join(json.dumps(part).encode() for part in parts))
    quantised_seeds(base | {"intermediate_size": 8})


def quantised_seeds(base):
    """A folder's quantised tensors behind its texts: one module of each format."""
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 32}
    awq = {"quant_method": "awq", "bits": 4, "group_size": 32}
    packed = {"quant_method": "compressed-tensors", "format": "pack-quantized"}
    fp8 = {"quant_method": "fp8", "weight_block_size": [4, 16]}
    formats = {
        "gptq": ("llama", gptq, {"m.qweight": ("I32", [8, 8]), "m.qzeros": ("I32", [2, 1]), "m.scales": ("F16", [2, 8]),
                                 "m.g_idx": ("I32", [64])}),
        "gptq_8": ("llama", gptq | {"bits": 8}, {"m.qweight": ("I32", [16, 8]), "m.qzeros": ("I32", [2, 2]),
                                                 "m.scales": ("BF16", [2, 8])}),
        "awq": ("llama", awq, {"m.qweight": ("I32", [64, 1]), "m.qzeros": ("I32", [2, 1]), "m.scales": ("F16", [2, 8])}),
        "packed": ("llama", packed, {"m.weight_packed": ("I32", [8, 8]), "m.weight_scale": ("BF16", [8, 2]),
                                     "m.weight_shape": ("I64", [2], [8, 64]), "m.weight_zero_point": ("I32", [1, 2])}),
        "bytes": ("llama", packed | {"format": "int-quantized"}, {"m.weight": ("I8", [4, 32]), "m.weight_scale": ("F32", [4, 1])}),
        "fp8": ("llama", fp8, {"m.weight": ("F8_E4M3", [6, 32]), "m.weight_scale_inv": ("F32", [2, 2])}),
        "mxfp4": ("gpt_oss", {"quant_method": "mxfp4"}, {
            "m.experts.gate_up_proj_blocks": ("U8", [2, 4, 1, 16]), "m.experts.gate_up_proj_scales": ("U8", [2, 4, 1]),
            "m.experts.gate_up_proj_bias": ("BF16", [2, 4])}),
        "experts": ("gpt_oss", None, {"m.experts.gate_up_proj": ("BF16", [2, 3, 4]), "m.experts.down_proj": ("BF16", [2, 2, 3])}),
    }
    sizes = {"I32": 4, "I64": 8, "F32": 4, "F16": 2, "BF16": 2}
    for name, (family, scheme, tensors) in formats.items():
        header, data = {}, b""
        for tensor, (dtype, shape, *values) in sorted(tensors.items(), key=lambda one: -sizes.get(one[1][0], 1)):
            part = struct.pack(f"<{len(values[0])}q", *values[0]) if values else bytes(math.prod(shape) * sizes.get(dtype, 1))
            header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
            data += part
        config = base | {"model_type": family, "num_local_experts": 2, "num_experts_per_tok": 1, "quantization_config": scheme}
        write("huggingface", name, json.dumps(config).encode() + b"\0{}\0{}\0{}\0" + safetensors(header, data))


def schema_seeds():
    """A schema and, behind a zero byte, choices among the bytes that it leaves."""
    person = {"type": "object", "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 9},
                                               "age": {"type": "integer", "minimum": 0, "maximum": 150}},
              "required": ["name"], "additionalProperties": {"type": ["null", "boolean"]}, "maxProperties": 3}
    tree = {"$defs": {"node": {"type": "object", "properties": {
        "left": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}, "value": {"type": "number", "maximum": 2.5}},
        "required": ["left"]}}, "$ref": "#/$defs/node"}
    lists = {"type": "array", "prefixItems": [{"enum": [1, "a", None]}, {"const": {"k": [True]}}],
             "items": {"type": "number", "multipleOf": 0.01, "exclusiveMinimum": -1}, "minItems": 3, "maxItems": 5}
    parts = {"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]},
                       {"properties": {"a": {"pattern": "^(x|\\d{1,3})*[^a-c\u00e9]$"}, "b": {"format": "date-time"}}}],
             "oneOf": [{"required": ["b"]}, {"minProperties": 1}]}
    for name, schema in {"any": True, "object": {"type": "object"}, "person": person, "tree": tree, "lists": lists,
                         "parts": parts, "refused": {"not": {}}}.items():
        write("schema", name, json.dumps(schema).encode() + b"\0" + bytes(range(3, 120, 7)))


def request_seeds():
    """The first byte says of which kind: 0 a chat, 1 a completion, 2 an answer with calls of tools."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    sampling = {"model": "m", "n": 2, "stop": ["a"], "seed": 1, "temperature": 0.5, "top_p": 0.9, "top_k": 4, "min_p": 0.1,
                "logit_bias": {"5": -1.5}, "presence_penalty": 1, "stream": True, "stream_options": {"include_usage": True}}
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}
    messages = [{"role": "developer", "content": [{"type": "text", "text": "\u00e9"}]},
                {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": "2", "tool_call_id": "1"}]
    schema = {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}
    for name, kind, value in [
            ("chat", 0, sampling | {"messages": messages, "tools": [tool], "tool_choice": "required", "logprobs": True}),
            ("chat_format", 0, {"messages": messages[:1], "response_format": schema, "max_completion_tokens": 3}),
            ("handover", 1, {"prompt": [1, 2], "max_tokens": 1, "kv_transfer_params": {
                "do_remote_decode": False, "do_remote_prefill": True, "remote_host": None, "kvick_arithmetic": "avx2"}}),
            ("completion", 1, sampling | {"prompt": ["a", [1, 2]], "echo": True, "kv": {"strategy": "paged", "type": "q8"}}),
            ("beams", 1, {"prompt": [1, 2], "use_beam_search": True, "best_of": 4, "length_penalty": 0.5, "logprobs": 2})]:
        write("request", name, bytes([kind]) + json.dumps(value).encode())
    write("request", "tagged", b'\x02So:<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>\n<tool_call>')
    write("request", "bare", b'\x02[{"name": "f", "parameters": {}}, {"name": "g"}]')


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def block_seeds():
    """What is asked for, an id and a count of bytes, and a block: sound, torn, of another version, another's."""
    xxhash = ctypes.CDLL("libxxhash.so.0")
    xxhash.XXH3_128bits.restype = Hash128
    xxhash.XXH3_128bits.argtypes = ctypes.c_char_p, ctypes.c_size_t

    def block(of, rows, version=2):
        head = b"kvickKV\n" + struct.pack("<Q", version) + of + struct.pack("<Q", len(rows))
        whole = head + bytes(16) + rows
        sum_ = xxhash.XXH3_128bits(whole, len(whole))
        return head + struct.pack("<QQ", sum_.high, sum_.low) + rows

    one, rows = bytes(range(32)), bytes(range(64))
    asked = one + struct.pack("<Q", len(rows))
    sound = block(one, rows)
    for name, found in {"sound": sound, "torn": sound[:-1], "flipped": sound[:-1] + b"\0", "version": block(one, rows, 3),
                        "foreign": block(bytes(32), rows), "shape": block(one, rows + rows), "empty": b""}.items():
        write("block", name, asked + found)


def packed_seeds():
    """The head of packed weights, whose checksum the fuzzer writes if the last byte is odd."""
    for name, path, pieces, version, last in [("sound", b"/model.gguf", 1, 1, 1), ("no_sum", b"/model.gguf", 1, 1, 2),
                                              ("no_path", b"", 1, 1, 1), ("pieces", b"/m", 1 << 40, 1, 1),
                                              ("no_pieces", b"/m", 0, 1, 1), ("version", b"/m", 1, 2, 1)]:
        head = b"kvickPW\n" + struct.pack("<II", version, len(path)) + bytes(range(16)) + struct.pack("<QQ", 0, pieces)
        write("packed", name, head + bytes(16) + path + bytes(range(7)) + bytes([last]))
    long_path = b"kvickPW\n" + struct.pack("<II", 1, 0xffffffff) + bytes(16) + struct.pack("<QQ", 0, 1) + bytes(16)
    write("packed", "long_path", long_path + b"\1")


if __name__ == "__main__":
    block_seeds()
    packed_seeds()
    gguf_seeds()
    safetensors_seeds()
    huggingface_seeds()
    schema_seeds()
    request_seeds()
