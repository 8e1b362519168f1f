#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/families/read_config.h"

namespace kvick::model {
namespace {

using base::fail;
using base::Result;

// Wavelengths beyond what the model was trained on are stretched by `factor`, short ones kept,
// those between blended. Llama 3.1's rule (transformers modeling_rope_utils, rope_type "llama3").
double llama3_frequency(double frequency, double factor, double low, double high, double original) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < original / high) return frequency;
  if (wavelength > original / low) return frequency / factor;
  const double keep = (original / wavelength - low) / (high - low);
  return (1 - keep) * frequency / factor + keep * frequency;
}

// YaRN (Peng et al. 2023, section 3.2). The betas are turns over the original context: pairs that
// turn more often than beta_fast are kept, less often than beta_slow stretched, those between
// blended.
struct Yarn {
  double factor, original, attention_factor, beta_fast, beta_slow;
};

void apply_yarn(const Yarn& yarn, double base, Rope& rope) {
  const double dims = rope.dims;
  const auto turning_dim = [&](double turns) {
    return dims * std::log(yarn.original / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  const double low = std::max(0.0, std::floor(turning_dim(yarn.beta_fast)));
  const double high = std::min(dims - 1, std::ceil(turning_dim(yarn.beta_slow)));
  for (size_t i = 0; i < rope.frequency.size(); ++i) {
    const double ramp = (static_cast<double>(i) - low) / std::max(0.001, high - low);
    const double keep = 1 - std::clamp(ramp, 0.0, 1.0);
    rope.frequency[i] *= keep + (1 - keep) / yarn.factor;
  }
  rope.magnitude = static_cast<float>(yarn.attention_factor * (1 + 0.1 * std::log(yarn.factor)));
}

base::Status<> scale_rope(const io::ModelFile& file, const Config& config, double base,
                          Rope& rope) {
  const std::string prefix = config.arch + ".rope.scaling.";
  KVICK_TRY(const std::string type, file.get_string(prefix + "type", std::string("none")));
  if (type == "none" || type.empty()) return base::Done{};
  KVICK_TRY(const double factor, positive_number(file, prefix + "factor", 1));
  KVICK_TRY(const double original,
            positive_number(file, prefix + "original_context_length", config.context));
  if (type == "linear") {
    for (double& frequency : rope.frequency) frequency /= factor;
  } else if (type == "yarn") {
    KVICK_TRY(const double attention, positive_number(file, prefix + "attn_factor", 1));
    KVICK_TRY(const double fast, positive_number(file, prefix + "yarn_beta_fast", 32));
    KVICK_TRY(const double slow, positive_number(file, prefix + "yarn_beta_slow", 1));
    apply_yarn({factor, original, attention, fast, slow}, base, rope);
  } else if (type == "llama3") {
    KVICK_TRY(const double low, positive_number(file, prefix + "low_freq_factor", 1));
    KVICK_TRY(const double high, positive_number(file, prefix + "high_freq_factor", 4));
    if (high <= low)
      return fail("{}: {}high_freq_factor is {}, not above low_freq_factor {}", file.path(), prefix,
                  high, low);
    for (double& frequency : rope.frequency)
      frequency = llama3_frequency(frequency, factor, low, high, original);
  } else {
    return fail("{}: {}type is \"{}\"; kvick knows none, linear, yarn and llama3", file.path(),
                prefix, type);
  }
  return base::Done{};
}

// GGUF carries Llama 3's rule as one divisor per pair.
base::Status<> divide_by_factors(const io::ModelFile& file, Rope& rope) {
  const io::Tensor* factors = file.find("rope_freqs.weight");
  if (factors == nullptr) return base::Done{};
  if (factors->elements() != rope.frequency.size() || factors->dtype != kernels::DType::kF32)
    return fail("{}: rope_freqs.weight must be {} F32 values, one per rotary pair", file.path(),
                rope.frequency.size());
  std::vector<float> divisors(rope.frequency.size());
  kernels::to_f32(factors->dtype, factors->data.data(), divisors.size(), divisors.data());
  for (size_t i = 0; i < divisors.size(); ++i) {
    if (!(divisors[i] > 0))
      return fail("{}: rope_freqs.weight[{}] is {}, but must be positive", file.path(), i,
                  divisors[i]);
    rope.frequency[i] /= divisors[i];
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
  KVICK_TRY(const double all, positive_number(file, prefix + "freq_base", 10000));
  KVICK_TRY(const double base, positive_number(file, named("freq_base"), all));
  KVICK_TRY(rope.interleaved, file.get_bool("kvick.rope.interleaved", config.arch == "llama"));
  rope.frequency.resize(rope.dims / 2);
  for (size_t i = 0; i < rope.frequency.size(); ++i)
    rope.frequency[i] = std::pow(base, -2.0 * static_cast<double>(i) / rope.dims);
  if (!keys.scaled) return rope;
  KVICK_TRY_VOID(scale_rope(file, config, base, rope));
  KVICK_TRY_VOID(divide_by_factors(file, rope));
  return rope;
}

}  // namespace kvick::model
