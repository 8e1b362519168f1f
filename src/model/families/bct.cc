// Bounded-Cache Transformer (Yi et al. 2024): layers of the llama family whose attention reads a
// memory of a fixed number of slots in place of all tokens before, without rotary embedding. What a
// file holds: docs/reference/bct-format.md; what is computed: docs/adr/0008-a-memory-of-slots.md.

#include <cmath>

#include "kv/registry/registry.h"
#include "model/blocks/layers.h"
#include "model/families/architectures.h"

namespace kvick::model {
namespace {

class Bct final : public Model {
 public:
  Bct(Config config, io::ModelFile file) : Model(std::move(config)), file_(std::move(file)) {}

  base::Status<> read(const LoadOptions& options) {
    WeightReader reader(file_, options, memory_);
    KVICK_TRY(slots_.slots, read_slots());
    KVICK_TRY(gated_, read_gated());
    KVICK_TRY(normed_, read_normed());
    slots_.scale = 1 / std::sqrt(static_cast<float>(config_.head_dim));
    has_initial_ = reader.has("blk.0.memory_init.weight");
    if (reader.has("blk.0.memory_before.weight")) slots_.carried = config_.kv_dim();
    for (uint32_t i = 0; i < config_.layers; ++i) {
      KVICK_TRY(Layer layer, read_layer(reader, fmt::format("blk.{}.", i)));
      layers_.push_back(std::move(layer));
    }
    KVICK_TRY(norm_, read_rms_norm(reader, "output_norm", config_.dim));
    KVICK_TRY_VOID(reader.embedding(config_, embedding_, output_));
    slots_.keys = keys_;
    ones_.assign(config_.head_dim, 1);
    slots_.initial = initial_;
    weights_ = reader.weights();
    return base::Done{};
  }

  const kv::Memory* kv_memory() const override { return &slots_; }

  void forward(const Batch& batch, kv::Step& step, Workspace& workspace,
               std::span<const uint32_t> wanted, float* logits) const override {
    check_batch(config_, batch);
    BatchAttention attend(config_, batch, step, workspace);
    const Pass pass = {.config = config_,
                       .batch = batch,
                       .step = step,
                       .workspace = workspace,
                       .tokens = batch.tokens(),
                       .runs = token_runs(batch, workspace.kernels),
                       .hidden = embed(config_, embedding_, batch, workspace),
                       .rotation = nullptr,
                       .attend = attend};
    const float* rest = nullptr;
    for (uint32_t i = 0; i < config_.layers; ++i) {
      if (batch.skips(i)) continue;
      rest = attention(pass, rest, i);
      rest = gated_ffn(pass, rest, layers_[i].ffn);
    }
    logits_of(pass, rest, norm_, output_, wanted, logits);
  }

 private:
  struct Layer {
    Norm norm;
    Linear q, write_q, write_v, out;
    Linear before;  // what is added to the next token's write query; no rows: nothing
    Linear step;    // no rows: each token's step is 1
    Linear gate;    // no rows: tokens leave the memory as it is
    GatedFfn ffn;
  };

  base::Result<uint32_t> read_slots() const {
    constexpr uint64_t kMostSlots = 1 << 20, kMostRows = UINT32_MAX / 2;
    KVICK_TRY(const uint64_t slots, file_.get_uint("bct.memory.slots"));
    if (slots == 0 || slots > kMostSlots || slots * config_.kv_heads > kMostRows)
      return base::fail("{}: bct.memory.slots is {}, outside 1 to {}", file_.path(), slots,
                        std::min(kMostSlots, kMostRows / config_.kv_heads));
    KVICK_TRY(const uint64_t rotated, file_.get_uint("bct.rope.dimension_count", 0));
    if (rotated != 0)
      return base::fail("{}: bct.rope.dimension_count is {}, but bct has no rotary embedding",
                        file_.path(), rotated);
    return static_cast<uint32_t>(slots);
  }

