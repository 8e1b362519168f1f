#!/usr/bin/env python3
"""Records what Hugging Face's transformers computes for a small random model of each family, for tests/parity. Run by hand; the
tests only read the result.

    python3 -m venv venv && venv/bin/pip install torch==2.13.0 transformers==5.24.0
    venv/bin/python tests/reference/record_transformers.py [--only NAME ...]

transformers/NAME/ contains config.json and model.safetensors as transformers saves them, weights in bfloat16, and logits.bin,
float32 [40][64], the logits of the tokens i * 7 % 64, i from 0 to 39, computed in float32 without a cache. Norms and biases are
random too, so that the tests fail if one is forgotten.

encoders/NAME/ is the same for models that embed texts, with sentence-transformers' modules.json, the modules' folders, a
tokenizer.json, and embedding.bin: float32 [32], the embedding of the same tokens, not normalised.
"""
import argparse
import json
import pathlib
import shutil

import torch
import transformers as T
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

HERE = pathlib.Path(__file__).resolve().parent / "transformers"
ENCODERS = HERE.parent / "encoders"
TOKENS, VOCAB = 40, 64
SIZES = {"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
FP4_VALUES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 10000.0}
# DeepSeek's latent attention: 32 dimensions without RoPE and 8 with it. The inputs of kvick's matrices are a multiple of 32.
LATENT = {**SIZES, "num_key_value_heads": 4, "kv_lora_rank": 32, "qk_nope_head_dim": 32, "qk_rope_head_dim": 8, "v_head_dim": 16}
ROUTED = {**EXPERTS, "n_routed_experts": 8, "n_shared_experts": 2, "routed_scaling_factor": 1.5}

# Three of four layers are a gated delta net.
DELTA = {**SIZES, "num_hidden_layers": 4, "head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 8,
         "linear_value_head_dim": 16}
DELTA_EXPERTS = {**EXPERTS, "num_experts": 4, "shared_expert_intermediate_size": 32}

