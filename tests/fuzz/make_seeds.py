#!/usr/bin/env python3
"""Writes the fuzzers' seeds, small inputs that are mostly valid, into seeds/ beside this script.

It does not write the seeds of fuzz_model, which are whole models:
make_model -o seeds/model/ARCH.gguf --arch llama|qwen2|bct --type Q8_0 --tied --layers 1 --dim 32 \\
    --ffn 32 --heads 2 --kv-heads 1 --vocab 280 --context 16 --seed 1 (bct: --slots 4).
"""
import ctypes
import json
import math
import pathlib
import struct

SEEDS = pathlib.Path(__file__).parent / "seeds"
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<B", 10: "<Q", 11: "<q", 12: "<d"}
# (ggml's number of the type, elements per block, bytes per block)
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
    """A GGUF file. tensors: (name, dims innermost first, type, bytes)."""
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


def adapter_seeds():
    keys = [key("general.type", 8, text("adapter")), key("adapter.type", 8, text("lora")),
            key("adapter.lora.alpha", 6, struct.pack("<f", 8))]
    write("adapter", "lora.gguf", gguf(keys, [("blk.0.attn_q.weight.lora_a", (4, 1), 0, bytes(16)),
                                              ("blk.0.attn_q.weight.lora_b", (1, 4), 0, bytes(16))]))
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
    halves = {f"{name}A.weight": {"dtype": "F32", "shape": [1, 4], "data_offsets": [0, 16]},
              f"{name}B.weight": {"dtype": "F32", "shape": [4, 1], "data_offsets": [16, 32]}}
    write("adapter", "peft.safetensors", safetensors(halves, bytes(32)))
    config = {"peft_type": "LORA", "r": 1, "lora_alpha": 2, "bias": "none", "modules_to_save": None, "use_dora": False}
    write("adapter", "adapter_config.json", json.dumps(config).encode())


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
    """The JSON files of a folder, separated by zero bytes, and a safetensors file with the quantised tensors of one module. One seed per
    format."""
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
    """A schema, a zero byte, and bytes that choose each next byte of an answer among those that the schema allows."""
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


def grammar_seeds():
    """The first byte is the kind: 0 GBNF, 1 a regular expression, 2 choices. The rest is as in schema_seeds."""
    calls = 'root ::= call ("\\n" call)*  # some\ncall ::= [a-z_]{1,9} "(" (number ("," " "? number)*)? ")"\nnumber ::= "-"? [0-9]+\n'
    nested = 'root ::= "[" (root ("," root)*)? "]" | "\\"" [^"\\\\\\x00-\\x1f]{,5} "\\"" | "\\u00e9" .'
    for name, kind, form in [("calls", 0, calls), ("nested", 0, nested), ("left", 0, "root ::= root \"a\" | e\ne ::= \"b\"?"),
                             ("open", 0, "root ::= (a | \"b"), ("date", 1, r"\d{4}-(0[1-9]|1[0-2])-[0-3]\d"),
                             ("names", 1, r"^(?P<first>[A-Z\u00c9]\w*)(?#gap)\s+[^\W\d_]{2,}?$"), ("look", 1, "a(?=b)"),
                             ("choices", 2, "yes\nno\nyet\n\u00e9t\u00e9")]:
        write("grammar", name, bytes([kind]) + form.encode() + b"\0" + bytes(range(3, 120, 7)))


def request_seeds():
    """The first byte is the kind: 0 a chat request, 1 a completion request, 2 an answer with tool calls."""
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