  // Whether tokens take from the memory what was there.
  base::Result<bool> read_gated() const {
    KVICK_TRY(const std::string update, file_.get_string("bct.memory.update", "step"));
    if (update != "plain" && update != "step" && update != "gated")
      return base::fail("{}: bct.memory.update is {}; kvick has plain, step and gated",
                        file_.path(), update);
    return update == "gated";
  }

  // Whether what a head reads is brought to one size.
  base::Result<bool> read_normed() const {
    KVICK_TRY(const std::string read, file_.get_string("bct.memory.read", "plain"));
    if (read != "plain" && read != "normed")
      return base::fail("{}: bct.memory.read is {}; kvick has plain and normed", file_.path(),
                        read);
    return read == "normed";
  }

  base::Result<Layer> read_layer(WeightReader& reader, const std::string& prefix) {
    using enum WeightReader::Bias;
    const uint32_t dim = config_.dim, q_dim = config_.q_dim(), kv_dim = config_.kv_dim();
    Layer layer;
    KVICK_TRY(layer.norm, read_rms_norm(reader, prefix + "attn_norm", dim));
    KVICK_TRY(layer.q, reader.linear(prefix + "attn_q", q_dim, dim, kOptional));
    KVICK_TRY(layer.write_q, reader.linear(prefix + "memory_wq", kv_dim, dim, kOptional));
    KVICK_TRY(layer.write_v, reader.linear(prefix + "memory_wv", kv_dim, dim, kOptional));
    KVICK_TRY(layer.out, reader.linear(prefix + "attn_output", dim, q_dim, kOptional));
    if (slots_.carried != 0) {
      KVICK_TRY(layer.before, reader.linear(prefix + "memory_before", kv_dim, dim, kNone));
    }
    if (reader.has(prefix + "memory_step.weight")) {
      KVICK_TRY(layer.step,
                reader.linear(prefix + "memory_step", config_.kv_heads, dim, kOptional));
    }
    if (gated_) {
      KVICK_TRY(layer.gate,
                reader.linear(prefix + "memory_gate", config_.kv_heads, dim, kOptional));
    } else if (reader.has(prefix + "memory_gate.weight")) {
      return base::fail(
          "{}: tensor {}memory_gate.weight is there, but bct.memory.update does not say gated",
          file_.path(), prefix);
    }
    KVICK_TRY_VOID(read_memory(reader, prefix));
    KVICK_TRY(layer.ffn, read_gated_ffn(reader, config_, prefix));
    return layer;
  }

  base::Status<> read_memory(WeightReader& reader, const std::string& prefix) {
    const uint32_t heads = config_.kv_heads, dim = config_.head_dim;
    KVICK_TRY(std::vector<kernels::Matrix> keys,
              reader.keys(prefix + "memory_keys", heads, slots_.slots, dim));
    std::move(keys.begin(), keys.end(), std::back_inserter(keys_));
    // In all layers or in none: the first one decides, and a missing tensor is an error like
    // others.
    if (!has_initial_) return base::Done{};
    KVICK_TRY(const std::vector<float> values,
              reader.rows(prefix + "memory_init", heads * slots_.slots, dim));
    initial_.insert(initial_.end(), values.begin(), values.end());
    return base::Done{};
  }

  static float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

  // v times the step size of its token and KV head, sigmoid(step).
  void scale_writes(const Pass& pass, const float* step, float* v) const {
    pass.workspace.for_tokens(pass.tokens, config_.kv_dim(), [&](uint32_t t) {
      for (uint32_t h = 0; h < config_.kv_heads; ++h) {
        const float size = sigmoid(step[size_t{t} * config_.kv_heads + h]);
        float* head = v + (size_t{t} * config_.kv_heads + h) * config_.head_dim;
        for (uint32_t d = 0; d < config_.head_dim; ++d) head[d] *= size;
      }
    });
  }

