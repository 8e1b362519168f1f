#include "quantize/metadata.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace kvick::quantize {
namespace {

// Keys whose content a GGUF file has in its tensors, or does not need.
constexpr std::string_view kLeftOut[] = {"kvick.rope.interleaved", "kvick.norm.shifted",
                                         "kvick.rope_factors_long", "kvick.rope_factors_short",
                                         "kvick.rope_freqs"};

struct Putter {
  const std::string& key;
  io::GgufMetadata& out;

  void operator()(uint64_t value) const { out.put(key, static_cast<uint32_t>(value)); }
  void operator()(int64_t value) const { out.put(key, static_cast<uint32_t>(value)); }
  void operator()(double value) const { out.put(key, static_cast<float>(value)); }
  void operator()(bool value) const { out.put(key, value); }
  void operator()(const std::string& value) const { out.put(key, std::string_view(value)); }
  void operator()(const std::vector<std::string>& values) const { out.put(key, std::span(values)); }
  void operator()(const std::vector<float>& values) const { out.put(key, std::span(values)); }
  void operator()(const std::vector<double>& values) const {
    const std::vector<float> narrow(values.begin(), values.end());
    out.put(key, std::span(narrow));
  }
  void operator()(const std::vector<int64_t>& values) const {
    const std::vector<int32_t> narrow(values.begin(), values.end());
    out.put(key, std::span(narrow));
  }
  void operator()(const std::vector<uint64_t>& values) const {
    const std::vector<int32_t> narrow(values.begin(), values.end());
    out.put(key, std::span(narrow));
  }
  void operator()(const std::vector<bool>& values) const { out.put(key, values); }
  void operator()(const io::Array&) const {}  // no folder has any
};

}  // namespace

void put_metadata(const io::Metadata& metadata, io::GgufMetadata& out) {
  // Llama 3's scaling becomes a tensor of divisors. A factor without a type would be read as linear
  // scaling.
  bool llama3 = false;
  for (const auto& [key, value] : metadata) {
    const auto* text = std::get_if<std::string>(&value.data);
    llama3 |= key.ends_with(".rope.scaling.type") && text != nullptr && *text == "llama3";
  }
  // The architecture comes first, because other keys depend on it.
  for (const bool first : {true, false})
    for (const auto& [key, value] : metadata) {
      if ((key == "general.architecture") != first) continue;
      if (std::find(std::begin(kLeftOut), std::end(kLeftOut), key) != std::end(kLeftOut)) continue;
      if (llama3 && key.find(".rope.scaling.") != std::string::npos) continue;
      std::visit(Putter{key, out}, value.data);
    }
}

}  // namespace kvick::quantize
