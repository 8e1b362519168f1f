#include "model/blocks/slot_attention.h"

#include <cmath>

namespace kvick::model {
namespace {

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

base::Status<> SlotAttention::read_writes(const BlockReader& reader) {
  using enum WeightReader::Bias;
  const LayerConfig& layer = reader.numbers();
  const uint32_t dim = reader.config.dim, kv_floats = layer.k_floats();
  KVICK_TRY(q_, reader.linear("attn_q", layer.q_floats(), dim, kOptional));
  KVICK_TRY(write_q_, reader.linear("memory_wq", kv_floats, dim, kOptional));
  KVICK_TRY(write_v_, reader.linear("memory_wv", kv_floats, dim, kOptional));
  KVICK_TRY(out_, reader.linear("attn_output", dim, layer.out_floats(), kOptional));
  if (memory_->facts.carried != 0) {
    KVICK_TRY(before_, reader.linear("memory_before", kv_floats, dim, kNone));
  }
  if (reader.has("memory_step.weight")) {
    KVICK_TRY(step_, reader.linear("memory_step", layer.kv_heads, dim, kOptional));
  }
  if (memory_->gated) {
    KVICK_TRY(gate_, reader.linear("memory_gate", layer.kv_heads, dim, kOptional));
  } else if (reader.has("memory_gate.weight")) {
    return base::fail("{}: tensor {} is there, but bct.memory.update does not say gated",
                      reader.weights.path(), reader.name("memory_gate.weight"));
  }
  return base::Done{};
}

base::Status<> SlotAttention::read_memory(const BlockReader& reader, SlotMemory& memory) {
  const LayerConfig& layer = reader.numbers();
  const uint32_t slots = memory.facts.slots;
  KVICK_TRY(std::vector<kernels::Matrix> keys,
            reader.weights.keys(reader.name("memory_keys"), layer.kv_heads, slots, layer.k_dim));
  std::move(keys.begin(), keys.end(), std::back_inserter(memory.keys));
  memory.facts.keys = memory.keys;
  // The model's file has initial values for all layers or for none: the first layer decides, and a
  // missing tensor is then an ordinary error.
  if (!memory.initial) return base::Done{};
  KVICK_TRY(const std::vector<float> values,
            reader.weights.rows(reader.name("memory_init"), layer.kv_heads * slots, layer.v_dim));
  memory.values.insert(memory.values.end(), values.begin(), values.end());
  memory.facts.initial = memory.values;
  return base::Done{};
}

base::Result<std::unique_ptr<Block>> SlotAttention::read(const BlockReader& reader,
                                                         SlotMemory& memory) {
  auto block = std::make_unique<SlotAttention>();
  block->memory_ = &memory;
  block->layer_ = reader.layer;
  block->ones_.assign(reader.numbers().v_dim, 1);
  KVICK_TRY(block->norm_, reader.norm("attn_norm"));
  KVICK_TRY_VOID(block->read_writes(reader));
  KVICK_TRY_VOID(read_memory(reader, memory));
  return std::unique_ptr<Block>(std::move(block));
}

// Multiplies v by the step size of its token and KV head, sigmoid(step).
void SlotAttention::scale_writes(const Pass& pass, const float* step, float* v) const {
  const LayerConfig& layer = numbers(pass);
  pass.workspace.for_tokens(pass.tokens, layer.v_floats(), [&](uint32_t t) {
    for (uint32_t h = 0; h < layer.kv_heads; ++h) {
      const float size = sigmoid(step[size_t{t} * layer.kv_heads + h]);
      float* head = v + (size_t{t} * layer.kv_heads + h) * layer.v_dim;
      for (uint32_t d = 0; d < layer.v_dim; ++d) head[d] *= size;
    }
  });
}

// Adds to each token's write query what the token before it contributes. That token is its parent
// in the step, or the last committed token of the sequence.
void SlotAttention::add_before(const Pass& pass, const float* before, float* k) const {
  const uint32_t floats = numbers(pass).k_floats();
  uint32_t first = 0;
  for (uint32_t s = 0; s < pass.batch.slots.size(); ++s) {
    const Slot& slot = pass.batch.slots[s];
    for (uint32_t t = 0; t < slot.tokens.size(); ++t) {
      const int32_t parent = slot.parents.empty() ? static_cast<int32_t>(t) - 1 : slot.parents[t];
      const float* from = parent < 0 ? pass.step.facets().slots->carried(layer_, s)
                                     : before + (first + static_cast<size_t>(parent)) * floats;
      pass.workspace.kernels.add(k + (size_t{first} + t) * floats, from, floats);
    }
    first += static_cast<uint32_t>(slot.tokens.size());
  }
  pass.step.facets().slots->carry(layer_, before);
}

// RMSNorm of M times the output of each head, M = slots. It is computed on the output itself, with
// the epsilon divided by M^2.
void SlotAttention::norm_heads(const Pass& pass, float* read) const {
  const LayerConfig& layer = numbers(pass);
  const auto slots = static_cast<float>(memory_->facts.slots);
  const float eps = pass.config.norm_eps / (slots * slots);
  for (uint32_t h = 0; h < layer.heads; ++h) {
    float* head = read + size_t{h} * layer.v_dim;
    pass.workspace.kernels.rms_norm(head, ones_.data(), layer.v_dim, eps, head);
  }
}

Rest SlotAttention::run(const Pass& pass, Rest rest) const {
  const LayerConfig& layer = numbers(pass);
  Workspace& workspace = pass.workspace;
  const size_t q_floats = size_t{pass.tokens} * layer.q_floats();
  const size_t kv_floats = size_t{pass.tokens} * layer.k_floats();
  const size_t heads = size_t{pass.tokens} * layer.kv_heads;
  float* q = workspace.floats(Workspace::kQkv, q_floats + 3 * kv_floats + 2 * heads);
  float *k = q + q_floats, *v = k + kv_floats, *before = v + kv_floats;
  float *step = before + kv_floats, *gate = step + heads;
  project_normed(pass, rest, norm_,
                 {{&q_, q},
                  {&write_q_, k},
                  {&write_v_, v},
                  {&before_, before},
                  {&step_, step},
                  {&gate_, gate}});
  if (memory_->facts.carried != 0) add_before(pass, before, k);
  if (step_.w.rows != 0) scale_writes(pass, step, v);
  if (memory_->gated) {
    for (size_t j = 0; j < heads; ++j) gate[j] = sigmoid(gate[j]);
    pass.step.facets().slots->gates(layer_, gate);
  }
  pass.step.write(layer_, k, v);
  float* attended = workspace.floats(Workspace::kAttention, q_floats);
  pass.attend.read(layer_, {.q = q, .out = attended});
  const auto prepare = [&](uint32_t t) {
    if (memory_->normed) norm_heads(pass, attended + size_t{t} * layer.out_floats());
  };
  return {.y = project_back(pass, attended, prepare, out_)};
}

}  // namespace kvick::model
