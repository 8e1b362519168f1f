#include "model/blocks/latent_attention.h"

#include <algorithm>

namespace kvick::model {

using base::Result;

base::Status<> LatentAttention::read_inputs(const BlockReader& reader) {
  using enum WeightReader::Bias;
  const LatentConfig& latent = reader.numbers().latent;
  const uint32_t dim = reader.config.dim;
  const uint32_t q = reader.numbers().heads * (latent.plain + latent.rotated);
  if (latent.q_rank > 0) {
    KVICK_TRY(low_, reader.linear("attn_q_a", latent.q_rank, dim, kOptional));
    KVICK_TRY(low_norm_, reader.weights.norm_weight(reader.name("attn_q_a_norm"), latent.q_rank));
    KVICK_TRY(q_, reader.linear("attn_q_b", q, latent.q_rank, kOptional));
  } else {
    KVICK_TRY(q_, reader.linear("attn_q", q, dim, kOptional));
  }
  KVICK_TRY(rows_, reader.linear("attn_kv_a_mqa", latent.row(), dim, kOptional));
  KVICK_TRY(latent_norm_, reader.weights.norm_weight(reader.name("attn_kv_a_norm"), latent.rank));
  return base::Done{};
}

// Reads one matrix per head, or splits one matrix that holds the rows of each head's key and value.
base::Status<> LatentAttention::read_heads(const BlockReader& reader) {
  const LatentConfig& latent = reader.numbers().latent;
  const uint32_t heads = reader.numbers().heads;
  WeightReader& weights = reader.weights;
  if (reader.has("attn_k_b.weight") || !reader.has("attn_kv_b.weight")) {
    KVICK_TRY(to_latent_, weights.heads(reader.name("attn_k_b"), heads, latent.rank, latent.plain));
    KVICK_TRY(from_latent_,
              weights.heads(reader.name("attn_v_b"), heads, latent.v_dim, latent.rank));
    return base::Done{};
  }
  const std::string name = reader.name("attn_kv_b");
  const uint32_t both = latent.plain + latent.v_dim;
  KVICK_TRY(to_latent_, weights.part_of_heads(name, heads, Slice(both, 0, latent.plain),
                                              latent.rank, WeightReader::Turn::kTransposed));
  KVICK_TRY(from_latent_, weights.part_of_heads(name, heads, Slice(both, latent.plain, both),
                                                latent.rank, WeightReader::Turn::kAsStored));
  return base::Done{};
}

Result<std::unique_ptr<Block>> LatentAttention::read(const BlockReader& reader,
                                                     const NormNames& norms) {
  auto block = std::make_unique<LatentAttention>();
  block->layer_ = reader.layer;
  KVICK_TRY_VOID(block->read_inputs(reader));
  KVICK_TRY_VOID(block->read_heads(reader));
  const uint32_t out = reader.numbers().heads * reader.numbers().latent.v_dim;
  KVICK_TRY(block->out_, reader.linear_back("attn_output", out, WeightReader::Bias::kOptional));
  KVICK_TRY(block->norm_, reader.norm(norms.before));
  KVICK_TRY(block->post_norm_, reader.norm(norms.after));
  return std::unique_ptr<Block>(std::move(block));
}

LatentAttention::Inputs LatentAttention::room_for(const Pass& pass) const {
  const LayerConfig& layer = numbers(pass);
  const LatentConfig& latent = layer.latent;
  const size_t tokens = pass.tokens;
  const size_t q = tokens * layer.heads * (latent.plain + latent.rotated);
  const size_t low = tokens * latent.q_rank, rows = tokens * latent.row();
  float* const first =
      pass.workspace.floats(Workspace::kQkv, q + low + rows + tokens * layer.q_floats());
  return {first, first + q, first + q + low, first + q + low + rows};
}

void LatentAttention::project_inputs(const Pass& pass, Rest rest, const Inputs& to) const {
  if (low_norm_.empty()) return project_normed(pass, rest, norm_, {{&q_, to.q}, {&rows_, to.rows}});
  project_normed(pass, rest, norm_, {{&low_, to.low}, {&rows_, to.rows}});
  const size_t rank = low_norm_.size();
  const auto norm = [&](uint32_t t) {
    float* const x = to.low + t * rank;
    pass.workspace.kernels.rms_norm(x, low_norm_.data(), rank, pass.config.norm_eps, x);
  };
  project(pass.workspace, pass.runs, to.low, norm, {{&q_, to.q}});
}

void LatentAttention::rotate(const Pass& pass, uint32_t token, float* x) const {
  const Rope& rope = pass.config.rope_of(layer_);
  if (rope.dims == 0) return;
  const float* turns = pass.rotations[numbers(pass).rope] + size_t{token} * rope.dims;
  pass.workspace.kernels.rope(x, turns, rope.dims, rope.interleaved);
}

// Applies the store's Hadamard transform to rows or queries.
void LatentAttention::transform(const Pass& pass, float* x, size_t floats) const {
  const uint32_t block = numbers(pass).hadamard_blocks(pass.batch.hadamard).k;
  if (block != 0) pass.workspace.kernels.hadamard(x, floats, block);
}

// Runs of one head's copy of the batch use that head's layer, so all heads are one parallel region.
const float* LatentAttention::project_heads(const Pass& pass, const std::vector<Linear>& layers,
                                            VectorOf x) const {
  const size_t tokens = pass.tokens, rows = tokens * layers.size();
  const size_t inputs = layers.front().w.inputs, outputs = layers.front().w.rows;
  float* const in = pass.workspace.floats(Workspace::kHeads, rows * (inputs + outputs));
  float* const out = in + rows * inputs;
  std::vector<TokenRun> runs;
  std::vector<RunOutput> to;
  for (uint32_t head = 0; head < layers.size(); ++head)
    for (const TokenRun& run : pass.runs) {
      to.push_back({runs.size(), &layers[head], out});
      runs.push_back({head * pass.tokens + run.first, run.tokens, run.prompt});
    }
  const auto gather = [&](uint32_t row) {
    std::copy_n(x(row % pass.tokens, row / pass.tokens), inputs, in + row * inputs);
  };
  project_each(pass.workspace, runs, in, gather, to);
  return out;
}

void LatentAttention::make_queries(const Pass& pass, const Inputs& inputs) const {
  const LayerConfig& layer = numbers(pass);
  const LatentConfig& latent = layer.latent;
  const size_t head_floats = latent.plain + latent.rotated;
  const auto head_of = [&](uint32_t t, uint32_t head) {
    return inputs.q + (size_t{t} * layer.heads + head) * head_floats;
  };
  const float* const absorbed = project_heads(pass, to_latent_, head_of);
  pass.workspace.for_tokens(pass.tokens, layer.q_floats(), [&](uint32_t t) {
    float* const all = inputs.queries + size_t{t} * layer.q_floats();
    for (uint32_t head = 0; head < layer.heads; ++head) {
      float* const query = all + size_t{head} * layer.k_dim;
      std::copy_n(absorbed + (size_t{head} * pass.tokens + t) * latent.rank, latent.rank, query);
      std::copy_n(head_of(t, head) + latent.plain, latent.rotated, query + latent.rank);
      rotate(pass, t, query + latent.rank);
    }
    const float factor = layer.tempered ? pass.config.temperature.at(pass.positions[t]) : 1;
    for (size_t i = 0; layer.tempered && i < layer.q_floats(); ++i) all[i] *= factor;
    transform(pass, all, layer.q_floats());
  });
}

Rest LatentAttention::run(const Pass& pass, Rest rest) const {
  const LayerConfig& layer = numbers(pass);
  const LatentConfig& latent = layer.latent;
  Workspace& workspace = pass.workspace;
  const Inputs inputs = room_for(pass);
  project_inputs(pass, rest, inputs);
  workspace.for_tokens(pass.tokens, latent.row(), [&](uint32_t t) {
    float* const row = inputs.rows + size_t{t} * latent.row();
    workspace.kernels.rms_norm(row, latent_norm_.data(), latent.rank, pass.config.norm_eps, row);
    rotate(pass, t, row + latent.rank);
    transform(pass, row, latent.row());
  });
  write_rows(pass, layer_, inputs.rows, nullptr);
  make_queries(pass, inputs);
  const size_t out_floats = layer.out_floats();
  float* attended = workspace.floats(Workspace::kAttention, pass.tokens * out_floats);
  pass.attend.run(layer_, {.q = inputs.queries, .out = attended});
  const float* const values =
      project_heads(pass, from_latent_, [&](uint32_t t, uint32_t head) -> const float* {
        return attended + t * out_floats + size_t{head} * latent.rank;
      });
  // Joins the values of a token's heads, in the memory that held its queries.
  const size_t token_floats = size_t{layer.heads} * latent.v_dim;
  float* const joined = workspace.floats(Workspace::kQkv, pass.tokens * token_floats);
  const auto join = [&](uint32_t t) {
    for (uint32_t head = 0; head < layer.heads; ++head)
      std::copy_n(values + (size_t{head} * pass.tokens + t) * latent.v_dim, latent.v_dim,
                  joined + t * token_floats + size_t{head} * latent.v_dim);
  };
  return {project_back(pass, joined, join, out_), post_norm_.empty() ? nullptr : &post_norm_};
}

}  // namespace kvick::model