LFM2 = {**SIZES, "num_hidden_layers": 4, "layer_types": ["conv", "conv", "full_attention", "conv"]}

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
    "gpt_oss": lambda: gpt_oss(),
    "gpt_oss_mxfp4": lambda: gpt_oss(),
    "granitemoe": lambda: T.GraniteMoeConfig(**SIZES, embedding_multiplier=3.0, residual_multiplier=0.4, logits_scaling=2.0,
                                             attention_multiplier=0.2, num_local_experts=4, num_experts_per_tok=2),
    "ministral3": lambda: T.Ministral3Config(**SIZES, head_dim=16, rope_parameters={
        **YARN, "original_max_position_embeddings": 12, "mscale": 0.5, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}),
    "llama4_text": lambda: T.Llama4TextConfig(**{**SIZES, "num_hidden_layers": 4, "intermediate_size": 32}, intermediate_size_mlp=64, head_dim=16,
                                              num_local_experts=2, interleave_moe_layer_step=2, attention_chunk_size=16),
    "deepseek_v2": lambda: T.DeepseekV2Config(**LATENT, **ROUTED, q_lora_rank=None, first_k_dense_replace=1, n_group=4, topk_group=2,
                                              topk_method="group_limited_greedy", rope_parameters={
                                                  **YARN, "mscale": 0.707, "mscale_all_dim": 0.707}),
    "deepseek_v3": lambda: T.DeepseekV3Config(**LATENT, **ROUTED, q_lora_rank=32, first_k_dense_replace=1, n_group=4, topk_group=2,
                                              rope_parameters={**YARN, "mscale": 0.8, "mscale_all_dim": 1.2}),
    # transformers always uses this epsilon for the norms of latent vectors; kvick and llama.cpp use the file's.
    "glm4_moe_lite": lambda: T.Glm4MoeLiteConfig(**LATENT, **ROUTED, q_lora_rank=32, rms_norm_eps=1e-6),
    "glm4_moe": lambda: T.Glm4MoeConfig(**SIZES, **ROUTED, head_dim=8, use_qk_norm=True, attention_bias=True),
    "minicpm3": lambda: T.MiniCPM3Config(**LATENT, q_lora_rank=32),
    "qwen3_next": lambda: T.Qwen3NextConfig(**DELTA, **DELTA_EXPERTS),
    "qwen3_5_text": lambda: T.Qwen3_5TextConfig(**DELTA),
    "qwen3_5_moe_text": lambda: T.Qwen3_5MoeTextConfig(**DELTA, **DELTA_EXPERTS),
    "gemma4_text": lambda: gemma4(hidden_size_per_layer_input=32, vocab_size_per_layer_input=VOCAB, num_kv_shared_layers=3,
                                  use_double_wide_mlp=True),
    "gemma4_text_experts": lambda: gemma4(num_global_key_value_heads=1, attention_k_eq_v=True, hidden_size_per_layer_input=0,
                                          num_kv_shared_layers=0, enable_moe_block=True, num_experts=4, top_k_experts=2,
                                          moe_intermediate_size=32),
    "lfm2": lambda: T.Lfm2Config(**{**LFM2, "intermediate_size": 96}, block_multiple_of=32),
    "lfm2_moe": lambda: T.Lfm2MoeConfig(**LFM2, **EXPERTS, num_experts=4, num_dense_layers=1),
    "granitemoehybrid": lambda: T.GraniteMoeHybridConfig(
        **{**SIZES, "num_hidden_layers": 3}, embedding_multiplier=3.0, residual_multiplier=0.4, logits_scaling=2.0, attention_multiplier=0.2,
        num_local_experts=0, shared_intermediate_size=96, mamba_n_heads=4, mamba_d_head=16, mamba_d_state=8, mamba_chunk_size=16,
        position_embedding_type="nope", layer_types=["linear_attention", "full_attention", "linear_attention"]),
    # The gates' threshold for sparsity uses the standard deviation over n values; llama.cpp divides by n - 1.
    "gemma3n_text": lambda: T.Gemma3nTextConfig(
        **{**SIZES, "num_hidden_layers": 7, "intermediate_size": [64] * 7}, head_dim=16, sliding_window=12, final_logit_softcapping=6.0,
        layer_types=(["sliding_attention"] * 2 + ["full_attention"]) * 2 + ["sliding_attention"], hidden_size_per_layer_input=32,
        vocab_size_per_layer_input=VOCAB, num_kv_shared_layers=3, laurel_rank=32, activation_sparsity_pattern=[0.9, 0.7] + [0.0] * 5),
    "seed_oss": lambda: T.SeedOssConfig(**SIZES, head_dim=16),
    "ernie4_5": lambda: T.Ernie4_5Config(**SIZES, head_dim=16),
    "ernie4_5_moe": lambda: T.Ernie4_5_MoeConfig(**SIZES, moe_intermediate_size=32, moe_k=2, moe_num_experts=4, moe_num_shared_experts=2,
                                                 moe_layer_start_index=1),
    "exaone4": lambda: T.Exaone4Config(**{**SIZES, "num_hidden_layers": 4}, sliding_window=12, sliding_window_pattern=4),
    "exaone4_full": lambda: T.Exaone4Config(**SIZES, sliding_window=None, sliding_window_pattern=None,
                                            layer_types=["full_attention"] * 2),
    "cohere": lambda: T.CohereConfig(**SIZES, logit_scale=0.5),
    "cohere2": lambda: T.Cohere2Config(**{**SIZES, "num_hidden_layers": 4}, logit_scale=0.5, sliding_window=12),
    "olmoe": lambda: T.OlmoeConfig(**SIZES, num_experts=4, num_experts_per_tok=2),
    "hunyuan_v1_dense": lambda: T.HunYuanDenseV1Config(**SIZES, head_dim=16, rope_parameters={
        "rope_type": "dynamic", "alpha": 50.0, "factor": 1.0, "rope_theta": 10000.0}),
    "arcee": lambda: T.ArceeConfig(**SIZES),
    "nemotron": lambda: T.NemotronConfig(**SIZES, rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                                                                   "partial_rotary_factor": 0.5}),
    "nemotron_h": lambda: nemotron_h(["linear_attention", "mlp", "full_attention", "linear_attention"]),
    "nemotron_h_moe": lambda: nemotron_h(["linear_attention", "moe", "full_attention", "moe"], n_routed_experts=4, num_experts_per_tok=2,
                                         moe_intermediate_size=32, moe_shared_expert_intermediate_size=64, routed_scaling_factor=2.5,
                                         n_group=2, topk_group=1),
    # transformers normalises the output of all groups together; mamba_ssm, llama.cpp and kvick each group.
    "mamba2": lambda: T.Mamba2Config(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_heads=4, head_dim=16, state_size=8, expand=2,
                                     n_groups=1, chunk_size=16, pad_token_id=0, bos_token_id=1, eos_token_id=2),
    "granitemoehybrid_experts": lambda: T.GraniteMoeHybridConfig(
        **{**SIZES, "num_hidden_layers": 3}, embedding_multiplier=3.0, residual_multiplier=0.4, logits_scaling=2.0, attention_multiplier=0.2,
        num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=96, mamba_n_heads=4, mamba_d_head=16, mamba_d_state=8,
        mamba_chunk_size=16, position_embedding_type="nope", layer_types=["linear_attention", "full_attention", "linear_attention"]),
    "dots1": lambda: T.Dots1Config(**SIZES, **ROUTED, first_k_dense_replace=1, norm_topk_prob=True, n_group=2, topk_group=1),
    "minimax_m2": lambda: T.MiniMaxM2Config(**SIZES, head_dim=16, num_local_experts=5, num_experts_per_tok=2, rope_parameters={
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}),
    "hunyuan_v1_moe": lambda: T.HunYuanMoEV1Config(**SIZES, head_dim=16, num_experts=4, moe_topk=[2, 2]),
    "glm": lambda: T.GlmConfig(**SIZES, head_dim=8, partial_rotary_factor=0.5),
    # Factors of at most 3 bits: products with bfloat16 weights are exact in float16.
    "falcon_h1": lambda: falcon_h1(),
    "falcon_h1_plain": lambda: falcon_h1(mamba_rms_norm=False, mamba_d_ssm=None, mamba_n_groups=1),
}
# (configuration, pooling, widths of the Dense modules). All use the tanh approximation of GELU, as kvick does.
ENCODER_CONFIGS = {
    "bert": (lambda: T.BertConfig(**SIZES, hidden_act="gelu_new"), "mean", []),
    # Token 1 is padding, and none of the texts' tokens.
    "roberta": (lambda: T.RobertaConfig(**{**SIZES, "pad_token_id": 1}, hidden_act="gelu_new", type_vocab_size=1), "mean", []),
    "xlm_roberta": (lambda: T.XLMRobertaConfig(**{**SIZES, "pad_token_id": 1}, hidden_act="gelu_new", type_vocab_size=1), "cls", []),
    "nomic_bert": (lambda: T.NomicBertConfig(**SIZES), "mean", []),
    "modernbert": (lambda: T.ModernBertConfig(**{**SIZES, "num_hidden_layers": 4}, hidden_activation="gelu_pytorch_tanh", local_attention=16,
                                              cls_token_id=1, sep_token_id=2), "cls", []),
    "embeddinggemma": (lambda: T.Gemma3TextConfig(**{**SIZES, "num_hidden_layers": 4}, head_dim=16, sliding_window=16,
                                                  query_pre_attn_scalar=24, use_bidirectional_attention=True,
                                                  layer_types=["sliding_attention", "full_attention"] * 2), "mean", [64, 32]),
}
# Two cases with the same weights: experts in floats, and in MXFP4 blocks.
SAME_SEED = {"gpt_oss_mxfp4": "gpt_oss"}


