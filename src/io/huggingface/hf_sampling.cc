#include "io/huggingface/hf_sampling.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/safetensors/json.h"

namespace kvick::io {
namespace {

constexpr uint64_t kMaxConfigBytes = 64 << 20;

base::Status<> map_tokens(const JsonObject& config, std::string_view field, const std::string& key,
                          Metadata& out) {
  if (!config.find(field)) return base::Done{};
  KVICK_TRY(const simdjson::dom::array list, config.get_array(field));
  std::vector<int64_t> ids;
  for (const Json entry : list)
    if (entry.get(ids.emplace_back()) != simdjson::SUCCESS)
      return base::fail("{} must hold the numbers of tokens", config.label(field));
  if (!ids.empty()) out[key].data = std::move(ids);
  return base::Done{};
}

}  // namespace

base::Status<> map_sampling(const NamedText& generation_config, Metadata& out) {
  if (generation_config.text.empty()) return base::Done{};
  KVICK_TRY(const JsonDocument document,
            JsonDocument::parse(generation_config.text, generation_config.name, kMaxConfigBytes));
  KVICK_TRY(const JsonObject config, JsonObject::from(document.root(), generation_config.name));
  for (const auto& [field, key] :
       {std::pair("temperature", "temp"), std::pair("top_p", "top_p"), std::pair("min_p", "min_p"),
        std::pair("repetition_penalty", "penalty_repeat")}) {
    if (!config.find(field)) continue;
    KVICK_TRY(const double value, config.get_float(field));
    out["general.sampling." + std::string(key)].data = value;
  }
  // A whole number, as in GGUF files; 0 and -1 both mean all tokens.
  if (config.find("top_k")) {
    KVICK_TRY(const double value, config.get_float("top_k"));
    out["general.sampling.top_k"].data =
        static_cast<int64_t>(std::clamp(value, 0.0, double{INT32_MAX}));
  }
  KVICK_TRY_VOID(map_tokens(config, "suppress_tokens", "tokenizer.ggml.suppress_tokens", out));
  KVICK_TRY_VOID(map_tokens(config, "begin_suppress_tokens", "kvick.begin_suppress_tokens", out));
  return base::Done{};
}

}  // namespace kvick::io
