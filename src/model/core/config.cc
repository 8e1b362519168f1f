#include "model/core/config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvick::model {
namespace {

using base::fail;
using base::Result;

// Far beyond any model that exists, small enough that products of three of them fit 64 bits.
constexpr uint64_t kMostLayers = 1024, kMostWidth = 1 << 20, kMostVocab = 1 << 24,
                   kMostContext = 1 << 27;

Result<uint32_t> bounded(const io::ModelFile& file, const std::string& key, uint64_t value,
                         uint64_t most) {
  if (value == 0 || value > most)
    return fail("{}: {} is {}, outside 1 to {}", file.path(), key, value, most);
  return static_cast<uint32_t>(value);
}

// llama.cpp's per-layer arrays exist for models with layers of different shape; those are not here.
Result<uint32_t> number(const io::ModelFile& file, const std::string& key, uint64_t most) {
  KVICK_TRY(const uint64_t value, file.get_uint(key));
  return bounded(file, key, value, most);
}

Result<uint32_t> number(const io::ModelFile& file, const std::string& key, uint64_t most,
                        uint64_t fallback) {
  KVICK_TRY(const uint64_t value, file.get_uint(key, fallback));
  return bounded(file, key, value, most);
}

Result<double> positive(const io::ModelFile& file, const std::string& key, double fallback) {
  KVICK_TRY(const double value, file.get_float(key, fallback));
  if (!(value > 0) || !std::isfinite(value))
    return fail("{}: {} is {}, but must be a positive number", file.path(), key, value);
  return value;
}

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
  KVICK_TRY(const double factor, positive(file, prefix + "factor", 1));
  KVICK_TRY(const double original,
            positive(file, prefix + "original_context_length", config.context));
  if (type == "linear") {
    for (double& frequency : rope.frequency) frequency /= factor;
  } else if (type == "yarn") {
    KVICK_TRY(const double attention, positive(file, prefix + "attn_factor", 1));
    KVICK_TRY(const double fast, positive(file, prefix + "yarn_beta_fast", 32));
    KVICK_TRY(const double slow, positive(file, prefix + "yarn_beta_slow", 1));
    apply_yarn({factor, original, attention, fast, slow}, base, rope);
  } else if (type == "llama3") {
    KVICK_TRY(const double low, positive(file, prefix + "low_freq_factor", 1));
    KVICK_TRY(const double high, positive(file, prefix + "high_freq_factor", 4));
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

Result<Config> read_config(const io::ModelFile& file) {
  Config config;
  KVICK_TRY(config.arch, file.get_string("general.architecture"));
  KVICK_TRY(config.name, file.get_string("general.name", config.arch));
  const std::string prefix = config.arch + ".";
  KVICK_TRY(config.layers, number(file, prefix + "block_count", kMostLayers));
  KVICK_TRY(config.dim, number(file, prefix + "embedding_length", kMostWidth));
  KVICK_TRY(config.ffn, number(file, prefix + "feed_forward_length", kMostWidth));
  KVICK_TRY(config.context, number(file, prefix + "context_length", kMostContext));
  KVICK_TRY(config.heads, number(file, prefix + "attention.head_count", kMostWidth));
  KVICK_TRY(config.kv_heads,
            number(file, prefix + "attention.head_count_kv", kMostWidth, config.heads));
  if (config.heads % config.kv_heads != 0)
    return fail("{}: {}attention.head_count {} is not a multiple of head_count_kv {}", file.path(),
                prefix, config.heads, config.kv_heads);
  const std::string head_key = prefix + "attention.key_length";
  KVICK_TRY(const uint64_t head_dim, file.get_uint(head_key, config.dim / config.heads));
  KVICK_TRY(const uint64_t value_dim, file.get_uint(prefix + "attention.value_length", head_dim));
  if (head_dim == 0 || head_dim % 8 != 0 || head_dim > 256 || value_dim != head_dim)
    return fail(
        "{}: heads of {} key and {} value elements; kvick takes equal ones, a multiple of 8 "
        "up to 256",
        file.path(), head_dim, value_dim);
  config.head_dim = static_cast<uint32_t>(head_dim);
  KVICK_TRY(const uint64_t window, file.get_uint(prefix + "attention.sliding_window", 0));
  // Within the window a sliding-window model is an ordinary one, so that is the context it gets
  // here.
  if (window > 0 && window < config.context) config.context = static_cast<uint32_t>(window);

  const io::Tensor* embedding = file.find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2)
    return fail("{}: tensor token_embd.weight is missing or not a matrix", file.path());
  KVICK_TRY(config.vocab, bounded(file, "the first dimension of token_embd.weight",
                                  embedding->shape[0], kMostVocab));
  return config;
}

Result<Rope> read_rope(const io::ModelFile& file, const Config& config) {
  const std::string prefix = config.arch + ".rope.";
  Rope rope;
  KVICK_TRY(rope.dims, number(file, prefix + "dimension_count", 256, config.head_dim));
  if (rope.dims % 2 != 0 || rope.dims > config.head_dim)
    return fail("{}: {}dimension_count is {}, but must be even and at most the head's {}",
                file.path(), prefix, rope.dims, config.head_dim);
  KVICK_TRY(const double base, positive(file, prefix + "freq_base", 10000));
  KVICK_TRY(rope.interleaved, file.get_bool("kvick.rope.interleaved", config.arch == "llama"));
  rope.frequency.resize(rope.dims / 2);
  for (size_t i = 0; i < rope.frequency.size(); ++i)
    rope.frequency[i] = std::pow(base, -2.0 * static_cast<double>(i) / rope.dims);
  KVICK_TRY_VOID(scale_rope(file, config, base, rope));
  KVICK_TRY_VOID(divide_by_factors(file, rope));
  return rope;
}

Result<float> read_norm_eps(const io::ModelFile& file, const Config& config,
                            const std::string& key) {
  KVICK_TRY(const double eps, positive(file, config.arch + "." + key, 1e-5));
  return static_cast<float>(eps);
}

}  // namespace kvick::model