def nemotron_h(kinds, **own):
    return T.NemotronHConfig(**SIZES | {"num_hidden_layers": None}, layers_block_type=kinds, head_dim=16, ssm_state_size=8, mamba_num_heads=4,
                             mamba_head_dim=16, n_groups=2, chunk_size=16, **own)


def falcon_h1(**own):
    return T.FalconH1Config(**{
        **SIZES, "head_dim": 16, "mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 8,
        "mamba_chunk_size": 16, "mamba_rms_norm": True, "mamba_norm_before_gate": False, "embedding_multiplier": 3.0,
        "lm_head_multiplier": 0.7, "key_multiplier": 0.6, "attention_in_multiplier": 1.5, "attention_out_multiplier": 0.5,
        "ssm_in_multiplier": 0.5, "ssm_out_multiplier": 0.75, "mlp_multipliers": [1.25, 0.625],
        "ssm_multipliers": [0.5, 1.5, 1.25, 0.75, 2.5], **own})


def gemma4(**own):
    return T.Gemma4TextConfig(**{**SIZES, "num_hidden_layers": 6}, head_dim=16, global_head_dim=32, sliding_window=12,
                              final_logit_softcapping=6.0, layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2, **own)


def gpt_oss():
    return T.GptOssConfig(**{**SIZES, "num_hidden_layers": 2}, head_dim=16, sliding_window=12, num_local_experts=4, num_experts_per_tok=2,
                          rope_parameters={**YARN, "truncate": False, "beta_fast": 4.0, "beta_slow": 0.5})


