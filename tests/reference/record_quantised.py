#!/usr/bin/env python3
"""Records small random Llama models in the formats of quantised Hugging Face folders, for tests/parity. Run by hand; the tests only
read the result.

    python3 -m venv venv && venv/bin/pip install torch==2.13.0 transformers==5.24.0 compressed-tensors==0.20.0
    venv/bin/python tests/reference/record_quantised.py [--only NAME ...]

quantised/NAME/ contains config.json and model.safetensors as the quantiser writes them; expected.safetensors, the dequantised
weights of one module; and logits.bin, float32 [16][64], the logits of the tokens i * 7 % 64, i from 0 to 15, which transformers
computes from the dequantised weights. The package of the format dequantises (compressed-tensors; transformers for fp8). The packages
for GPTQ and AWQ need a GPU, so their formula is computed here.
"""
import argparse
import json
import pathlib
import shutil

import torch
import transformers as T
from compressed_tensors.compressors.naive_quantized.base import NaiveQuantizationCompressor
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

HERE = pathlib.Path(__file__).resolve().parent / "quantised"
TOKENS, VOCAB, DIM, GROUP = 16, 64, 64, 32
CONFIG = {"vocab_size": VOCAB, "hidden_size": DIM, "intermediate_size": DIM, "num_hidden_layers": 1, "num_attention_heads": 2,
          "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
          "tie_word_embeddings": True}
EXPECTED = "model.layers.0.mlp.down_proj"
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def pack(codes, bits, order=None):
    """Packs 32 / bits neighbouring codes of the last dimension into an int32, the first in the lowest bits."""
    n = 32 // bits
    codes = codes.reshape(*codes.shape[:-1], -1, n).to(torch.int64)
    if order is not None:
        codes = codes[..., order]
    words = (codes << torch.arange(0, 32, bits)).sum(-1)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def grid(weight, bits, symmetric, random):
    """Codes, zero points and float16 scales [outputs][groups] for a weight [outputs][inputs]."""
    grouped = weight.reshape(weight.shape[0], -1, GROUP)
    levels = 2**bits
    if symmetric:
        scale = grouped.abs().amax(-1) / (levels / 2 - 1)
        zero = torch.full_like(scale, levels / 2)
    else:
        low, high = grouped.amin(-1), grouped.amax(-1)
        scale = (high - low) / (levels - 1)
        zero = (-low / scale).round().clamp(0, levels - 1)
    scale = scale.half()
    codes = ((grouped / scale.float()[..., None]).round() + zero[..., None]).clamp(0, levels - 1)
    # Each code occurs at least once.
    codes.view(-1)[:levels] = torch.randperm(levels, generator=random).float()
    return codes.reshape(weight.shape), zero, scale


def gptq(bits, symmetric, act_order=False, version="gptq"):
    def make(name, weight, random):
        codes, zero, scale = grid(weight, bits, symmetric, random)
        if not symmetric:
            zero[0, 0] = 0
        g_idx = torch.arange(weight.shape[1]) // GROUP
        if act_order:
            g_idx = g_idx[torch.randperm(len(g_idx), generator=random)]
        less = 1 if version == "gptq" else 0
        parts = {".qweight": pack(codes, bits).T.contiguous(),
                 ".qzeros": pack((zero.T - less).to(torch.int64) % 2**bits, bits), ".scales": scale.T.contiguous(),
                 ".g_idx": g_idx.to(torch.int32)}
        value = scale[:, g_idx].float() * (codes - zero[:, g_idx])
        return {name + key: part for key, part in parts.items()}, value
    return make, {"quant_method": "gptq", "bits": bits, "group_size": GROUP, "desc_act": act_order, "sym": symmetric,
                  "checkpoint_format": version}