def ollama_seeds():
    """The first byte is the kind: even /api/chat, odd /api/generate."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    options = {"temperature": 0.5, "top_p": 0.9, "top_k": 4, "min_p": 0.1, "seed": 1, "num_predict": -2, "num_ctx": 4096,
               "stop": ["a"], "repeat_penalty": 1.1, "repeat_last_n": -1, "presence_penalty": 1, "mirostat": 0}
    call = {"function": {"index": 0, "name": "f", "arguments": {"x": 1}}}
    messages = [{"role": "system", "content": "s", "images": []}, {"role": "user", "content": "\u00e9"},
                {"role": "assistant", "content": "", "thinking": "t", "tool_calls": [call, call]},
                {"role": "tool", "tool_name": "f", "content": "2"}, {"role": "tool", "content": "3", "tool_call_id": "1"}]
    common = {"model": "m:latest", "stream": True, "keep_alive": "5m", "options": options}
    for name, kind, value in [
            ("chat", 0, common | {"messages": messages, "tools": [tool], "think": "high"}),
            ("chat_format", 0, {"messages": messages[:2], "format": {"type": "object"}, "think": False, "stream": False}),
            ("load", 0, {"model": "m", "messages": [], "keep_alive": 0}),
            ("generate", 1, common | {"prompt": "p", "system": "s", "format": "json", "suffix": "", "template": "", "images": []}),
            ("raw", 1, {"prompt": "p", "raw": True, "kv": {"type": "q8"}, "cache_salt": "x", "priority": -1})]:
        write("ollama", name, bytes([kind]) + json.dumps(value).encode())
def messages_seeds():
    """The first byte is the kind: even the body of a request, odd the text of an answer."""
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}}
    result = {"type": "tool_result", "tool_use_id": "t", "is_error": True, "content": [{"type": "text", "text": "no"}]}
    asked = {"role": "user", "content": [{"type": "text", "text": "\u00e9", "cache_control": {"type": "ephemeral"}}]}
    for name, value in [
            ("tools", {"messages": [asked, {"role": "assistant", "content": [{"type": "thinking", "thinking": "h", "signature": ""},
                                                                            {"type": "text", "text": "a"}, call]},
                                    {"role": "user", "content": [result, {"type": "text", "text": "b"}]}],
                       "tools": [{"name": "f", "description": "d", "input_schema": schema}], "stream": True,
                       "tool_choice": {"type": "any", "disable_parallel_tool_use": True}, "stop_sequences": ["x"]}),
            ("prefill", {"system": [{"type": "text", "text": "s"}], "top_k": 5, "metadata": {"user_id": "u"},
                         "messages": [asked, {"role": "assistant", "content": "I"}]}),
            ("thinking", {"system": "s", "messages": [{"role": "user", "content": "a"}], "temperature": 1,
                          "thinking": {"type": "enabled", "budget_tokens": 1024},
                          "output_config": {"effort": "max", "format": {"type": "json_schema", "schema": schema}}})]:
        write("messages", name, b"\0" + json.dumps({"model": "m", "max_tokens": 9, **value}).encode())
    write("messages", "answer", b'\1<think>h</think>\nSo:\n<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>\n ')
    write("messages", "cut", b'\1 \n<tool_call>{"name": "g", "argum')
def responses_seeds():
    parameters = {"type": "object", "properties": {"x": {"type": "integer"}}}
    function = {"type": "function", "name": "f", "description": "d", "parameters": parameters, "strict": True}
    turn = [{"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
                {"type": "output_text", "text": "s", "annotations": []}, {"type": "refusal", "refusal": "r"}]},
            {"type": "function_call", "id": "fc_1", "call_id": "1", "name": "f", "arguments": "{\"x\": 1}"},
            {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_text", "text": "2"}]}]
    for name, value in {
            "text": {"input": "Hi", "instructions": "i", "max_output_tokens": 3, "reasoning": {"effort": "low"}, "stream": True},
            "turns": {"input": [{"role": "developer", "content": "d"}, {"role": "user", "content": "q"}, *turn]},
            "tools": {"input": "Hi", "tools": [function, {"type": "web_search"}], "tool_choice": {
                "type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]}},
            "form": {"input": "Hi", "text": {"format": {"type": "json_schema", "name": "n", "schema": parameters}}},
            "previous": {"input": "Hi", "previous_response_id": "resp_1", "include": ["reasoning.encrypted_content"]},
            "references": {"input": [{"type": "item_reference", "id": "msg_1_in0"}, {"id": "msg_1_0"}], "store": False}}.items():
        write("responses", name, json.dumps(value).encode())


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def block_seeds():
    """The requested id and its number of bytes, then a block: valid, truncated, with a flipped byte, of another version, with another id,
    of another size, or empty."""
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
    """The header of a file of packed weights. The fuzzer corrects its checksum if the last byte is odd."""
    for name, path, pieces, version, last in [("sound", b"/model.gguf", 1, 1, 1), ("no_sum", b"/model.gguf", 1, 1, 2),
                                              ("no_path", b"", 1, 1, 1), ("pieces", b"/m", 1 << 40, 1, 1),
                                              ("no_pieces", b"/m", 0, 1, 1), ("version", b"/m", 1, 2, 1)]:
        head = b"kvickPW\n" + struct.pack("<II", version, len(path)) + bytes(range(16)) + struct.pack("<QQ", 0, pieces)
        write("packed", name, head + bytes(16) + path + bytes(range(7)) + bytes([last]))
    long_path = b"kvickPW\n" + struct.pack("<II", 1, 0xffffffff) + bytes(16) + struct.pack("<QQ", 0, 1) + bytes(16)
    write("packed", "long_path", long_path + b"\1")


def tokenizer_seeds():
    """A byte for the kind, then pieces, one per line with the score before it, a zero byte, and the text.

    kind % 4: 0 BPE, 1 SentencePiece, 2 Unigram, 3 WordPiece; + 32: merge spaces, + 64: add a space prefix.
    """
    text = "the cats\u2028 \u00e9t\u00e9 50% \u6f22  un\xadbelievable\n".encode() + b"\xff\xc3"
    sentence = [(-20, "\u2581the"), (-30, "\u2581cat"), (-40, "s"), (-35, "at"), (-50, "\u2581"), (-60, "e"), (100, "<mark>")]
    words = [(0, word) for word in ("\u2581the", "\u2581cat", "s", "\u2581un", "believ", "able", "\u2581%", "\u2581\u6f22", "\u2581et", "e")]
    merges = [(0, "t h"), (0, "th e"), (0, "\u0120 c"), (0, "a t")]
    for name, kind, pieces in [("bpe", 0, merges), ("bpe_llama", 4, merges), ("bpe_qwen", 8, merges), ("sentence", 1 + 64, sentence),
                               ("sentence_bare", 1, sentence), ("unigram", 2 + 64 + 32, sentence), ("unigram_bare", 2, sentence),
                               ("wordpiece", 3, words), ("none", 1, [])]:
        lines = b"\n".join(struct.pack("b", score) + piece.encode() for score, piece in pieces)
        write("tokenizer", name, bytes([kind]) + lines + b"\0" + text)


def connection_seeds():
    head = b"POST /a?b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    chunks = b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nTrailer: 1\r\n\r\n"
    body = b"Content-Length: 6\r\nConnection: keep-alive\r\n\r\nstream"
    for name, sent in {"get": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "chunks": head + chunks, "stream": head + body, "none": head + body[:-6] + b"none..",
                       "old": b"GET / HTTP/1.0\r\n\r\n", "pieces": head.replace(b"\r\n", b"\r\n\0") + body, "several": (head + body) * 3,
                       "expects": head + b"Expect: 100-continue\r\n" + body, "lengths": head + b"Content-Length: 1\r\n" + body,
                       "both": head + b"Content-Length: 3\r\n" + chunks, "options": b"OPTIONS /v1 HTTP/1.1\r\nHost: localhost\r\nOrigin: http://a.example\r\n\r\n",
                       "tls": b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"}.items():
        write("connection", name, sent)


def kv_events_seeds():
    """First byte odd: raw bytes for one of the ports; even: the frames of a message, separated by zero bytes."""
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\0NULL" + bytes(16) + b"\0" + bytes(31)
    ready = b"\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x03REQ"
    for name, sent in {"reader": b"\1" + greeting + ready, "asker": b"\3" + greeting + ready, "cut": b"\3" + greeting[:11], "asks": b"\2\0" + b"\x01" * 8,
                       "short": b"\2\0abc", "frames": b"\2a\0b\0c\0d"}.items():
        write("kv_events", name, sent)


def replies_seeds():
    """A byte for the size of the parts in which the replies arrive, then the replies."""
    for name, piece, sent in [("ok", 255, b"+OK\r\n:1\r\n$3\r\nabc\r\n$-1\r\n"), ("bytewise", 0, b"+PONG\r\n$5\r\na\r\nbc\r\n"),
                              ("error", 9, b"-OOM command not allowed\r\n"), ("list", 255, b"*2147483647\r\n$1\r\na\r\n"),
                              ("long", 255, b"$536870912\r\n" + b"a" * 600), ("new", 255, b"%1\r\n+a\r\n,1.5\r\n_\r\n#t\r\n(12\r\n=7\r\ntxt:abc\r\n")]:
        write("replies", name, bytes([piece]) + sent)


def step_message_seeds():
    def of(tokens, parents):
        slot = struct.pack("<QIBB", 3, 7, 2, 1)
        return slot + struct.pack(f"<Q{len(tokens)}i", len(tokens), *tokens) + struct.pack(f"<Q{len(parents)}i", len(parents), *parents)
    batch = struct.pack("<Q", 2) + of([1, 2], [-1, 0]) + of([5], []) + struct.pack("<Q2B", 2, 0, 1)
    for name, message in {"batch": batch, "cut": batch[:-1], "many": struct.pack("<Q", 1 << 60) + batch, "empty": bytes(16),
                          "list": struct.pack("<Q2IQ3s", 2, 4, 5, 3, b"abc")}.items():
        write("step_message", name, message)


if __name__ == "__main__":
    tokenizer_seeds()
    connection_seeds()
    kv_events_seeds()
    replies_seeds()
    step_message_seeds()
    block_seeds()
    packed_seeds()
    gguf_seeds()
    safetensors_seeds()
    adapter_seeds()
    huggingface_seeds()
    schema_seeds()
    grammar_seeds()
    request_seeds()
    ollama_seeds()
    messages_seeds()
    responses_seeds()
