#include "model/blocks/layers.h"

#include <algorithm>
#include <cmath>

namespace kvick::model {
namespace {

void apply_norm(const Workspace& workspace, const Norm& norm, float eps, const float* x, float* y) {
  const size_t n = norm.weight.size();
  if (norm.bias.empty())
    workspace.kernels.rms_norm(x, norm.weight.data(), n, eps, y);
  else
    workspace.kernels.layer_norm(x, norm.weight.data(), norm.bias.data(), n, eps, y);
}

// Rotates the heads of one token, after the norm of each head where the model has one.
void prepare_heads(const Pass& pass, const std::vector<float>& norm, uint32_t heads, uint32_t token,
                   float* x) {
  const Config& config = pass.config;
  const kernels::Table& kernels = pass.workspace.kernels;
  for (uint32_t h = 0; h < heads; ++h) {
    float* head = x + (size_t{token} * heads + h) * config.head_dim;
    if (!norm.empty()) kernels.rms_norm(head, norm.data(), config.head_dim, config.norm_eps, head);
    if (pass.rotation != nullptr)
      kernels.rope(head, pass.rotation + size_t{token} * config.rope.dims, config.rope.dims,
                   config.rope.interleaved);
  }
}

}  // namespace

void check_batch(const Config& config, const Batch& batch) {
  for (const Slot& slot : batch.slots) {
    KVICK_CHECK(!slot.tokens.empty(), "sequence {} adds no token", static_cast<uint32_t>(slot.seq));
    KVICK_CHECK(slot.parents.empty() || slot.parents.size() == slot.tokens.size(),
                "{} parents of {} tokens", slot.parents.size(), slot.tokens.size());
    KVICK_CHECK(slot.role == Role::kAnswer || slot.parents.empty(),
                "a tree of {} tokens of a prompt", slot.tokens.size());
    for (const Token token : slot.tokens)
      KVICK_CHECK(token >= 0 && static_cast<uint32_t>(token) < config.vocab,
                  "token {} of a vocabulary of {}", token, config.vocab);
    for (size_t i = 0; i < slot.parents.size(); ++i)
      KVICK_CHECK(slot.parents[i] >= -1 && slot.parents[i] < static_cast<int32_t>(i),
                  "token {} has parent {}", i, slot.parents[i]);
  }
}

std::vector<uint32_t> positions(const Batch& batch) {
  std::vector<uint32_t> result;
  result.reserve(batch.tokens());
  for (const Slot& slot : batch.slots) {
    const size_t first = result.size();
    for (size_t i = 0; i < slot.tokens.size(); ++i) {
      const int32_t parent = slot.parents.empty() ? static_cast<int32_t>(i) - 1 : slot.parents[i];
      result.push_back(parent < 0 ? slot.past : result[first + static_cast<size_t>(parent)] + 1);
    }
  }
  return result;
}

const float* rotations(const Rope& rope, const Batch& batch, Workspace& workspace) {
  const std::vector<uint32_t> position = positions(batch);
  float* table = workspace.floats(Workspace::kCosSin, position.size() * rope.dims);
  const size_t pairs = rope.frequency.size();
  constexpr size_t kFloats = 32;  // counted for one cosine
  workspace.for_tokens(batch.tokens(), kFloats * rope.dims, [&](uint32_t t) {
    float* row = table + size_t{t} * rope.dims;
    for (size_t i = 0; i < pairs; ++i) {
      const double angle = position[t] * rope.frequency[i];
      row[i] = static_cast<float>(std::cos(angle)) * rope.magnitude;
      row[pairs + i] = static_cast<float>(std::sin(angle)) * rope.magnitude;
    }
  });
  return table;
}

float* embed(const Config& config, const Embedding& embedding, const Batch& batch,
             Workspace& workspace) {
  float* hidden = workspace.floats(Workspace::kHidden, size_t{batch.tokens()} * config.dim);
  float* row = hidden;
  for (const Slot& slot : batch.slots)
    for (const Token token : slot.tokens) {
      embedding.row(static_cast<uint32_t>(token), row);
      row += config.dim;
    }
  return hidden;
}

namespace {

// y = norm(hidden += rest) of one token.
void norm_token(const Pass& pass, const float* rest, const Norm& norm, uint32_t t, float* y) {
  const size_t dim = pass.config.dim;
  float* hidden = pass.hidden + t * dim;
  if (rest != nullptr) pass.workspace.kernels.add(hidden, rest + t * dim, dim);
  apply_norm(pass.workspace, norm, pass.config.norm_eps, hidden, y);
}

// As project_normed; a step that wants to sees what is projected before that begins.
void project_inputs(const Pass& pass, const float* rest, uint32_t layer, const Norm& norm,
                    std::initializer_list<Output> outputs) {
  if (!pass.step.wants().inputs) return project_normed(pass, rest, norm, outputs);
  const size_t dim = pass.config.dim;
  float* x = pass.workspace.floats(Workspace::kNormed, pass.tokens * dim);
  pass.workspace.for_tokens(pass.tokens, dim,
                            [&](uint32_t t) { norm_token(pass, rest, norm, t, x + t * dim); });
  pass.step.inputs(layer, x, positions(pass.batch));
  project(
      pass.workspace, pass.runs, x, [](uint32_t) {}, outputs);
}

}  // namespace

void project_normed(const Pass& pass, const float* rest, const Norm& norm,
                    std::initializer_list<Output> outputs) {
  const size_t dim = pass.config.dim;
  float* y = pass.workspace.floats(Workspace::kNormed, pass.tokens * dim);
  const auto prepare = [&](uint32_t t) { norm_token(pass, rest, norm, t, y + t * dim); };
  project(pass.workspace, pass.runs, y, prepare, outputs);
}

const float* project_back(const Pass& pass, const float* x, Workspace::TokenBody prepare,
                          const Linear& linear) {
  float* y = pass.workspace.floats(Workspace::kProjected, size_t{pass.tokens} * pass.config.dim);
  project(pass.workspace, pass.runs, x, prepare, {{&linear, y}});
  return y;
}

const float* attention(const Pass& pass, const float* rest, uint32_t layer,
                       const SelfAttention& weights) {
  const Config& config = pass.config;
  Workspace& workspace = pass.workspace;
  const size_t q_floats = size_t{pass.tokens} * config.q_dim();
  const size_t kv_floats = size_t{pass.tokens} * config.kv_dim();
  float* q = workspace.floats(Workspace::kQkv, q_floats + 2 * kv_floats);
  float* k = q + q_floats;
  float* v = k + kv_floats;
  project_inputs(pass, rest, layer, weights.norm,
                 {{&weights.q, q}, {&weights.k, k}, {&weights.v, v}});
  workspace.for_tokens(pass.tokens, config.q_dim() + config.kv_dim(), [&](uint32_t t) {
    prepare_heads(pass, weights.q_norm, config.heads, t, q);
    prepare_heads(pass, weights.k_norm, config.kv_heads, t, k);
  });
  pass.step.write(layer, k, v);
  float* attended = workspace.floats(Workspace::kAttention, q_floats);
  pass.attend.run(layer, q, attended);
  return project_back(
      pass, attended, [](uint32_t) {}, weights.out);
}

const float* gated_ffn(const Pass& pass, const float* rest, const GatedFfn& weights) {
  const size_t dim = pass.config.dim;
  float* x = pass.workspace.floats(Workspace::kNormed, pass.tokens * dim);
  float* y = pass.workspace.floats(Workspace::kProjected, pass.tokens * dim);
  const auto prepare = [&](uint32_t t) { norm_token(pass, rest, weights.norm, t, x + t * dim); };
  project_gated(pass.workspace, pass.runs, x, prepare, {weights.gate, weights.up, weights.down}, y);
  return y;
}

void logits_of(const Pass& pass, const float* rest, const Norm& norm, const Linear& output,
               std::span<const uint32_t> wanted, float* logits) {
  if (wanted.empty()) return;
  const size_t dim = pass.config.dim;
  float* x = pass.workspace.floats(Workspace::kNormed, wanted.size() * dim);
  for (const uint32_t token : wanted)
    KVICK_CHECK(token < pass.tokens, "logits of token {} of {}", token, pass.tokens);
  const auto prepare = [&](uint32_t i) {
    float* row = x + i * dim;
    std::copy_n(pass.hidden + wanted[i] * dim, dim, row);
    if (rest != nullptr) pass.workspace.kernels.add(row, rest + wanted[i] * dim, dim);
    apply_norm(pass.workspace, norm, pass.config.norm_eps, row, row);
  };
  // By the arithmetic of answers, whatever the token's role: these are a few tokens, of which
  // reading the matrix is what costs.
  const TokenRun run = {.first = 0, .tokens = static_cast<uint32_t>(wanted.size())};
  project(pass.workspace, {&run, 1}, x, prepare, {{&output, logits}});
}

base::Result<Norm> read_rms_norm(WeightReader& reader, const std::string& name, uint32_t size) {
  Norm norm;
  KVICK_TRY(norm.weight, reader.vector(name + ".weight", size));
  return norm;
}

base::Result<Norm> read_layer_norm(WeightReader& reader, const std::string& name, uint32_t size) {
  Norm norm;
  KVICK_TRY(norm.weight, reader.vector(name + ".weight", size));
  KVICK_TRY(norm.bias, reader.vector(name + ".bias", size));
  return norm;
}

base::Result<SelfAttention> read_attention(WeightReader& reader, const Config& config,
                                           const std::string& prefix, WeightReader::Bias qkv_bias,
                                           WeightReader::Bias out_bias) {
  SelfAttention weights;
  KVICK_TRY(weights.q, reader.linear(prefix + "attn_q", config.q_dim(), config.dim, qkv_bias));
  KVICK_TRY(weights.k, reader.linear(prefix + "attn_k", config.kv_dim(), config.dim, qkv_bias));
  KVICK_TRY(weights.v, reader.linear(prefix + "attn_v", config.kv_dim(), config.dim, qkv_bias));
  KVICK_TRY(weights.out,
            reader.linear(prefix + "attn_output", config.dim, config.q_dim(), out_bias));
  return weights;
}

base::Result<GatedFfn> read_gated_ffn(WeightReader& reader, const Config& config,
                                      const std::string& prefix) {
  using enum WeightReader::Bias;
  GatedFfn weights;
  KVICK_TRY(weights.norm, read_rms_norm(reader, prefix + "ffn_norm", config.dim));
  KVICK_TRY(weights.gate, reader.linear(prefix + "ffn_gate", config.ffn, config.dim, kOptional));
  KVICK_TRY(weights.up, reader.linear(prefix + "ffn_up", config.ffn, config.dim, kOptional));
  KVICK_TRY(weights.down, reader.linear(prefix + "ffn_down", config.dim, config.ffn, kOptional));
  return weights;
}

}  // namespace kvick::model