  // Adds to the write query of each token what the one before it brings: its parent in the step, or
  // the last one of the sequence.
  void add_before(const Pass& pass, uint32_t layer, const float* before, float* k) const {
    const uint32_t floats = config_.kv_dim();
    uint32_t first = 0;
    for (uint32_t s = 0; s < pass.batch.slots.size(); ++s) {
      const Slot& slot = pass.batch.slots[s];
      for (uint32_t t = 0; t < slot.tokens.size(); ++t) {
        const int32_t parent = slot.parents.empty() ? static_cast<int32_t>(t) - 1 : slot.parents[t];
        const float* from = parent < 0 ? pass.step.carried(layer, s)
                                       : before + (first + static_cast<size_t>(parent)) * floats;
        pass.workspace.kernels.add(k + (size_t{first} + t) * floats, from, floats);
      }
      first += static_cast<uint32_t>(slot.tokens.size());
    }
    pass.step.carry(layer, before);
  }

  // RMSNorm of M times what each head has read: of what it has read, with an epsilon for its size.
  void norm_heads(const Pass& pass, float* read) const {
    const auto slots = static_cast<float>(slots_.slots);
    const float eps = config_.norm_eps / (slots * slots);
    for (uint32_t h = 0; h < config_.heads; ++h) {
      float* head = read + size_t{h} * config_.head_dim;
      pass.workspace.kernels.rms_norm(head, ones_.data(), config_.head_dim, eps, head);
    }
  }

  const float* attention(const Pass& pass, const float* rest, uint32_t i) const {
    const Layer& layer = layers_[i];
    Workspace& workspace = pass.workspace;
    const size_t q_floats = size_t{pass.tokens} * config_.q_dim();
    const size_t kv_floats = size_t{pass.tokens} * config_.kv_dim();
    const size_t heads = size_t{pass.tokens} * config_.kv_heads;
    float* q = workspace.floats(Workspace::kQkv, q_floats + 3 * kv_floats + 2 * heads);
    float *k = q + q_floats, *v = k + kv_floats, *before = v + kv_floats;
    float *step = before + kv_floats, *gate = step + heads;
    project_normed(pass, rest, layer.norm,
                   {{&layer.q, q},
                    {&layer.write_q, k},
                    {&layer.write_v, v},
                    {&layer.before, before},
                    {&layer.step, step},
                    {&layer.gate, gate}});
    if (slots_.carried != 0) add_before(pass, i, before, k);
    if (layer.step.w.rows != 0) scale_writes(pass, step, v);
    if (gated_) {
      for (size_t j = 0; j < heads; ++j) gate[j] = sigmoid(gate[j]);
      pass.step.gates(i, gate);
    }
    pass.step.write(i, k, v);
    float* attended = workspace.floats(Workspace::kAttention, q_floats);
    pass.attend.read(i, q, attended);
    return project_back(
        pass, attended,
        [&](uint32_t t) {
          if (normed_) norm_heads(pass, attended + size_t{t} * config_.q_dim());
        },
        layer.out);
  }

  io::ModelFile file_;  // holds the embedding's rows when they are not tied
  std::vector<Layer> layers_;
  Norm norm_;
  Embedding embedding_;
  Linear output_;
  kv::Memory slots_;
  bool gated_ = false, normed_ = false;
  bool has_initial_ = false;
  std::vector<kernels::Matrix> keys_;  // [layers][kv_heads]
  std::vector<float> ones_;            // [head_dim], weights of a norm that has none
  std::vector<float> initial_;         // [layers][kv_heads][slots][head_dim], or empty
};

}  // namespace

base::Result<std::unique_ptr<Model>> load_bct(io::ModelFile file, Config config,
                                              const LoadOptions& options) {
  KVICK_TRY(config.norm_eps, read_norm_eps(file, config, "attention.layer_norm_rms_epsilon"));
  auto model = std::make_unique<Bct>(std::move(config), std::move(file));
  KVICK_TRY_VOID(model->read(options));
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace kvick::model
