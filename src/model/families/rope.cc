#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/families/read_config.h"

namespace kvick::model {
namespace {

using base::fail;
using base::Result;

// Llama 3.1's rule (transformers modeling_rope_utils, rope_type "llama3"): wavelengths longer than
// the model was trained on are stretched by `factor`, short ones are kept, and those between are
// blended.
double llama3_frequency(double frequency, double factor, double low, double high, double original) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < original / high) return frequency;
  if (wavelength > original / low || high == low) return frequency / factor;
  const double keep = (original / wavelength - low) / (high - low);
  return (1 - keep) * frequency / factor + keep * frequency;
}

// YaRN (Peng et al. 2023, section 3.2). The betas are turns over the original context. Pairs that
// turn more often than beta_fast are kept, those that turn less often than beta_slow are stretched,
// and those between are blended.
struct Yarn {
  double factor, original, beta_fast, beta_slow;
  double log_multiplier = 0;  // mscale_all_dim of DeepSeek and Mistral; 0: the model has none
  bool truncates =
      true;  // the blended range begins and ends at whole pairs; that of gpt-oss does not
};

void apply_yarn(const Yarn& yarn, double base, Rope& rope) {
  const double dims = rope.dims;
  const auto turning_dim = [&](double turns) {
    return dims * std::log(yarn.original / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  double low = turning_dim(yarn.beta_fast), high = turning_dim(yarn.beta_slow);
  if (yarn.truncates) low = std::floor(low), high = std::ceil(high);
  low = std::max(0.0, low), high = std::min(dims - 1, high);
  for (size_t i = 0; i < rope.frequency.size(); ++i) {
    const double ramp = (static_cast<double>(i) - low) / std::max(0.001, high - low);
    const double keep = 1 - std::clamp(ramp, 0.0, 1.0);
    rope.frequency[i] *= keep + (1 - keep) / yarn.factor;
  }
  const double grown = 0.1 * std::log(yarn.factor);
  rope.magnitude *= static_cast<float>((1 + grown) / (1 + yarn.log_multiplier * grown));
}

base::Status<> read_yarn(const io::ModelFile& file, const std::string& prefix, double base,
                         Yarn yarn, Rope& rope) {
  KVICK_TRY(yarn.beta_fast, positive_number(file, prefix + "yarn_beta_fast", 32));
  KVICK_TRY(yarn.beta_slow, positive_number(file, prefix + "yarn_beta_slow", 1));
  KVICK_TRY(yarn.truncates, file.get_bool(prefix + "yarn_truncate", true));
  const std::string key = prefix + "yarn_log_multiplier";
  KVICK_TRY(yarn.log_multiplier, file.get_float(key, 0));
  if (!(yarn.log_multiplier >= 0) || !std::isfinite(yarn.log_multiplier))
    return fail("{}: {} is {}, but must not be negative", file.path(), key, yarn.log_multiplier);
  apply_yarn(yarn, base, rope);
  return base::Done{};
}

base::Status<> scale_rope(const io::ModelFile& file, const Config& config, double base,
                          Rope& rope) {
  const std::string prefix = config.arch + ".rope.scaling.";
  // Files of 2023 have the factor under the older key. A factor without a type is linear, as in
  // llama.cpp.
  const std::string older = config.arch + ".rope.scale_linear";
  const bool told = file.metadata().contains(prefix + "factor") || file.metadata().contains(older);
  KVICK_TRY(const std::string type,
            file.get_string(prefix + "type", std::string(told ? "linear" : "none")));
  KVICK_TRY(const double attention, positive_number(file, prefix + "attn_factor", 1));
  rope.magnitude = static_cast<float>(attention);
  if (type == "none" || type == "longrope" || type.empty()) return base::Done{};
  KVICK_TRY(const double older_factor, positive_number(file, older, 1));
  KVICK_TRY(const double factor, positive_number(file, prefix + "factor", older_factor));
  KVICK_TRY(const double original,
            positive_number(file, prefix + "original_context_length", config.context));
  if (type == "linear") {
    for (double& frequency : rope.frequency) frequency /= factor;
  } else if (type == "yarn") {
    const Yarn yarn = {.factor = factor, .original = original, .beta_fast = 0, .beta_slow = 0};
    KVICK_TRY_VOID(read_yarn(file, prefix, base, yarn, rope));
  } else if (type == "llama3") {
    KVICK_TRY(const double low, positive_number(file, prefix + "low_freq_factor", 1));
    KVICK_TRY(const double high, positive_number(file, prefix + "high_freq_factor", 4));
    if (high < low)
      return fail("{}: {}high_freq_factor is {}, below low_freq_factor {}", file.path(), prefix,
                  high, low);
    for (double& frequency : rope.frequency)
      frequency = llama3_frequency(frequency, factor, low, high, original);
  } else {
    return fail("{}: {}type is \"{}\"; kvick knows none, linear, yarn, llama3 and longrope",
                file.path(), prefix, type);
  }
  return base::Done{};
}

// Returns one divisor per pair, from a tensor or an array of the metadata. GGUF stores Llama 3's
// rule in this form, and also LongRoPE's two sets (Ding et al. 2024): the long one is for contexts
// beyond the original.
Result<std::vector<float>> read_factors(const io::ModelFile& file, const std::string& name,
                                        size_t pairs) {
  if (const std::vector<float>* array = file.get_floats("kvick." + name)) {
    if (array->size() == pairs) return *array;
    return fail("{}: {} has {} values for {} rotary pairs", file.path(), name, array->size(),
                pairs);
  }
  const io::Tensor* factors = file.find(name + ".weight");
  if (factors == nullptr) return std::vector<float>{};
  if (factors->elements() != pairs || factors->dtype != kernels::DType::kF32)
    return fail("{}: {}.weight must be {} F32 values, one per rotary pair", file.path(), name,
                pairs);
  std::vector<float> divisors(pairs);
  factors->read_floats(divisors.data());
  return divisors;
}

base::Status<> divide_by_factors(const io::ModelFile& file, const Config& config, uint32_t sequence,
                                 Rope& rope) {
  KVICK_TRY(const uint64_t original,
            file.get_uint(config.arch + ".rope.scaling.original_context_length", config.context));
  const char* const length = sequence > original ? "rope_factors_long" : "rope_factors_short";
  for (const char* name : {"rope_freqs", length}) {
    KVICK_TRY(const std::vector<float> divisors, read_factors(file, name, rope.frequency.size()));
    for (size_t i = 0; i < divisors.size(); ++i) {
      if (!(divisors[i] > 0))
        return fail("{}: {}[{}] is {}, but must be positive", file.path(), name, i, divisors[i]);
      rope.frequency[i] /= divisors[i];
    }
  }
  return base::Done{};
}

}  // namespace

Result<Rope> read_rope(const io::ModelFile& file, const Config& config, const RopeKeys& keys,
                       uint32_t head_dim) {
  const std::string prefix = config.arch + ".rope.";
  const auto named = [&](std::string_view key) {
    return prefix + std::string(key) + std::string(keys.suffix);
  };
  Rope rope;
  KVICK_TRY(const uint32_t dims,
            bounded_number(file, prefix + "dimension_count", 1 << 16, head_dim));
  KVICK_TRY(rope.dims,
            bounded_number(file, named("dimension_count"), 1 << 16, std::min(dims, head_dim)));
  if (rope.dims % 2 != 0 || rope.dims > head_dim)
    return fail("{}: {} is {}, but must be even and at most the head's {}", file.path(),
                named("dimension_count"), rope.dims, head_dim);
  KVICK_TRY(double all, positive_number(file, prefix + "freq_base", 10000));
  if (keys.base != 0) all = keys.base;
  KVICK_TRY(double base, positive_number(file, named("freq_base"), all));
  // Hunyuan's scaling for long contexts, which changes the base only.
  KVICK_TRY(const double alpha, positive_number(file, prefix + "scaling.alpha", 1));
  if (head_dim > 2) base *= std::pow(alpha, double{1} * head_dim / (head_dim - 2));
  KVICK_TRY(rope.interleaved, file.get_bool("kvick.rope.interleaved", keys.interleaved));
  rope.frequency.resize(rope.dims / 2);
  for (size_t i = 0; i < rope.frequency.size(); ++i)
    rope.frequency[i] = std::pow(base, -2.0 * static_cast<double>(i) / rope.dims);
  if (!keys.scaled) return rope;
  KVICK_TRY_VOID(scale_rope(file, config, base, rope));
  KVICK_TRY_VOID(divide_by_factors(file, config, keys.sequence, rope));
  return rope;
}

}  // namespace kvick::model
