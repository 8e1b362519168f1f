#include "quantize/metadata.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace kvick::quantize {
namespace {

// Keys whose content a GGUF file has in its tensors, or does not need.
constexpr std::string_view kLeftOut[] = {"kvick.rope.interleaved", "kvick.norm.shifted",
                                         "kvick.rope_factors_long", "kvick.rope_factors_short",
                                         "kvick.rope_freqs"};

using Status = base::Status<>;

struct Putter {
  const std::string& key;
  io::GgufMetadata& out;

  Status operator()(uint64_t value) const { return integer(value); }
  Status operator()(int64_t value) const { return integer(value); }
  Status operator()(double value) const { return put(static_cast<float>(value)); }
  Status operator()(bool value) const { return put(value); }
  Status operator()(const std::string& value) const { return put(std::string_view(value)); }
  Status operator()(const std::vector<std::string>& values) const { return put(std::span(values)); }
  Status operator()(const std::vector<float>& values) const { return put(std::span(values)); }
  Status operator()(const std::vector<double>& values) const {
    const std::vector<float> narrow(values.begin(), values.end());
    return put(std::span(narrow));
  }
  Status operator()(const std::vector<int64_t>& values) const { return integers(values); }
  Status operator()(const std::vector<uint64_t>& values) const { return integers(values); }
  Status operator()(const std::vector<bool>& values) const { return put(values); }
  Status operator()(const io::Array&) const { return base::Done{}; }  // no folder has any

 private:
  template <typename T>
  Status put(const T& value) const {
    out.put(key, value);
    return base::Done{};
  }
  template <typename T>
  Status integer(T value) const {
    KVICK_TRY(const uint32_t narrow, narrowed<uint32_t>(value));
    return put(narrow);
  }
  template <typename T>
  Status integers(const std::vector<T>& values) const {
    std::vector<int32_t> all;
    for (const T value : values) {
      KVICK_TRY(const int32_t narrow, narrowed<int32_t>(value));
      all.push_back(narrow);
    }
    return put(std::span<const int32_t>(all));
  }
  template <typename To, typename From>
  base::Result<To> narrowed(From value) const {
    if (std::in_range<To>(value)) return static_cast<To>(value);
    return base::fail("{} is {}, but GGUF files have 32 bits for it: correct the folder's config",
                      key, value);
  }
};

}  // namespace

base::Status<> put_metadata(const io::Metadata& metadata, io::GgufMetadata& out) {
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
      KVICK_TRY_VOID(std::visit(Putter{key, out}, value.data));
    }
  return base::Done{};
}

}  // namespace kvick::quantize
