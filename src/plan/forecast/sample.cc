#include "plan/forecast/sample.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include "base/memory.h"
#include "io/file/builder.h"
#include "model/states/state_type.h"
#include "plan/forecast/attention_block.h"
#include "plan/forecast/growth_rates.h"

namespace kvick::plan {
namespace {

// Returns random bytes that are in no type NaN or subnormal numbers, which cost a hundred cycles
// each: the upper byte of a float, or of a block's scale, is between 0x30 and 0x3b.
std::vector<std::byte> random_bytes(size_t size, bool floats) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((random() & 0x3b) | (floats && i % 2 == 1 ? 0x30 : 0));
  return bytes;
}

size_t bytes_of(const io::Tensor& tensor) {
  const uint64_t inputs = tensor.shape.back();
  return tensor.elements() / inputs * kernels::dtype_bytes(tensor.dtype, inputs);
}

bool is_float(const io::Tensor& tensor) { return !kernels::pack_format(tensor.dtype).quantised; }

// Returns 7 for "blk.7.attn_q.weight"; none if the tensor belongs to no layer.
base::Result<std::optional<uint32_t>> layer_of(const io::Tensor& tensor) {
  if (!tensor.name.starts_with("blk.")) return std::optional<uint32_t>();
  uint32_t layer = 0;
  const char* const begin = tensor.name.data() + 4;
  const auto [end, error] = std::from_chars(begin, tensor.name.data() + tensor.name.size(), layer);
  if (error != std::errc() || end == begin || *end != '.')
    return base::fail("the tensor {} has no layer's number behind blk.", tensor.name);
  return std::optional(layer);
}

// Returns the numbers of a layer that determine the cost of its attention. It matters whether rows
// are shared, not with which layer. Widths of weights are left out: weights count by their bytes.
model::LayerConfig kind_of(model::LayerConfig layer) {
  if (!layer.owns_rows()) layer.rows_of = 0;
  layer.rope = model::LayerConfig::kNone;
  layer.ffn = 0;
  return layer;
}

// Returns for each layer the first layer of its kind.
std::vector<uint32_t> kinds_of(const model::Config& config) {
  std::vector<uint32_t> kinds;
  for (const model::LayerConfig& layer : config.layers) {
    uint32_t first = 0;
    while (kind_of(config.layers[first]) != kind_of(layer)) ++first;
    kinds.push_back(first);
  }
  return kinds;
}

// Reduces arrays with one element per layer to the sample's layers. Where layers differ by their
// number alone (the period of windows, the last ones that share rows), sets the sample's numbers.
void sample_arrays(const ModelSize& size, std::span<const uint32_t> layers,
                   io::Metadata& metadata) {
  const std::string prefix = size.config.arch + ".";
  const std::vector<model::LayerConfig>& all = size.config.layers;
  std::vector<uint64_t> windowed;
  uint64_t shared = 0;
  for (const uint32_t layer : layers) {
    windowed.push_back(all[layer].window != 0 ? 1 : 0);
    shared += all[layer].owns_rows() ? 0 : 1;
  }
  for (auto& [key, value] : metadata) {
    if (!key.starts_with(prefix)) continue;
    std::visit(
        [&](auto& data) {
          using Data = std::decay_t<decltype(data)>;
          if constexpr (requires { data.resize(1); } && !std::is_same_v<Data, std::string>) {
            if (data.size() != all.size()) return;
            for (size_t i = 0; i < layers.size(); ++i) data[i] = data[layers[i]];
            data.resize(layers.size());
          }
        },
        value.data);
  }
  if (!size.config.windows_alike())
    metadata[prefix + "attention.sliding_window_pattern"] = {windowed};
  if (metadata.contains(prefix + "attention.shared_kv_layers"))
    metadata[prefix + "attention.shared_kv_layers"] = {shared};
}

// Reduces a tensor that has a part for each layer to the sample's layers (Gemma 3n and 4).
void sample_parts(uint64_t all, uint64_t layers, io::Tensor& tensor) {
  if (tensor.shape.size() != 2) return;
  if (tensor.name == "per_layer_token_embd.weight")
    tensor.shape[1] = tensor.shape[1] / all * layers;
  if (tensor.name == "per_layer_model_proj.weight")
    tensor.shape[0] = tensor.shape[0] / all * layers;
}

// Checks that the random weights, of `bytes` bytes, fit into memory with the layers' packed copies.
base::Status<> check_room(const ModelSize& size, std::span<const uint32_t> layers, uint64_t bytes) {
  for (const io::Tensor& tensor : size.tensors) {
    KVICK_TRY(const std::optional<uint32_t> layer, layer_of(tensor));
    if (layer && std::binary_search(layers.begin(), layers.end(), *layer))
      bytes += bytes_of(tensor);
  }
  const uint64_t free = base::available_memory_bytes();
  if (bytes <= free) return base::Done{};
  return base::fail(
      "{} layers of {} and its largest tensor take {} bytes of memory to measure, but only {} are "
      "available",
      layers.size(), size.config.name, bytes, free);
}

}  // namespace

