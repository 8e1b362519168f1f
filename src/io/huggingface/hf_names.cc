#include "io/huggingface/hf_names.h"

#include <charconv>
#include <span>
#include <utility>

#include "io/families/hf_families.h"
#include "io/file/builder.h"

namespace kvick::io {
namespace {

constexpr Rename kRotaryOuter[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
    {"norm.bias", "output_norm.bias"},
    {"final_layernorm.weight", "output_norm.weight"},
    {"embeddings.weight", "token_embd.weight"},
    {"norm_f.weight", "output_norm.weight"},
    {"embedding_norm.weight", "token_embd_norm.weight"},
    {"embed_tokens_per_layer.weight", "per_layer_token_embd.weight"},
    {"per_layer_model_projection.weight", "per_layer_model_proj.weight"},
    {"per_layer_projection_norm.weight", "per_layer_proj_norm.weight"},
    {"altup_projections.0.weight", "altup_proj.0.weight"},
    {"altup_projections.1.weight", "altup_proj.1.weight"},
    {"altup_projections.2.weight", "altup_proj.2.weight"},
    {"altup_unembed_projections.0.weight", "altup_unembd_proj.0.weight"},
    {"altup_unembed_projections.1.weight", "altup_unembd_proj.1.weight"},
    {"altup_unembed_projections.2.weight", "altup_unembd_proj.2.weight"},
};
// ".weight" or ".bias" follows each of these.
constexpr Rename kRotaryLayer[] = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};
constexpr Rename kOptOuter[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"embed_positions.weight", "position_embd.weight"},
    {"final_layer_norm.weight", "output_norm.weight"},
    {"final_layer_norm.bias", "output_norm.bias"},
};
constexpr Rename kOptLayer[] = {
    {"self_attn_layer_norm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.out_proj", "attn_output"},
    {"final_layer_norm", "ffn_norm"},
    {"fc1", "ffn_up"},
    {"fc2", "ffn_down"},
};

std::optional<std::string_view> look_up(std::span<const Rename> table, std::string_view name) {
  for (const auto& [from, to] : table)
    if (from == name) return to;
  return std::nullopt;
}

// Splits "mlp.experts.7.up_proj" into the pattern "mlp.experts.*.up_proj" and the expert 7.
std::optional<uint64_t> take_expert(std::string_view module, std::string& pattern) {
  constexpr std::string_view kBefore = "experts.";
  const size_t at = module.find(kBefore);
  if (at == std::string_view::npos) return std::nullopt;
  const char* const begin = module.data() + at + kBefore.size();
  uint64_t expert = 0;
  const auto [end, error] = std::from_chars(begin, module.data() + module.size(), expert);
  if (error != std::errc()) return std::nullopt;
  pattern =
      std::string(module.data(), begin) + "*" + std::string(end, module.data() + module.size());
  return expert;
}

bool drop_prefix(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return true;
}

// Maps what follows "layers.". nullopt: unknown name. Empty string: not needed.
std::optional<std::string> map_layer(const HfConfig& config, std::string_view name) {
  uint64_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || layer >= config.layers + config.unread_layers) return std::nullopt;
  if (layer >= config.layers) return "";
  name.remove_prefix(end - name.data());
  if (!drop_prefix(name, ".")) return std::nullopt;
  if (name == "self_attn.rotary_emb.inv_freq") return "";  // a buffer in old files
  const std::span<const Rename> own = config.modules;
  if (const auto whole = look_up(own, name)) return fmt::format("blk.{}.{}", layer, *whole);
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view module = name.substr(0, dot), part = name.substr(dot);
  if (part != ".weight" && part != ".bias") return std::nullopt;
  std::string pattern;
  if (const auto expert = take_expert(module, pattern)) {
    const auto mapped = look_up(own, pattern);
    if (!mapped) return std::nullopt;
    return fmt::format("blk.{}.{}.{}{}", layer, *mapped, *expert, part);
  }
  auto mapped = look_up(own, module);
  if (!mapped)
    mapped = look_up(
        config.architecture == "opt" ? std::span<const Rename>(kOptLayer) : kRotaryLayer, module);
  if (!mapped) return std::nullopt;
  return fmt::format("blk.{}.{}{}", layer, *mapped, part);
}