def fill(model, seed):
    """Fills the model with random weights: matrices that keep the size of their inputs, norms near their initial values."""
    random = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=random)
        if weight.dim() == 1:
            weight.data += 0.2 * noise
        else:
            weight.data = noise * weight.shape[-1] ** -0.5 * (2.0 if "embed" in name or "head" in name else 1.0)
        weight.data = weight.data.to(torch.bfloat16).float()
    for name, bias in model.named_buffers():
        if name.endswith(("e_score_correction_bias", "expert_bias")):
            bias.data = 0.2 * torch.randn(bias.shape, generator=random).to(torch.bfloat16).float()
    for name, scale in model.named_buffers():
        if name.endswith("layer_scalar"):
            scale.copy_((0.8 + 0.1 * torch.randn(scale.shape, generator=random)).to(torch.bfloat16).float())


def limit_no_steps(model):
    """transformers takes time_step_min, which is for the first values of a training, as a lower limit of a model's steps. vLLM and llama.cpp
    have no limit, as the folders' time_step_limit says."""
    for layer in model.model.layers:
        if hasattr(layer.mixer, "time_step_limit"):
            layer.mixer.time_step_limit = (0.0, float("inf"))


def round_experts(model):
    """Rounds the experts of gpt-oss to MXFP4, as transformers reads it; returns their tensors in that format."""
    parts = {}
    for layer, block in enumerate(model.model.layers):
        for module in ("gate_up_proj", "down_proj"):
            weight = getattr(block.mlp.experts, module).data  # [experts][inputs][outputs]
            groups = weight.transpose(1, 2).reshape(weight.shape[0], weight.shape[2], -1, 32)
            scales = (groups.abs().amax(-1) / 6).log2().ceil().to(torch.int32) + 127
            steps = (groups / torch.exp2(scales[..., None] - 127.0)).unsqueeze(-1)
            codes = (steps - torch.tensor(FP4_VALUES)).abs().argmin(-1)
            blocks = (codes[..., 0::2] | codes[..., 1::2] << 4).to(torch.uint8)
            name = f"model.layers.{layer}.mlp.experts.{module}"
            parts[name + "_blocks"], parts[name + "_scales"] = blocks, scales.to(torch.uint8)
            weight.copy_(convert_moe_packed_tensors(blocks, scales.to(torch.uint8), dtype=torch.float32))
    return parts