def awq():
    def make(name, weight, random):
        codes, zero, scale = grid(weight, 4, False, random)
        parts = {".qweight": pack(codes.T.contiguous(), 4, AWQ_ORDER), ".qzeros": pack(zero.T.contiguous(), 4, AWQ_ORDER),
                 ".scales": scale.T.contiguous()}
        value = scale.repeat_interleave(GROUP, 1).float() * (codes - zero.repeat_interleave(GROUP, 1))
        return {name + key: part for key, part in parts.items()}, value
    return make, {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm"}


def fp8(scale_shape):
    def make(name, weight, random):
        rows, columns = (side // parts for side, parts in zip(weight.shape, scale_shape))
        blocks = weight.reshape(scale_shape[0], rows, scale_shape[1], columns)
        scale = blocks.abs().amax((1, 3)) / 448
        codes = (blocks / scale[:, None, :, None]).reshape(weight.shape).to(torch.float8_e4m3fn)
        value = Fp8Dequantize(None)._dequantize_one(codes, scale, torch.float32)
        return {name + ".weight": codes, name + ".weight_scale_inv": scale}, value
    return make, {"quant_method": "fp8", "weight_block_size": [DIM // part for part in scale_shape],
                  "modules_to_not_convert": ["lm_head"]}


def compressed(form, symmetric=True, g_idx=False, dtype=torch.bfloat16, **args):
    arguments = QuantizationArgs(symmetric=symmetric, **args)
    scheme = QuantizationScheme(targets=["Linear"], weights=arguments)
    tool = PackedQuantizationCompressor if form == "pack-quantized" else NaiveQuantizationCompressor

    def make(name, weight, random):
        size = {"tensor": weight.numel(), "channel": weight.shape[1], "group": args.get("group_size")}[args["strategy"]]
        grouped = weight.reshape(-1, size) if args["strategy"] == "tensor" else weight.reshape(weight.shape[0], -1, size)
        low, high = grouped.amin(-1), grouped.amax(-1)
        levels = 2 ** args["num_bits"]
        if args["type"] == "float":
            scale, zero = grouped.abs().amax(-1) / 448, None
        elif symmetric:
            scale, zero = grouped.abs().amax(-1) / (levels / 2 - 1), None
        else:
            scale = (high - low) / (levels - 1)
            zero = (-levels / 2 - low / scale).round().clamp(-levels / 2, levels / 2 - 1).to(torch.int8)
        state = {"weight": weight, "weight_scale": scale.to(dtype)}
        if zero is not None:
            state["weight_zero_point"] = zero
        order = None
        if g_idx:  # the inputs of a group are not adjacent: compress the weight in group order
            order = torch.randperm(weight.shape[1], generator=random)
            state["weight"] = weight[:, order]
        state = {key: value for key, value in tool.compress(state, scheme).items()}
        value = tool.decompress({**state, "weight_scale": state["weight_scale"].float()}, scheme)["weight"].float()
        if g_idx:  # and then restore the order of its columns
            where = torch.argsort(order)
            codes = unpacked(state["weight_packed"], args["num_bits"])[:, where]
            state["weight_packed"] = pack(codes, args["num_bits"])
            state["weight_g_idx"] = (where // args["group_size"]).to(torch.int32)
            value = value[:, where]
        return {f"{name}.{key}": part.contiguous() for key, part in state.items()}, value
    weights = json.loads(arguments.model_dump_json())
    return make, {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"], "quantization_status": "compressed",
                  "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}


def unpacked(words, bits):
    return ((words[..., None].to(torch.int64) >> torch.arange(0, 32, bits)) & (2**bits - 1)).reshape(words.shape[0], -1)


INT, GROUPED = {"type": "int"}, {"strategy": "group", "group_size": GROUP}
CASES = {
    "fp8_blocks": lambda: fp8((2, 4)),
    "gptq_4": lambda: gptq(4, True),
    "gptq_4_zeros": lambda: gptq(4, False),
    "gptq_4_v2": lambda: gptq(4, False, version="gptq_v2"),
    "gptq_4_act_order": lambda: gptq(4, True, act_order=True),
    "gptq_8": lambda: gptq(8, True),
    "gptq_8_zeros": lambda: gptq(8, False),
    "awq": awq,
    "ct_int4": lambda: compressed("pack-quantized", num_bits=4, **INT, **GROUPED),
    "ct_int4_zeros": lambda: compressed("pack-quantized", symmetric=False, num_bits=4, **INT, **GROUPED),
    "ct_int4_channel": lambda: compressed("pack-quantized", num_bits=4, **INT, strategy="channel"),
    "ct_int4_act_order": lambda: compressed("pack-quantized", g_idx=True, num_bits=4, **INT, **GROUPED),
    "ct_int8_packed": lambda: compressed("pack-quantized", num_bits=8, **INT, **GROUPED),
    "ct_int8": lambda: compressed("int-quantized", num_bits=8, **INT, strategy="channel"),
    "ct_int8_tensor_zeros": lambda: compressed("int-quantized", symmetric=False, num_bits=8, **INT, strategy="tensor"),
    "ct_fp8": lambda: compressed("float-quantized", num_bits=8, type="float", strategy="channel"),
    "ct_fp8_tensor": lambda: compressed("float-quantized", num_bits=8, type="float", strategy="tensor", dtype=torch.float32),
}


def record(name, seed):
    random = torch.Generator().manual_seed(seed)
    make, scheme = CASES[name]()
    model = T.LlamaForCausalLM(T.LlamaConfig(**CONFIG)).float().eval()
    parts, expected = {}, None
    for module, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=random)
        if weight.dim() == 1:
            weight.data += 0.2 * noise
        else:
            weight.data = noise * weight.shape[-1] ** -0.5 * (2.0 if "embed" in module else 1.0)
        weight.data = weight.data.to(torch.bfloat16).float()
        if weight.dim() == 1 or "embed" in module:
            parts[module] = weight.data.to(torch.bfloat16)
            continue
        base = module.removesuffix(".weight")
        more, value = make(base, weight.data, random)
        parts.update(more)
        weight.data = value
        expected = value if base == EXPECTED else expected
    tokens = torch.tensor([[i * 7 % VOCAB for i in range(TOKENS)]])
    with torch.no_grad():
        logits = model(tokens, use_cache=False).logits[0].float()
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    save_file(parts, folder / "model.safetensors", metadata={"format": "pt"})
    save_file({EXPECTED + ".weight": expected.contiguous()}, folder / "expected.safetensors")
    config = {**CONFIG, "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
              "quantization_config": scheme}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (folder / "logits.bin").write_bytes(logits.numpy().astype("<f4").tobytes())
    print(f"{name}: largest logit {logits.abs().max():.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", default=list(CASES))
    args = parser.parse_args()
    for seed, name in enumerate(CASES, start=1):
        if name in args.only:
            record(name, seed)


if __name__ == "__main__":
    main()
