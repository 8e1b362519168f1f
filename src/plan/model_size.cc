#include "plan/model_size.h"

#include <charconv>
#include <map>

#include "kernels/matrix.h"

namespace kvick::plan {
namespace {

using kernels::DType;

void add(std::vector<TypedWeights>& all, DType type, uint64_t weights) {
  for (TypedWeights& one : all)
    if (one.type == type) {
      one.weights += weights;
      return;
    }
  all.push_back({type, weights});
}

constexpr std::string_view kKeys[] = {"layers", "heads", "kv_heads", "head_dim",
                                      "dim",    "ffn",   "vocab",    "context"};
constexpr size_t kRequired = 4;  // the first ones
constexpr uint32_t kMost = 1 << 24;

base::Result<uint32_t> read_value(std::string_view key, std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0 || value > kMost)
    return base::fail("--shape: {}={} is not a whole number from 1 to {}", key, text, kMost);
  return value;
}

struct Values {
  std::map<std::string_view, uint32_t> numbers;
  DType type = DType::kQ8_0;

  uint32_t at(std::string_view key, uint32_t fallback = 0) const {
    const auto found = numbers.find(key);
    return found == numbers.end() ? fallback : found->second;
  }
};

base::Status<> read_field(std::string_view field, Values& values) {
  const size_t equals = field.find('=');
  const std::string_view key = field.substr(0, equals);
  const std::string_view text = equals == field.npos ? "" : field.substr(equals + 1);
  if (key == "type") {
    const auto type = kernels::dtype_from_name(text);
    if (!type || static_cast<int>(*type) >= kernels::kWeightTypes)
      return base::fail("--shape: type={} is no type of weights; Q8_0 and Q4_K are two", text);
    values.type = *type;
    return base::Done{};
  }
  for (const std::string_view known : kKeys)
    if (key == known) {
      KVICK_TRY(values.numbers[known], read_value(known, text));
      return base::Done{};
    }
  return base::fail(
      "--shape: \"{}\" is none of layers, heads, kv_heads, head_dim, dim, ffn, vocab, "
      "context and type, as in layers=32,heads=32,kv_heads=8,head_dim=128",
      key);
}

}  // namespace

uint64_t packed_bytes(const TypedWeights& weights) {
  // Of a matrix large enough that padding to whole blocks does not show.
  constexpr uint32_t kInputs = 4096;
  static_assert(kInputs % 256 == 0);
  const kernels::Matrix one = kernels::make_matrix(weights.type, kernels::kPanel, kInputs);
  const double each = static_cast<double>(one.panel_bytes) / (kernels::kPanel * kInputs);
  return static_cast<uint64_t>(each * static_cast<double>(weights.weights));
}

uint64_t packed_bytes(const ModelSize& size) {
  uint64_t bytes = 0;
  for (const auto* part : {&size.layers, &size.output})
    for (const TypedWeights& weights : *part) bytes += packed_bytes(weights);
  return bytes;
}

base::Result<ModelSize> size_of(const io::ModelFile& file) {
  ModelSize size;
  KVICK_TRY(size.config, model::read_config(file));
  const bool tied = file.find("output.weight") == nullptr;
  for (const io::Tensor& tensor : file.tensors()) {
    if (tensor.shape.size() != 2) continue;
    if (tensor.name == "output.weight" || (tied && tensor.name == "token_embd.weight"))
      add(size.output, tensor.dtype, tensor.elements());
    else if (tensor.name.starts_with("blk."))
      add(size.layers, tensor.dtype, tensor.elements());
  }
  return size;
}

base::Result<ModelSize> parse_shape(std::string_view text) {
  Values values;
  while (true) {
    const size_t comma = text.find(',');
    KVICK_TRY_VOID(read_field(text.substr(0, comma), values));
    if (comma == text.npos) break;
    text.remove_prefix(comma + 1);
  }
  for (size_t i = 0; i < kRequired; ++i)
    if (values.at(kKeys[i]) == 0)
      return base::fail("--shape: {} is missing; layers, heads, kv_heads and head_dim are needed",
                        kKeys[i]);
  ModelSize size;
  model::Config& config = size.config;
  config.name = "shape";
  config.layers = values.at("layers");
  config.heads = values.at("heads");
  config.kv_heads = values.at("kv_heads");
  config.head_dim = values.at("head_dim");
  if (config.heads % config.kv_heads != 0)
    return base::fail("--shape: {} heads cannot share {} KV heads evenly", config.heads,
                      config.kv_heads);
  config.dim = values.at("dim", config.heads * config.head_dim);
  config.ffn = values.at("ffn", (config.dim * 8 / 3 + 255) / 256 * 256);
  config.vocab = values.at("vocab", 32000);
  config.context = values.at("context", 131072);
  const uint64_t attention = 2ULL * config.dim * (uint64_t{config.q_dim()} + config.kv_dim());
  add(size.layers, values.type, config.layers * (attention + 3ULL * config.dim * config.ffn));
  add(size.output, values.type, uint64_t{config.vocab} * config.dim);
  return size;
}

}  // namespace kvick::plan
