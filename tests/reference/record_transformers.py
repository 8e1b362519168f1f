#!/usr/bin/env python3
"""Records what Hugging Face's transformers computes for a small random model of each family, for tests/parity. Run by hand; the
tests only read the result.

    python3 -m venv venv && venv/bin/pip install torch==2.13.0 transformers==5.24.0
    venv/bin/python tests/reference/record_transformers.py [--only NAME ...]

transformers/NAME/ holds config.json and model.safetensors as transformers saves them, weights in bfloat16, and logits.bin: of the
tokens i * 7 % 64, i from 0 to 39, float32 [40][64], computed in float32 without a cache. Norms and biases are random too, so that
one that is forgotten shows.
"""
import argparse
import pathlib
import shutil

import torch
import transformers as T

HERE = pathlib.Path(__file__).resolve().parent / "transformers"
TOKENS, VOCAB = 40, 64
SIZES = {"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 10000.0}

CONFIGS = {
    "llama": lambda: T.LlamaConfig(**SIZES),
    "mixtral": lambda: T.MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2, sliding_window=None),
    "qwen2": lambda: T.Qwen2Config(**SIZES),
    "qwen2_moe": lambda: T.Qwen2MoeConfig(**SIZES, **EXPERTS, num_experts=4, shared_expert_intermediate_size=32),
    "qwen3": lambda: T.Qwen3Config(**SIZES, head_dim=16),
    "qwen3_moe": lambda: T.Qwen3MoeConfig(**SIZES, **EXPERTS, head_dim=16, num_experts=4, norm_topk_prob=True),
    "gemma": lambda: T.GemmaConfig(**SIZES, head_dim=16),
    "gemma2": lambda: T.Gemma2Config(**SIZES, head_dim=16, sliding_window=12, query_pre_attn_scalar=24,
                                     attn_logit_softcapping=3.0, final_logit_softcapping=6.0),
    "gemma3_text": lambda: T.Gemma3TextConfig(**{**SIZES, "num_hidden_layers": 4}, head_dim=16, sliding_window=12,
                                              query_pre_attn_scalar=24, layer_types=["sliding_attention", "full_attention"] * 2),
    "phi3": lambda: T.Phi3Config(**SIZES, original_max_position_embeddings=32, sliding_window=None,
                                 rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.1, 1.2, 1.3],
                                                  "long_factor": [1.0, 1.5, 2.5, 4.0], "original_max_position_embeddings": 32}),
    "smollm3": lambda: T.SmolLM3Config(**{**SIZES, "num_hidden_layers": 5}),
    "granite": lambda: T.GraniteConfig(**SIZES, embedding_multiplier=3.0, residual_multiplier=0.4, logits_scaling=2.0,
                                       attention_multiplier=0.2),
    "glm4": lambda: T.Glm4Config(**SIZES, head_dim=8, partial_rotary_factor=0.5, attention_bias=True),
    "olmo2": lambda: T.Olmo2Config(**SIZES),
    "olmo3": lambda: T.Olmo3Config(**{**SIZES, "num_hidden_layers": 4}, sliding_window=12, rope_parameters=YARN),
    "stablelm": lambda: T.StableLmConfig(**SIZES, partial_rotary_factor=0.5, use_qkv_bias=True),
    "starcoder2": lambda: T.Starcoder2Config(**SIZES, sliding_window=None),
}


def fill(model, seed):
    """Matrices so that outputs are about as large as inputs, norms around what they begin with."""
    random = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=random)
        if weight.dim() == 1:
            weight.data += 0.2 * noise
        else:
            weight.data = noise * weight.shape[-1] ** -0.5 * (2.0 if "embed" in name or "head" in name else 1.0)
        weight.data = weight.data.to(torch.bfloat16).float()


def record(name, seed):
    config = CONFIGS[name]()
    config._attn_implementation = "eager"
    model = T.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    fill(model, seed)
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    tokens = torch.tensor([[i * 7 % VOCAB for i in range(TOKENS)]])
    with torch.no_grad():
        logits = model(tokens, use_cache=False).logits[0].float()
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "logits.bin").write_bytes(logits.numpy().astype("<f4").tobytes())
    print(f"{name}: logits to {logits.abs().max():.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", default=list(CONFIGS))
    args = parser.parse_args()
    for seed, name in enumerate(CONFIGS, start=1):
        if name in args.only:
            record(name, seed)


if __name__ == "__main__":
    main()
