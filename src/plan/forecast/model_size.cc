#include "plan/forecast/model_size.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <map>

#include "kernels/formats/matrix.h"

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
// The most of a value; the most layers are as many as a model file may have.
constexpr uint32_t kMost = 1 << 24, kMostLayers = 1024;

base::Result<uint32_t> read_value(std::string_view key, std::string_view text) {
  const uint32_t most = key == "layers" ? kMostLayers : kMost;
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0 || value > most)
    return base::fail("--shape: {}={} is not a whole number from 1 to {}", key, text, most);
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
      if (values.at(known) != 0) return base::fail("--shape: {} is given twice", known);
      KVICK_TRY(values.numbers[known], read_value(known, text));
      return base::Done{};
    }
  return base::fail(
      "--shape: \"{}\" is none of layers, heads, kv_heads, head_dim, dim, ffn, vocab, "
      "context and type, as in layers=32,heads=32,kv_heads=8,head_dim=128",
      key);
}

// Adds the tensors and metadata of a Llama.
void describe_llama(const model::Config& config, DType type, ModelSize& size) {
  const auto number = [&](const char* key, uint64_t value) {
    size.metadata[std::string("llama.") + key] = {value};
  };
  size.metadata["general.architecture"] = {std::string("llama")};
  size.metadata["kvick.rope.interleaved"] = {true};
  const model::LayerConfig& layer = config.layers.front();
  number("block_count", config.layer_count());
  number("embedding_length", config.dim);
  number("feed_forward_length", layer.ffn);
  number("attention.head_count", layer.heads);
  number("attention.head_count_kv", layer.kv_heads);
  number("attention.key_length", layer.k_dim);
  number("attention.value_length", layer.k_dim);
  number("context_length", config.context);
  const auto add_tensor = [&](std::string name, DType of, std::vector<uint64_t> shape) {
    size.tensors.push_back({.name = std::move(name), .dtype = of, .shape = std::move(shape)});
  };
  for (uint32_t i = 0; i < config.layer_count(); ++i) {
    const std::string block = fmt::format("blk.{}.", i);
    add_tensor(block + "attn_q.weight", type, {layer.q_floats(), config.dim});
    add_tensor(block + "attn_k.weight", type, {layer.k_floats(), config.dim});
    add_tensor(block + "attn_v.weight", type, {layer.v_floats(), config.dim});
    add_tensor(block + "attn_output.weight", type, {config.dim, layer.out_floats()});
    for (const char* up : {"ffn_gate.weight", "ffn_up.weight"})
      add_tensor(block + up, type, {layer.ffn, config.dim});
    add_tensor(block + "ffn_down.weight", type, {config.dim, layer.ffn});
    for (const char* norm : {"attn_norm.weight", "ffn_norm.weight"})
      add_tensor(block + norm, DType::kF32, {config.dim});
  }
  add_tensor("token_embd.weight", type, {config.vocab, config.dim});
  add_tensor("output_norm.weight", DType::kF32, {config.dim});
}

// Whether a tensor has weights of experts: of all experts of a layer ("blk.0.ffn_up_exps.weight"),
// or of a single one ("blk.0.ffn_up.7.weight").
bool is_of_experts(const io::Tensor& tensor) {
  if (tensor.shape.size() == 3) return tensor.name.find("_exps.") != std::string::npos;
  const auto dots = std::count(tensor.name.begin(), tensor.name.end(), '.');
  return tensor.shape.size() == 2 && dots == 4 && tensor.name.find(".ffn_") != std::string::npos;
}

// Counts the weights of linear layers by type.
void count_weights(ModelSize& size) {
  const auto named = [&](std::string_view name) {
    return std::any_of(size.tensors.begin(), size.tensors.end(),
                       [&](const io::Tensor& tensor) { return tensor.name == name; });
  };
  const bool tied = !named("output.weight");
  for (const io::Tensor& tensor : size.tensors) {
    if (tensor.shape.size() != 2 && tensor.shape.size() != 3) continue;  // 3 dimensions: experts
    if (tensor.name == "output.weight" || (tied && tensor.name == "token_embd.weight"))
      add(size.output, tensor.dtype, tensor.elements());
    else if (tensor.name.starts_with("blk."))
      add(size.layers, tensor.dtype, tensor.elements());
    if (is_of_experts(tensor)) add(size.experts, tensor.dtype, tensor.elements());
  }
}

}  // namespace

uint64_t packed_bytes(const TypedWeights& weights) {
  // So many inputs that no block is padded, in any type.
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

uint64_t packed_expert_bytes(const ModelSize& size) {
  uint64_t bytes = 0;
  for (const TypedWeights& weights : size.experts) bytes += packed_bytes(weights);
  return bytes;
}

base::Result<ModelSize> size_of(const io::ModelFile& file) {
  ModelSize size;
  KVICK_TRY(size.config, model::read_config(file));
  size.metadata = file.metadata();
  for (const io::Tensor& tensor : file.tensors()) {
    size.tensors.push_back(tensor);
    size.tensors.back().data = {};
    size.tensors.back().source = nullptr;
  }
  count_weights(size);
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
  config.arch = "llama";
  config.name = "shape";
  const uint32_t heads = values.at("heads"), kv_heads = values.at("kv_heads");
  const uint32_t head_dim = values.at("head_dim");
  if (heads % kv_heads != 0)
    return base::fail("--shape: {} heads cannot share {} KV heads evenly", heads, kv_heads);
  if (uint64_t{heads} * head_dim > kMost)
    return base::fail("--shape: {} heads of {} values are wider than {}, which no model is", heads,
                      head_dim, kMost);
  config.dim = values.at("dim", heads * head_dim);
  model::LayerConfig layer = model::LayerConfig::attention(heads, kv_heads, head_dim);
  layer.ffn = values.at("ffn", (config.dim * 8 / 3 + 255) / 256 * 256);
  config.layers.assign(values.at("layers"), layer);
  config.vocab = values.at("vocab", 32000);
  config.context = values.at("context", 131072);
  const uint32_t block = std::max(kernels::kGroup, kernels::dtype_info(values.type).block);
  for (const uint32_t inputs : {config.dim, layer.q_floats(), layer.ffn})
    if (inputs % block != 0)
      return base::fail(
          "--shape: {} keeps {} weights together, of which dim, heads * head_dim and ffn must be "
          "multiples; {} is none",
          kernels::dtype_info(values.type).name, block, inputs);
  describe_llama(config, values.type, size);
  count_weights(size);
  return size;
}

}  // namespace kvick::plan
