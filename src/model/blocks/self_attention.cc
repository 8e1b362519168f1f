#include "model/blocks/self_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "model/attend/attend_text.h"
#include "model/blocks/activation.h"

namespace kvick::model {

using base::Result;

namespace {

// Returns the slopes 2^(-alibi / n), 2^(-2 alibi / n), ... of n heads. If n is not a power of two:
// the slopes of the next lower power p, then every other slope of 2 p heads (Press et al. 2022,
// their code).
std::vector<float> alibi_slopes(uint32_t heads, float alibi) {
  const uint32_t power = std::bit_floor(heads);
  std::vector<float> slopes;
  for (uint32_t i = 1; i <= heads; ++i) {
    const double halves = i <= power ? 2.0 * i : 2.0 * (i - power) - 1;
    slopes.push_back(static_cast<float>(std::exp2(-alibi * halves / (2.0 * power))));
  }
  return slopes;
}

}  // namespace

base::Status<> SelfAttention::read_heads(const BlockReader& reader, const Traits& traits) {
  const LayerConfig& layer = reader.numbers();
  WeightReader& weights = reader.weights;
  if (layer.sinks) {
    KVICK_TRY(sinks_,
              weights.vector(reader.name("attn_sinks.weight"), reader.of_heads(layer.group())));
  }
  if (layer.alibi != 0) slopes_ = alibi_slopes(layer.heads, layer.alibi);
  if (!reader.config.head_norms) return base::Done{};
  qk_norm_ = traits.qk_norm;
  if (qk_norm_ == QkNorm::kNone) return base::Done{};
  if (qk_norm_ == QkNorm::kRotated) {
    q_norm_.weight.assign(layer.k_dim, 1);
    k_norm_ = q_norm_;
    return base::Done{};
  }
  const bool all = qk_norm_ == QkNorm::kAllHeads;
  if (all && !reader.of_heads(1).all())
    return base::fail("{}: layer {} normalises all heads together, which runs on one rank",
                      weights.path(), reader.layer);
  const NormKind kind = all ? reader.norms : NormKind::kRms;
  KVICK_TRY(q_norm_, read_norm(weights, reader.name("attn_q_norm"),
                               all ? layer.q_floats() : layer.k_dim, kind));
  if (!layer.owns_rows()) return base::Done{};
  KVICK_TRY(k_norm_, read_norm(weights, reader.name("attn_k_norm"),
                               all ? layer.k_floats() : layer.k_dim, kind));
  return base::Done{};
}

// Reads queries, keys and values: one tensor each, or one tensor with the rows of all in this
// order.
base::Status<> SelfAttention::read_inputs(const BlockReader& reader, const Traits& traits) {
  const LayerConfig& layer = reader.numbers();
  const uint32_t dim = reader.config.dim;
  const Slice q = reader.of_heads(layer.group() * layer.k_dim * (traits.gated ? 2 : 1));
  const Slice k = reader.of_heads(layer.k_dim), v = reader.of_heads(layer.v_dim);
  if (!reader.has("attn_qkv.weight")) {
    KVICK_TRY(q_, reader.linear("attn_q", q, dim, traits.qkv_bias));
    if (!layer.owns_rows()) return base::Done{};
    KVICK_TRY(k_, reader.linear("attn_k", k, dim, traits.qkv_bias));
    if (traits.value_norm && layer.k_dim == layer.v_dim && !reader.has("attn_v.weight"))
      return base::Done{};
    KVICK_TRY(v_, reader.linear("attn_v", v, dim, traits.qkv_bias));
    return base::Done{};
  }
  const auto part = [&](uint32_t before, Slice own) {
    const uint32_t first = before + own.first;
    return Slice(q.whole + k.whole + v.whole, first, first + own.size);
  };
  KVICK_TRY(q_, reader.linear("attn_qkv", part(0, q), dim, traits.qkv_bias));
  if (!layer.owns_rows()) return base::Done{};
  KVICK_TRY(k_, reader.linear("attn_qkv", part(q.whole, k), dim, traits.qkv_bias));
  KVICK_TRY(v_, reader.linear("attn_qkv", part(q.whole + k.whole, v), dim, traits.qkv_bias));
  return base::Done{};
}

Result<std::unique_ptr<Block>> SelfAttention::read(const BlockReader& reader,
                                                   const Traits& traits) {
  auto block = std::make_unique<SelfAttention>();
  const LayerConfig& layer = reader.numbers();
  const Slice out = reader.of_heads(layer.group() * layer.v_dim);
  block->layer_ = reader.layer;
  block->gated_ = traits.gated;
  if (traits.gated && layer.k_dim != layer.v_dim)
    return base::fail("{}: layer {} has {} gates for {} values of a head", reader.weights.path(),
                      reader.layer, layer.k_dim, layer.v_dim);
  KVICK_TRY_VOID(block->read_inputs(reader, traits));
  KVICK_TRY(block->out_, reader.linear_back("attn_output", out, traits.out_bias));
  NormNames norms = traits.norms;
  if (traits.norm_optional && !reader.has(fmt::format("{}.weight", norms.before)))
    norms.before = "";
  KVICK_TRY(block->norms_, reader.norms_of(norms));
  KVICK_TRY_VOID(block->read_heads(reader, traits));
  if (traits.value_norm) block->v_norm_.assign(layer.v_dim, 1);
  return std::unique_ptr<Block>(std::move(block));
}

// Does what project_normed does. If the step wants the layer's inputs, it gets them before the
// projection begins.
void SelfAttention::project_inputs(const Pass& pass, Rest rest,
                                   std::initializer_list<Output> outputs) const {
  kv::InputReader* const reader = pass.step.facets().inputs;
  if (reader == nullptr) return project_normed(pass, rest, norms_.before, outputs);
  const size_t dim = pass.config.dim;
  float* x = pass.workspace.floats(Workspace::kNormed, pass.tokens * dim);
  pass.workspace.for_tokens(
      pass.tokens, dim, [&](uint32_t t) { norm_token(pass, rest, norms_.before, t, x + t * dim); });
  reader->inputs(layer_, x, pass.positions);
  project(
      pass.workspace, pass.runs, x, [](uint32_t) {}, outputs);
}

void SelfAttention::prepare(const Pass& pass, const Heads& heads, uint32_t token, float* x) const {
  const Config& config = pass.config;
  const LayerConfig& layer = config.layers[layer_];
  const kernels::Table& kernels = pass.workspace.kernels;
  const uint32_t dim = layer.k_dim;
  float* row = x + size_t{token} * heads.count * dim;
  if (heads.norm == QkNorm::kAllHeads)
    heads.weight.apply(kernels, row, heads.weight.weight.size(), config.norm_eps, row);
  const Rope& rope = config.rope_of(layer_);
  const float* turns =
      rope.dims == 0 ? nullptr : pass.rotations[layer.rope] + size_t{token} * rope.dims;
  for (uint32_t h = 0; h < heads.count; ++h) {
    float* head = row + size_t{h} * dim;
    if (heads.norm == QkNorm::kHead) heads.weight.apply(kernels, head, dim, config.norm_eps, head);
    if (turns != nullptr) kernels.rope(head, turns, rope.dims, rope.interleaved);
    if (heads.norm == QkNorm::kBehindRope || (heads.norm == QkNorm::kRotated && turns != nullptr))
      heads.weight.apply(kernels, head, dim, config.norm_eps, head);
  }
}

void SelfAttention::split_gates(const Pass& pass, const float* mixed, uint32_t token, float* q,
                                float* gates) const {
  const LayerConfig& layer = pass.config.layers[layer_];
  const size_t dim = layer.k_dim, first = token * size_t{layer.q_floats()};
  for (size_t at = first; at < first + layer.q_floats(); at += dim) {
    std::copy_n(mixed + 2 * at, dim, q + at);
    std::copy_n(mixed + 2 * at + dim, dim, gates + at);
  }
}

// Call it before the keys are prepared: a layer without v_ takes its values from the unprepared
// keys.
void SelfAttention::prepare_values(const Pass& pass, uint32_t token, const float* k,
                                   float* v) const {
  if (v_norm_.empty()) return;
  const LayerConfig& layer = pass.config.layers[layer_];
  const size_t first = size_t{token} * layer.v_floats();
  const float* const from = v_.w.rows > 0 ? v : k;
  for (size_t at = first; at < first + layer.v_floats(); at += layer.v_dim)
    pass.workspace.kernels.rms_norm(from + at, v_norm_.data(), layer.v_dim, pass.config.norm_eps,
                                    v + at);
}

// Scales the queries of one token by Config::temperature.
void SelfAttention::temper(const Pass& pass, uint32_t token, float* q) const {
  const size_t floats = pass.config.layers[layer_].q_floats();
  const float factor = pass.config.temperature.at(pass.positions[token]);
  for (size_t i = 0; i < floats; ++i) q[token * floats + i] *= factor;
}

// Hadamard transform of one token's queries, keys and values, as the store keeps rows.
void SelfAttention::transform(const Pass& pass, uint32_t token, float* q, float* k,
                              float* v) const {
  const LayerConfig& layer = pass.config.layers[layer_];
  const kv::HadamardBlocks blocks = layer.hadamard_blocks(pass.batch.hadamard);
  const auto turn = [&](float* x, size_t floats, uint32_t block) {
    if (block != 0) pass.workspace.kernels.hadamard(x + token * floats, floats, block);
  };
  turn(q, layer.q_floats(), blocks.k);
  if (!layer.owns_rows()) return;
  turn(k, layer.k_floats(), blocks.k);
  turn(v, layer.v_floats(), blocks.v);
}

Rest SelfAttention::run(const Pass& pass, Rest rest) const {
  const LayerConfig& layer = pass.config.layers[layer_];
  Workspace& workspace = pass.workspace;
  const size_t tokens = pass.tokens;
  const size_t q_floats = tokens * layer.q_floats(), k_floats = tokens * layer.k_floats();
  const size_t v_floats = tokens * layer.v_floats(), gates_floats = gated_ ? q_floats : 0;
  float* q = workspace.floats(Workspace::kQkv, q_floats + k_floats + v_floats + gates_floats);
  float* k = q + q_floats;
  float* v = k + k_floats;
  float* const gates = v + v_floats;
  float* const mixed = gated_ ? workspace.floats(Workspace::kFfn, 2 * q_floats) : q;
  project_inputs(pass, rest, {{&q_, mixed}, {&k_, k}, {&v_, v}});
  workspace.for_tokens(pass.tokens, layer.q_floats() + layer.k_floats(), [&](uint32_t t) {
    if (gated_) split_gates(pass, mixed, t, q, gates);
    prepare(pass, {layer.heads, qk_norm_, q_norm_}, t, q);
    if (layer.tempered) temper(pass, t, q);
    if (layer.owns_rows()) {
      prepare_values(pass, t, k, v);
      prepare(pass, {layer.kv_heads, qk_norm_, k_norm_}, t, k);
    }
    if (!layer.both_ways) transform(pass, t, q, k, v);
  });
  float* attended = workspace.floats(Workspace::kAttention, tokens * layer.out_floats());
  const float* const sinks = sinks_.empty() ? nullptr : sinks_.data();
  const float* const slopes = slopes_.empty() ? nullptr : slopes_.data();
  if (layer.both_ways) {
    attend_text(layer, pass.batch,
                {.q = q, .sinks = sinks, .out = attended, .slopes = slopes, .k = k, .v = v},
                workspace);
  } else {
    if (layer.owns_rows()) write_rows(pass, layer_, k, v);
    pass.attend.run(layer_, {.q = q, .sinks = sinks, .out = attended});
  }
  const auto gate = [&](uint32_t t) {
    const size_t n = layer.out_floats();
    if (gated_) sigmoid_mul(workspace.kernels, gates + t * n, attended + t * n, n);
  };
  const float* y = project_back(pass, attended, gate, out_);
  return rest_of(y, norms_);
}

}  // namespace kvick::model
