#include "model/blocks/self_attention.h"

namespace kvick::model {

using base::Result;

base::Status<> SelfAttention::read_heads(const BlockReader& reader, const Traits& traits) {
  const LayerConfig& layer = reader.numbers();
  WeightReader& weights = reader.weights;
  if (layer.sinks) {
    KVICK_TRY(sinks_,
              weights.vector(reader.name("attn_sinks.weight"), reader.of_heads(layer.group())));
  }
  if (!reader.config.head_norms) return base::Done{};
  qk_norm_ = traits.qk_norm;
  if (qk_norm_ == QkNorm::kNone) return base::Done{};
  if (qk_norm_ == QkNorm::kRotated) {
    q_norm_.assign(layer.k_dim, 1);
    k_norm_ = q_norm_;
    return base::Done{};
  }
  const bool all = qk_norm_ == QkNorm::kAllHeads;
  if (all && !reader.of_heads(1).all())
    return base::fail("{}: layer {} normalises all heads together, which runs on one rank",
                      weights.path(), reader.layer);
  KVICK_TRY(q_norm_,
            weights.norm_weight(reader.name("attn_q_norm"), all ? layer.q_floats() : layer.k_dim));
  if (!layer.owns_rows()) return base::Done{};
  KVICK_TRY(k_norm_,
            weights.norm_weight(reader.name("attn_k_norm"), all ? layer.k_floats() : layer.k_dim));
  return base::Done{};
}

// Queries, keys and values: a tensor each, or one with the rows of all, in this order.
base::Status<> SelfAttention::read_inputs(const BlockReader& reader, const Traits& traits) {
  const LayerConfig& layer = reader.numbers();
  const uint32_t dim = reader.config.dim;
  const Slice q = reader.of_heads(layer.group() * layer.k_dim);
  const Slice k = reader.of_heads(layer.k_dim), v = reader.of_heads(layer.v_dim);
  if (!reader.has("attn_qkv.weight")) {
    KVICK_TRY(q_, reader.linear("attn_q", q, dim, traits.qkv_bias));
    if (!layer.owns_rows()) return base::Done{};
    KVICK_TRY(k_, reader.linear("attn_k", k, dim, traits.qkv_bias));
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
  KVICK_TRY_VOID(block->read_inputs(reader, traits));
  KVICK_TRY(block->out_, reader.linear_back("attn_output", out, traits.out_bias));
  KVICK_TRY(block->norm_, reader.norm(traits.norms.before));
  KVICK_TRY(block->post_norm_, reader.norm(traits.norms.after));
  KVICK_TRY_VOID(block->read_heads(reader, traits));
  return std::unique_ptr<Block>(std::move(block));
}

// As project_normed; a step that wants to sees what is projected before that begins.
void SelfAttention::project_inputs(const Pass& pass, Rest rest,
                                   std::initializer_list<Output> outputs) const {
  kv::InputReader* const reader = pass.step.facets().inputs;
  if (reader == nullptr) return project_normed(pass, rest, norm_, outputs);
  const size_t dim = pass.config.dim;
  float* x = pass.workspace.floats(Workspace::kNormed, pass.tokens * dim);
  pass.workspace.for_tokens(pass.tokens, dim,
                            [&](uint32_t t) { norm_token(pass, rest, norm_, t, x + t * dim); });
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
    kernels.rms_norm(row, heads.weight.data(), heads.weight.size(), config.norm_eps, row);
  const Rope& rope = config.rope_of(layer_);
  const float* turns =
      rope.dims == 0 ? nullptr : pass.rotations[layer.rope] + size_t{token} * rope.dims;
  for (uint32_t h = 0; h < heads.count; ++h) {
    float* head = row + size_t{h} * dim;
    if (heads.norm == QkNorm::kHead)
      kernels.rms_norm(head, heads.weight.data(), dim, config.norm_eps, head);
    if (turns == nullptr) continue;
    kernels.rope(head, turns, rope.dims, rope.interleaved);
    if (heads.norm == QkNorm::kRotated)
      kernels.rms_norm(head, heads.weight.data(), dim, config.norm_eps, head);
  }
}

// Queries of one token.
void SelfAttention::temper(const Pass& pass, uint32_t token, float* q) const {
  const size_t floats = pass.config.layers[layer_].q_floats();
  const float factor = pass.config.temperature.at(pass.positions[token]);
  for (size_t i = 0; i < floats; ++i) q[token * floats + i] *= factor;
}

Rest SelfAttention::run(const Pass& pass, Rest rest) const {
  const LayerConfig& layer = pass.config.layers[layer_];
  Workspace& workspace = pass.workspace;
  const size_t tokens = pass.tokens;
  const size_t q_floats = tokens * layer.q_floats(), k_floats = tokens * layer.k_floats();
  float* q = workspace.floats(Workspace::kQkv, q_floats + k_floats + tokens * layer.v_floats());
  float* k = q + q_floats;
  float* v = k + k_floats;
  project_inputs(pass, rest, {{&q_, q}, {&k_, k}, {&v_, v}});
  workspace.for_tokens(pass.tokens, layer.q_floats() + layer.k_floats(), [&](uint32_t t) {
    prepare(pass, {layer.heads, qk_norm_, q_norm_}, t, q);
    if (layer.tempered) temper(pass, t, q);
    if (layer.owns_rows()) prepare(pass, {layer.kv_heads, qk_norm_, k_norm_}, t, k);
  });
  if (layer.owns_rows()) write_rows(pass, layer_, k, v);
  float* attended = workspace.floats(Workspace::kAttention, tokens * layer.out_floats());
  pass.attend.run(layer_,
                  {.q = q, .sinks = sinks_.empty() ? nullptr : sinks_.data(), .out = attended});
  const float* y = project_back(
      pass, attended, [](uint32_t) {}, out_);
  return {y, post_norm_.empty() ? nullptr : &post_norm_};
}

}  // namespace kvick::model