base::Error no_such_tensor(const HfConfig& config, const std::string& label) {
  return base::fail("{}: a model of {} layers of the architecture {} has no such tensor", label,
                    config.layers, config.architecture);
}

// PyTorch stores a weight that has an adapter as "MODULE.parametrizations.weight.original", with
// the adapter as "0.lora_A" and "0.lora_B" in place of "original" beside it. Returns
// "MODULE.weight", or nothing for the adapter. Any other name is returned unchanged.
std::string without_adapter(std::string_view name) {
  constexpr std::string_view kBetween = ".parametrizations.weight.";
  const size_t at = name.find(kBetween);
  if (at == std::string_view::npos) return std::string(name);
  const std::string_view part = name.substr(at + kBetween.size());
  if (part == "original") return std::string(name.substr(0, at)) + ".weight";
  return part == "0.lora_A" || part == "0.lora_B" ? "" : std::string(name);
}

// Encoders may have heads that guess hidden words, which embeddings do not need, or heads that give
// labels.
base::Result<std::optional<std::string>> map_encoder_name(const HfConfig& config,
                                                          std::string_view stored,
                                                          const std::string& label) {
  const std::string name = config.task_adapters ? without_adapter(stored) : std::string(stored);
  if (name.empty()) return std::optional<std::string>();
  constexpr std::string_view kUnneeded[] = {"cls.", "decoder.", "head.", "lm_head.", "pooler."};
  std::string_view rest = name;
  for (const std::string_view prefix : {"bert.", "roberta.", "model."}) drop_prefix(rest, prefix);
  if (const auto outer = look_up(config.outer, rest)) {
    if (outer->starts_with("cls.") && !config.scores) return std::optional<std::string>();
    return std::optional<std::string>(*outer);
  }
  for (const std::string_view unneeded : kUnneeded)
    if (rest.starts_with(unneeded)) return std::optional<std::string>();
  if (!drop_prefix(rest, config.layer_prefix)) return no_such_tensor(config, label);
  const auto mapped = map_layer(config, rest);
  if (!mapped || mapped->empty()) return no_such_tensor(config, label);
  return mapped;
}

}  // namespace

base::Result<std::optional<std::string>> map_tensor_name(const HfConfig& config,
                                                         std::string_view name,
                                                         const std::string& label) {
  if (!config.outer.empty()) return map_encoder_name(config, name, label);
  const bool opt = config.architecture == "opt";
  // Multimodal folders may have it beside the decoder: "language_model.lm_head.weight".
  if (name == "lm_head.weight" || (config.nested && name == "language_model.lm_head.weight")) {
    if (config.tied) return std::optional<std::string>();
    return std::optional<std::string>("output.weight");
  }
  if ((config.architecture.starts_with("qwen3") || config.architecture.starts_with("nemotron_h")) &&
      name.starts_with("mtp."))
    return std::optional<std::string>();  // the draft layers
  if (config.architecture == "ernie4_5-moe" && name.starts_with("model.mtp_"))
    return std::optional<std::string>();
  if (config.architecture == "qwen2vl" && name.starts_with("visual."))
    return std::optional<std::string>();
  std::string_view rest = name;
  if (config.nested && !drop_prefix(rest, "model.language_model.") &&
      !drop_prefix(rest, "language_model.model."))
    return std::optional<std::string>();
  drop_prefix(rest, "model.");  // absent if the file holds only the decoder
  drop_prefix(rest, "backbone.");
  std::optional<std::string> mapped;
  if (!opt || drop_prefix(rest, "decoder.")) {
    if (const auto outer = opt ? look_up(kOptOuter, rest) : look_up(kRotaryOuter, rest)) {
      mapped = *outer;
    } else if (drop_prefix(rest, "layers.")) {
      mapped = map_layer(config, rest);
    } else if (opt && (rest == "project_in.weight" || rest == "project_out.weight")) {
      return base::fail("{}: projected embeddings are not supported", label);
    }
  }
  if (!mapped) return no_such_tensor(config, label);
  if (mapped->empty()) return std::optional<std::string>();
  return mapped;
}

}  // namespace kvick::io
