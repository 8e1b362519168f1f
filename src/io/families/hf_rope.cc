#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "io/families/hf_mapper.h"

namespace kvick::io {
namespace {

base::Status<> map_original_context(Mapper& map, const JsonObject& rope) {
  KVICK_TRY(const uint64_t context, map.size("max_position_embeddings"));
  KVICK_TRY(const uint64_t original, rope.get_uint("original_max_position_embeddings", context));
  if (original < 1 || original > kMaxSize)
    return base::fail("{} is {}; 1 to {} are allowed",
                      rope.label("original_max_position_embeddings"), original, kMaxSize);
  map.set("rope.scaling.original_context_length", original);
  return base::Done{};
}

base::Status<> map_llama3(Mapper& map, const JsonObject& rope) {
  KVICK_TRY(const double low, positive(rope, "low_freq_factor"));
  KVICK_TRY(const double high, positive(rope, "high_freq_factor"));
  // If both are equal, as in Llama 4, there is no range to blend.
  if (low > high)
    return base::fail("{} is {}, which must not be below 'low_freq_factor', {}",
                      rope.label("high_freq_factor"), high, low);
  map.set("rope.scaling.low_freq_factor", low);
  map.set("rope.scaling.high_freq_factor", high);
  return map_original_context(map, rope);
}

// Returns YaRN's factor on cosines and sines. The two fields count only if both are present and not
// 0, as in transformers.
base::Result<double> yarn_magnitude(const JsonObject& rope, double usual) {
  for (const std::string_view field : {"mscale", "mscale_all_dim"}) {
    KVICK_TRY(const double value, rope.get_float(field, 0));
    if (value == 0) return usual;
  }
  KVICK_TRY(const double scale, positive(rope, "mscale"));
  KVICK_TRY(const double all, positive(rope, "mscale_all_dim"));
  return (1 + scale * (usual - 1)) / (1 + all * (usual - 1));
}

base::Status<> map_yarn(Mapper& map, const JsonObject& rope, double factor) {
  KVICK_TRY(const double fast, positive(rope, "beta_fast", 32));
  KVICK_TRY(const double slow, positive(rope, "beta_slow", 1));
  map.set("rope.scaling.yarn_beta_fast", fast);
  map.set("rope.scaling.yarn_beta_slow", slow);
  KVICK_TRY(const bool truncates, rope.get_bool("truncate", true));
  if (!truncates) map.set("rope.scaling.yarn_truncate", false);
  // transformers has the whole factor on cos and sin; GGUF has its ratio to the usual factor.
  const double usual = factor > 1 ? 0.1 * std::log(factor) + 1 : 1;
  KVICK_TRY(const double told, yarn_magnitude(rope, usual));
  KVICK_TRY(const double whole, positive(rope, "attention_factor", told));
  map.set("rope.scaling.attn_factor", whole / usual);
  return map_original_context(map, rope);
}

base::Status<> map_factors(Mapper& map, const JsonObject& rope, std::string_view field,
                           const char* name) {
  KVICK_TRY(const simdjson::dom::array values, rope.get_array(field));
  std::vector<float> factors;
  for (const Json value : values) {
    double factor = 0;
    if (value.get(factor) != simdjson::SUCCESS || !(factor > 0))
      return base::fail("{} must hold numbers above 0", rope.label(field));
    factors.push_back(static_cast<float>(factor));
  }
  map.set_whole(std::string("kvick.") + name, std::move(factors));
  return base::Done{};
}

// LongRoPE (Ding et al. 2024). If the file has no factor on cosines and sines, it follows from
// 'factor' or, without it, from the ratio of the context lengths.
base::Status<> map_long_rope(Mapper& map, const JsonObject& rope) {
  KVICK_TRY_VOID(map_factors(map, rope, "long_factor", "rope_factors_long"));
  KVICK_TRY_VOID(map_factors(map, rope, "short_factor", "rope_factors_short"));
  KVICK_TRY(const uint64_t context, map.size("max_position_embeddings"));
  const std::string_view field = "original_max_position_embeddings";
  const bool inside = rope.find(field).has_value();
  KVICK_TRY(const double original, positive(inside ? rope : map.config(), field));
  KVICK_TRY(const double stretched,
            positive(rope, "factor", static_cast<double>(context) / original));
  const double usual = stretched > 1 ? std::sqrt(1 + std::log(stretched) / std::log(original)) : 1;
  KVICK_TRY(const double attention, positive(rope, "attention_factor", usual));
  map.set("rope.scaling.type", std::string("longrope"));
  map.set("rope.scaling.attn_factor", attention);
  map.set("rope.scaling.original_context_length", static_cast<uint64_t>(original));
  return base::Done{};
}

base::Result<std::string> scaling_type(const JsonObject& rope) {
  KVICK_TRY(const std::string type, rope.get_string("type", "default"));
  return rope.get_string("rope_type", type);
}

// Returns whether the scaling is Hunyuan's, which changes only the base.
base::Result<bool> scales_base(const Mapper& map, const JsonObject& rope) {
  KVICK_TRY(const std::string type, scaling_type(rope));
  KVICK_TRY(const std::string model, map.config().get_string("model_type"));
  return type == "dynamic" && model.starts_with("hunyuan_v1") && rope.find("alpha");
}

base::Status<> map_scaling(Mapper& map, const JsonObject& rope) {
  KVICK_TRY(const std::string type, scaling_type(rope));
  // In models for images, the positions of images have several sections; those of texts are plain.
  if (type == "default" || type == "mrope") return base::Done{};
  KVICK_TRY(const bool base_only, scales_base(map, rope));
  if (base_only) return base::Done{};  // map_rope has the base
  KVICK_TRY(const std::string model, map.config().get_string("model_type"));
  if (type == "proportional" && model == "gemma4_text") return base::Done{};  // map_gemma4 maps it
  if (type == "longrope" || type == "su") return map_long_rope(map, rope);
  if (type != "linear" && type != "yarn" && type != "llama3")
    return base::fail("{} is {}; kvick knows default, linear, llama3, yarn and longrope",
                      rope.label("rope_type"), in_quotes(type));
  KVICK_TRY(const double factor, positive(rope, "factor"));
  map.set("rope.scaling.type", type);
  map.set("rope.scaling.factor", factor);
  if (type == "llama3") return map_llama3(map, rope);
  if (type == "yarn") return map_yarn(map, rope, factor);
  return base::Done{};
}

struct RopeNumbers {
  double theta = 10000, part = 1;
};

base::Status<> read_rope_numbers(const JsonObject& fields, RopeNumbers& numbers) {
  KVICK_TRY(numbers.theta, positive(fields, "rope_theta", numbers.theta));
  KVICK_TRY(numbers.part, positive(fields, "partial_rotary_factor", numbers.part));
  return base::Done{};
}

void set_rope(Mapper& map, const HfHeads& sizes, const RopeNumbers& numbers,
              const std::string& suffix) {
  const double dims = static_cast<double>(sizes.head_dim) * std::min(numbers.part, 1.0);
  map.set("rope.freq_base" + suffix, numbers.theta);
  map.set("rope.dimension_count" + suffix, static_cast<uint64_t>(dims));
}

// Maps the parameters of layers with a window, whose rotation must not be scaled.
base::Status<> map_window_rope(Mapper& map, const HfHeads& sizes, const JsonObject& rope,
                               RopeNumbers numbers) {
  KVICK_TRY_VOID(read_rope_numbers(rope, numbers));
  KVICK_TRY(const std::string type, rope.get_string("rope_type", std::string("default")));
  if (type != "default")
    return base::fail("{} is {}; kvick does not scale the rotation of layers with a window",
                      rope.label("rope_type"), in_quotes(type));
  set_rope(map, sizes, numbers, "_swa");
  return base::Done{};
}

}  // namespace

// Older files have rope_theta and an optional rope_scaling. Newer ones have both in
// rope_parameters, or in one object there per kind of layer.
base::Status<> map_rope(Mapper& map, const HfHeads& sizes) {
  const JsonObject& config = map.config();
  std::optional<JsonObject> rope;
  RopeNumbers numbers;
  KVICK_TRY_VOID(read_rope_numbers(config, numbers));
  for (const std::string_view field : {"rope_scaling", "rope_parameters"}) {
    if (!config.find(field)) continue;
    KVICK_TRY(rope, config.get_object(field));
    if (rope->find("sliding_attention")) {
      KVICK_TRY(const JsonObject window, rope->get_object("sliding_attention"));
      KVICK_TRY_VOID(map_window_rope(map, sizes, window, numbers));
    }
    if (rope->find("full_attention")) {
      KVICK_TRY(rope, rope->get_object("full_attention"));
    }
    KVICK_TRY_VOID(read_rope_numbers(*rope, numbers));
  }
  KVICK_TRY(const bool base_only, rope ? scales_base(map, *rope) : base::Result<bool>(false));
  if (base_only) {
    KVICK_TRY(const double alpha, positive(*rope, "alpha"));
    const auto dim = static_cast<double>(sizes.head_dim);
    if (dim > 2) numbers.theta *= std::pow(alpha, dim / (dim - 2));
  }
  set_rope(map, sizes, numbers, "");
  if (rope) KVICK_TRY_VOID(map_scaling(map, *rope));
  return base::Done{};
}

}  // namespace kvick::io