std::vector<uint32_t> sample_layers(const model::Config& config, uint32_t layers) {
  const uint32_t all = config.layer_count();
  const std::vector<uint32_t> kinds = kinds_of(config);
  std::vector<uint32_t> by_kind(all);
  std::iota(by_kind.begin(), by_kind.end(), 0U);
  std::stable_sort(by_kind.begin(), by_kind.end(),
                   [&](uint32_t a, uint32_t b) { return kinds[a] < kinds[b]; });
  std::set<uint32_t> chosen, kinds_in;
  for (uint64_t i = 0; i < layers; ++i) chosen.insert(by_kind[i * all / layers]);
  for (const uint32_t layer : chosen) kinds_in.insert(kinds[layer]);
  for (const uint32_t kind : kinds)
    if (kinds_in.insert(kind).second) chosen.insert(kind);
  return {chosen.begin(), chosen.end()};
}

base::Result<SampleModel> make_sample(const ModelSize& size, uint32_t count, base::ThreadPool& pool,
                                      const kernels::Table& kernels, model::Ranks* ranks) {
  if (size.config.both_ways())
    return base::fail("{} is an encoder, whose steps are not forecast", size.config.name);
  const std::vector<uint32_t> layers = sample_layers(size.config, count);
  io::ModelFileBuilder builder(io::Container::kGguf, "a sample of the shape");
  builder.metadata() = size.metadata;
  builder.metadata()[size.config.arch + ".block_count"] = {uint64_t{layers.size()}};
  sample_arrays(size, layers, builder.metadata());
  size_t most_floats = 0, most_blocks = 0;
  for (const io::Tensor& tensor : size.tensors) {
    size_t& most = is_float(tensor) ? most_floats : most_blocks;
    most = std::max(most, bytes_of(tensor));
  }
  KVICK_TRY_VOID(check_room(size, layers, most_floats + most_blocks));
  SampleModel sample = {.floats = random_bytes(most_floats, true),
                        .blocks = random_bytes(most_blocks, false),
                        .model = nullptr};
  for (const io::Tensor& tensor : size.tensors) {
    io::Tensor own = tensor;
    sample_parts(size.config.layer_count(), layers.size(), own);
    KVICK_TRY(const std::optional<uint32_t> layer, layer_of(tensor));
    if (layer) {
      const auto at = std::lower_bound(layers.begin(), layers.end(), *layer);
      if (at == layers.end() || *at != *layer) continue;
      own.name = "blk." + std::to_string(at - layers.begin()) +
                 tensor.name.substr(tensor.name.find('.', 4));
    }
    const std::vector<std::byte>& bytes = is_float(tensor) ? sample.floats : sample.blocks;
    own.data = std::span(bytes).first(bytes_of(tensor));
    KVICK_TRY_VOID(builder.add_tensor(std::move(own)));
  }
  KVICK_TRY(sample.model, model::Model::load(builder.finish(),
                                             {.kernels = &kernels, .pool = &pool, .ranks = ranks}));
  for (size_t i = 0; i < layers.size(); ++i)
    if (kind_of(sample.model->config().layers[i]) != kind_of(size.config.layers[layers[i]]))
      return base::fail("layer {} of {} is another one in a sample of {} layers", layers[i],
                        size.config.name, layers.size());
  return sample;
}

base::Result<Sample> Sample::make(SampleModel model, const kv::Spec& spec, kv::Setup setup,
                                  model::Workspace workspace, base::Clock clock) {
  model::set_layers(model.model->config(), setup);
  model::set_state_type(model.state_type, setup);
  set_any_ranges(setup);
  setup.limits.max_bytes = UINT64_MAX;
  KVICK_TRY(std::unique_ptr<kv::Store> store, kv::make_store(spec, setup));
  return Sample(std::move(model), std::move(store), std::move(workspace), clock);
}

double Sample::compiled_s() {
  const kernels::BucketAttention* const library = executor_.workspace().library;
  return library != nullptr ? library->compiled().seconds : 0;
}

void Sample::open(uint32_t sequences) {
  for (const kv::SeqId seq : seqs_) store_->close(seq);
  seqs_.clear();
  for (uint32_t i = 0; i < sequences; ++i) seqs_.push_back(store_->open({}).seq);
}

base::Status<kv::Shortage> Sample::fill(uint32_t tokens) {
  AttentionBlock block(model().config(), *store_, executor_.workspace(), clock_);
  return block.fill(seqs_, tokens);
}

base::Result<ForwardSeconds, kv::Shortage> Sample::forward(uint32_t tokens, bool logits,
                                                           model::Role role) {
  const std::vector<model::Token> ids(tokens, 1);
  std::vector<model::Slot> slots;
  std::vector<uint32_t> wanted;
  for (const kv::SeqId seq : seqs_) {
    slots.push_back({.seq = seq,
                     .past = store_->length(seq),
                     .tokens = ids,
                     .parents = {},
                     .role = role,
                     .reusable = false});
    if (logits) wanted.push_back(static_cast<uint32_t>(slots.size()) * tokens - 1);
  }
  ForwardSeconds seconds;
  const double start = clock_();
  KVICK_TRY(model::Executor::Step step, executor_.begin(*store_, {.slots = slots}));
  const double begun = clock_(), compiled = compiled_s();
  step.forward(wanted);
  seconds.begin = begun - start;
  seconds.forward = clock_() - begun - (compiled_s() - compiled);
  if (tokens == 1) step.commit(step.all());
  return seconds;
}

}  // namespace kvick::plan