def put_blocks(folder, parts):
    """Replaces the experts in the folder of a gpt-oss model by their MXFP4 tensors."""
    tensors = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in tensors.items() if not name.endswith((".gate_up_proj", ".down_proj"))}
    save_file({**kept, **{name: part.contiguous() for name, part in parts.items()}}, folder / "model.safetensors",
              metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def record(name, seed):
    config = CONFIGS[name]()
    config._attn_implementation = "eager"
    torch.manual_seed(seed)  # for parameters that are initialised randomly, such as sinks
    model = T.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    fill(model, seed)
    if name.startswith("nemotron_h"):
        limit_no_steps(model)
    parts = round_experts(model) if name.startswith("gpt_oss") else {}
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    tokens = torch.tensor([[i * 7 % VOCAB for i in range(TOKENS)]])
    with torch.no_grad():
        logits = model(tokens, use_cache=False).logits[0].float()
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if name == "gpt_oss_mxfp4":
        put_blocks(folder, parts)
    (folder / "logits.bin").write_bytes(logits.numpy().astype("<f4").tobytes())
    print(f"{name}: largest logit {logits.abs().max():.2f}", flush=True)


def write_json(path, value):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")


def write_tokenizer(folder):
    """A WordPiece tokenizer with a piece for each id."""
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    vocab = {name: i for i, name in enumerate(special + [f"word{i}" for i in range(4, VOCAB)])}
    added = [{"id": i, "content": name, "special": True} for i, name in enumerate(special)]
    around = [{"SpecialToken": {"id": "[CLS]"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "[SEP]"}}]
    write_json(folder / "tokenizer.json", {
        "added_tokens": added, "normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": around},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": vocab}})


def record_encoder(name, seed):
    make, pooling, widths = ENCODER_CONFIGS[name]
    torch.manual_seed(seed)
    model = T.AutoModel.from_config(make(), attn_implementation="eager").float().eval()
    fill(model, seed)
    folder = ENCODERS / name
    shutil.rmtree(folder, ignore_errors=True)
    tokens = torch.tensor([[i * 7 % VOCAB for i in range(TOKENS)]])
    with torch.no_grad():
        states = model(tokens).last_hidden_state[0].float()
    embedding = states[0] if pooling == "cls" else states.mean(0)
    model.to(torch.bfloat16).save_pretrained(folder)
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), *((f"{i}_Dense", "Dense") for i in range(2, 2 + len(widths)))]
    write_json(folder / "modules.json", [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
                                         for i, (path, kind) in enumerate(modules)])
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 32, "pooling_mode_cls_token": pooling == "cls",
                                                      "pooling_mode_mean_tokens": pooling == "mean"})
    random = torch.Generator().manual_seed(seed)
    for i, width in enumerate(widths, start=2):
        weight = torch.randn((width, len(embedding)), generator=random) * len(embedding) ** -0.5
        write_json(folder / f"{i}_Dense" / "config.json", {"in_features": len(embedding), "out_features": width, "bias": False,
                                                           "activation_function": "torch.nn.modules.linear.Identity"})
        save_file({"linear.weight": weight}, folder / f"{i}_Dense" / "model.safetensors", metadata={"format": "pt"})
        embedding = weight @ embedding
    write_tokenizer(folder)
    (folder / "embedding.bin").write_bytes(embedding.numpy().astype("<f4").tobytes())
    print(f"{name}: largest number {embedding.abs().max():.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", default=[*CONFIGS, *ENCODER_CONFIGS])
    args = parser.parse_args()
    seeds = {name: seed for seed, name in enumerate(CONFIGS, start=1)}
    for name in CONFIGS:
        if name in args.only:
            record(name, seeds[SAME_SEED.get(name, name)])
    for seed, name in enumerate(ENCODER_CONFIGS, start=1):
        if name in args.only:
            record_encoder(name, seed)


if __name__ == "__main__":
    main()
