#pragma once
// The parts of the table of families, one file each, and what several of them use.

#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "io/families/hf_families.h"
#include "io/families/hf_mapper.h"

namespace kvick::io {

std::span<const HfFamily> dense_families();      // hf_dense.cc
std::span<const HfFamily> expert_families();     // hf_experts.cc
std::span<const HfFamily> latent_families();     // hf_deepseek.cc
std::span<const HfFamily> gemma_families();      // hf_gemma.cc
std::span<const HfFamily> delta_families();      // hf_delta.cc
std::span<const HfFamily> state_families();      // hf_states.cc
std::span<const HfFamily> one_block_families();  // hf_mixers.cc
std::span<const HfFamily> picture_families();    // hf_pictures.cc
std::span<const HfFamily> encoder_families();    // hf_encoders.cc
std::span<const HfFamily> jina_families();       // hf_jina.cc

// Maps a number above 0, if the file has it.
base::Status<> copy_positive(Mapper& map, std::string_view field, std::string_view key);
// Refuses any number but `wanted`, which also applies if the file has none.
base::Status<> require_number(const Mapper& map, std::string_view field, double wanted);

// Map fields that several families have. See hf_dense.cc.
base::Status<> map_granite(Mapper& map);
base::Status<> map_hunyuan(Mapper& map);
base::Status<> require_fourth_layers(Mapper& map);

// Each maps the fields for how many experts a layer has and how wide they are. map_nemotron_experts
// is in hf_deepseek.cc, the others are in hf_experts.cc.
base::Status<> map_experts(Mapper& map);
base::Status<> map_qwen_moe(Mapper& map);
base::Status<> map_nemotron_experts(Mapper& map);

// The names of fields that encoders have.
struct SizeFields {
  std::string_view width = "hidden_size", heads = "num_attention_heads",
                   layers = "num_hidden_layers", ffn = "intermediate_size",
                   positions = "max_position_embeddings";
};
// Maps the sizes of an encoder. Returns those that a rotary embedding depends on. See
// hf_encoders.cc.
base::Result<HfHeads> map_encoder_sizes(Mapper& map, const SizeFields& fields = {});

// Refuses a limit on the steps of a state. See hf_states.cc.
base::Status<> require_free_steps(const JsonObject& config);

inline constexpr Rename kHeadNorms[] = {
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
};

// HfFamily::activation of several families.
inline constexpr std::string_view kTanhGelu = "gelu_pytorch_tanh";
// HfFamily::defaults of several families.
inline constexpr std::string_view kBase500k = R"("rope_theta": 500000.0)";
inline constexpr std::string_view kBase1M = R"("rope_theta": 1000000.0)";
inline constexpr std::string_view kQuarterRotates = R"("partial_rotary_factor": 0.25)";
inline constexpr std::string_view kHalfRotates = R"("partial_rotary_factor": 0.5)";

}  // namespace kvick::io
