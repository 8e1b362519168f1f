// The text part of models for pictures whose positions have sections: Qwen-VL.

#include <utility>
#include <vector>

#include "io/families/hf_parts.h"

namespace kvick::io {
namespace {

using base::Status;

// The experts' matrices of one layer are one tensor, which join_tensors splits.
constexpr Rename kQwenVlMoe[] = {
    {"self_attn.q_norm", "attn_q_norm"},    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate", "ffn_gate_inp"},           {"mlp.experts.gate_proj", "ffn_gate_exps"},
    {"mlp.experts.up_proj", "ffn_up_exps"}, {"mlp.experts.down_proj", "ffn_down_exps"},
};

// llama.cpp asks for the sections that the positions of pictures have. A text has one position in
// all of them.
Status<> map_sections(Mapper& map) {
  constexpr size_t kSections = 4;
  for (const std::string_view field : {"rope_scaling", "rope_parameters"}) {
    if (!map.config().find(field)) continue;
    KVICK_TRY(const JsonObject rope, map.config().get_object(field));
    if (!rope.find("mrope_section")) continue;
    KVICK_TRY(const simdjson::dom::array list, rope.get_array("mrope_section"));
    std::vector<uint64_t> sections;
    for (const Json entry : list)
      if (entry.get(sections.emplace_back()) != simdjson::SUCCESS || sections.size() > kSections)
        return base::fail("{} must hold up to {} numbers", rope.label("mrope_section"), kSections);
    sections.resize(kSections);
    map.set("rope.dimension_sections", std::move(sections));
  }
  return base::Done{};
}

Status<> map_qwen_vl_moe(Mapper& map) {
  KVICK_TRY_VOID(map_sections(map));
  return map_qwen_moe(map);
}

constexpr HfFamily kFamilies[] = {
    // Before their text had a part of its own, files had its fields beside those for pictures.
    HfFamily{.model_type = "qwen2_vl",
             .architecture = "qwen2vl",
             .map = map_sections,
             .defaults = kBase1M},
    HfFamily{.model_type = "qwen2_5_vl",
             .architecture = "qwen2vl",
             .map = map_sections,
             .defaults = kBase1M},
    HfFamily{.model_type = "qwen2_vl_text",
             .architecture = "qwen2vl",
             .map = map_sections,
             .defaults = kBase1M},
    HfFamily{.model_type = "qwen2_5_vl_text",
             .architecture = "qwen2vl",
             .map = map_sections,
             .defaults = kBase1M},
    HfFamily{.model_type = "qwen3_vl_text",
             .architecture = "qwen3vl",
             .modules = kHeadNorms,
             .map = map_sections,
             .defaults = kBase500k},
    HfFamily{.model_type = "qwen3_vl_moe_text",
             .architecture = "qwen3vlmoe",
             .gate_up = GateUp::kHalves,
             .modules = kQwenVlMoe,
             .map = map_qwen_vl_moe,
             .defaults = kBase500k},
};

}  // namespace

std::span<const HfFamily> picture_families() { return kFamilies; }

}  // namespace kvick::io
