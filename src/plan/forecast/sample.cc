#include "plan/forecast/sample.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <random>

#include "io/file/builder.h"
#include "plan/forecast/attention_block.h"

namespace kvick::plan {
namespace {

// Neither NaN nor subnormal numbers, which cost a hundred cycles each, in any type: the upper byte
// of a float, or of a block's scale, is between 0x30 and 0x3b.
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

// "blk.7.attn_q.weight": 7; none for those of no layer.
base::Result<std::optional<uint32_t>> layer_of(const io::Tensor& tensor) {
  if (!tensor.name.starts_with("blk.")) return std::optional<uint32_t>();
  uint32_t layer = 0;
  const char* const begin = tensor.name.data() + 4;
  const auto [end, error] = std::from_chars(begin, tensor.name.data() + tensor.name.size(), layer);
  if (error != std::errc() || end == begin || *end != '.')
    return base::fail("the tensor {} has no layer's number behind blk.", tensor.name);
  return std::optional(layer);
}

// Layer i of a sample is layer i * all / layers of the shape. Of arrays with one element per layer,
// those elements.
void sample_arrays(const ModelSize& size, uint32_t layers, io::Metadata& metadata) {
  const uint32_t all = size.config.layer_count();
  for (auto& [key, value] : metadata) {
    if (!key.starts_with(size.config.arch + ".")) continue;
    std::visit(
        [&](auto& data) {
          using Data = std::decay_t<decltype(data)>;
          if constexpr (requires { data.resize(1); } && !std::is_same_v<Data, std::string>) {
            if (data.size() != all) return;
            for (uint64_t i = 0; i < layers; ++i) data[i] = data[i * all / layers];
            data.resize(layers);
          }
        },
        value.data);
  }
}

}  // namespace

base::Result<SampleModel> make_sample(const ModelSize& size, uint32_t layers,
                                      base::ThreadPool& pool, const kernels::Table& kernels) {
  io::ModelFileBuilder builder(io::Container::kGguf, "a sample of the shape");
  builder.metadata() = size.metadata;
  builder.metadata()[size.config.arch + ".block_count"] = {uint64_t{layers}};
  sample_arrays(size, layers, builder.metadata());
  const uint32_t all = size.config.layer_count();
  size_t most_floats = 0, most_blocks = 0;
  for (const io::Tensor& tensor : size.tensors) {
    size_t& most = is_float(tensor) ? most_floats : most_blocks;
    most = std::max(most, bytes_of(tensor));
  }
  SampleModel sample = {.floats = random_bytes(most_floats, true),
                        .blocks = random_bytes(most_blocks, false),
                        .model = nullptr};
  for (const io::Tensor& tensor : size.tensors) {
    io::Tensor own = tensor;
    KVICK_TRY(const std::optional<uint32_t> layer, layer_of(tensor));
    if (layer) {
      const uint64_t i = (uint64_t{*layer} * layers + all - 1) / all;
      if (i >= layers || i * all / layers != *layer) continue;
      own.name = "blk." + std::to_string(i) + tensor.name.substr(tensor.name.find('.', 4));
    }
    const std::vector<std::byte>& bytes = is_float(tensor) ? sample.floats : sample.blocks;
    own.data = std::span(bytes).first(bytes_of(tensor));
    KVICK_TRY_VOID(builder.add_tensor(std::move(own)));
  }
  KVICK_TRY(sample.model,
            model::Model::load(builder.finish(), {.kernels = &kernels, .pool = &pool}));
  return sample;
}

base::Result<Sample> Sample::make(SampleModel model, const kv::Spec& spec, kv::Setup setup,
                                  model::Workspace workspace, base::Clock clock) {
  setup.shape.layers = model.model->config().layer_count();
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

base::Result<ForwardSeconds, kv::Shortage> Sample::forward(uint32_t tokens, bool logits) {
  const std::vector<model::Token> ids(tokens, 1);
  std::vector<model::Slot> slots;
  std::vector<uint32_t> wanted;
  for (const kv::SeqId seq : seqs_) {
    slots.push_back(
        {.seq = seq, .past = store_->length(seq), .tokens = ids, .parents = {}, .reusable = false});
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
