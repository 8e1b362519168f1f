#include <algorithm>
#include <cmath>

#include "model/states/causal_conv.h"
#include "model/states/state_block.h"

namespace kvick::model {
namespace {

constexpr float kLengthEps = 1e-6F;            // under the root in the length of a key or query
constexpr size_t kTaskPanels = 2;              // minimum panels of a head's state per task
constexpr size_t kWorthwhileFloats = 1 << 14;  // minimum floats of states and tokens per task

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

// Outputs of the linear layers for all tokens.
struct Projected {
  float* qkv;   // [tokens][channels]: queries and keys of all groups, then values of all heads
  float* z;     // [tokens][inner]: the gates of the outputs
  float* beta;  // [tokens][heads], before the sigmoid
  float* a;     // [tokens][heads], before it becomes the decay
};

class GatedDelta final : public Block {
 public:
  static base::Result<std::unique_ptr<Block>> read(const BlockReader& reader);
  Rest run(const Pass& pass, Rest rest) const override;

 private:
  base::Status<> read_inputs(const BlockReader& reader);
  base::Status<> read_vectors(const BlockReader& reader);
  Projected project_inputs(const Pass& pass, Rest rest) const;
  void sort_inputs(const float* grouped, uint32_t token, const Projected& to) const;
  void sort_gates(const float* grouped, uint32_t token, const Projected& to) const;
  void prepare(const kernels::Table& kernels, uint32_t token, const Projected& in) const;
  void advance_all(const Pass& pass, const LayerStates& states, const Projected& in,
                   float* y) const;
  // Panels [first, first + count) of one head's state.
  struct Part {
    uint32_t head;
    size_t first, count;
  };
  void advance(const kernels::Table& kernels, std::span<const StateRow> rows, Part part,
               const Projected& in, float* y) const;
  void finish(const Pass& pass, const float* z, float* y) const;

  uint32_t group_floats() const { return state_.groups * state_.state_size; }

  uint32_t layer_ = 0;
  StateConfig state_;
  Norm norm_;
  Linear qkv_, z_, beta_, a_;  // four tensors, or
  Linear qkvz_, beta_a_;       // two tensors, in which each group's parts are adjacent
  Linear out_;
  CausalConv conv_;
  std::vector<float> dt_bias_, rate_;  // [heads]; rate: negative, the decay is exp(dt * rate)
  std::vector<float> q_scale_,
      k_scale_;                   // [state_size]: weights with which rms_norm makes lengths 1
  std::vector<float> head_norm_;  // [head_dim]
};

base::Status<> GatedDelta::read_inputs(const BlockReader& reader) {
  const auto none = WeightReader::Bias::kNone;
  const uint32_t dim = reader.config.dim, inner = state_.inner(), heads = state_.heads;
  if (reader.has("ssm_in.weight")) {
    KVICK_TRY(qkvz_, reader.linear("ssm_in", state_.conv_channels + inner, dim, none));
  } else {
    KVICK_TRY(qkv_, reader.linear("attn_qkv", state_.conv_channels, dim, none));
    KVICK_TRY(z_, reader.linear("attn_gate", inner, dim, none));
  }
  if (reader.has("ssm_ba.weight")) {
    KVICK_TRY(beta_a_, reader.linear("ssm_ba", 2 * heads, dim, none));
  } else {
    KVICK_TRY(beta_, reader.linear("ssm_beta", heads, dim, none));
    KVICK_TRY(a_, reader.linear("ssm_alpha", heads, dim, none));
  }
  return base::Done{};
}

base::Status<> GatedDelta::read_vectors(const BlockReader& reader) {
  WeightReader& weights = reader.weights;
  KVICK_TRY(dt_bias_, weights.vector(reader.name("ssm_dt.bias"), state_.heads));
  if (reader.has("ssm_a_log")) {  // the form of Hugging Face folders
    KVICK_TRY(rate_, weights.vector(reader.name("ssm_a_log"), state_.heads));
    for (float& rate : rate_) rate = -std::exp(rate);
  } else {
    KVICK_TRY(rate_, weights.column(reader.name("ssm_a"), state_.heads));
  }
  KVICK_TRY(head_norm_, weights.vector(reader.name("ssm_norm.weight"), state_.head_dim));
  const auto size = static_cast<float>(state_.state_size);
  k_scale_.assign(state_.state_size, 1 / std::sqrt(size));
  q_scale_.assign(state_.state_size, 1 / size);  // queries are divided by the root of their size
  return base::Done{};
}

base::Result<std::unique_ptr<Block>> GatedDelta::read(const BlockReader& reader) {
  auto block = std::make_unique<GatedDelta>();
  block->layer_ = reader.layer;
  block->state_ = reader.numbers().state;
  KVICK_TRY(block->norm_, reader.norm("attn_norm"));
  KVICK_TRY_VOID(block->read_inputs(reader));
  KVICK_TRY(block->conv_, CausalConv::read(reader, "ssm_conv1d"));
  KVICK_TRY_VOID(block->read_vectors(reader));
  KVICK_TRY(block->out_,
            reader.linear_back("ssm_out", block->state_.inner(), WeightReader::Bias::kNone));
  return std::unique_ptr<Block>(std::move(block));
}

// Separates the inputs of one token, which are per group [query, key, values, gates of its heads].
void GatedDelta::sort_inputs(const float* grouped, uint32_t token, const Projected& to) const {
  const size_t n = state_.state_size, values = state_.inner() / state_.groups;
  float* const qkv = to.qkv + token * size_t{state_.conv_channels};
  float* const z = to.z + token * size_t{state_.inner()};
  const float* from = grouped + token * size_t{qkvz_.w.rows};
  for (size_t group = 0; group < state_.groups; ++group, from += 2 * (n + values)) {
    std::copy_n(from, n, qkv + group * n);
    std::copy_n(from + n, n, qkv + group_floats() + group * n);
    std::copy_n(from + 2 * n, values, qkv + 2 * size_t{group_floats()} + group * values);
    std::copy_n(from + 2 * n + values, values, z + group * values);
  }
}

// Separates the gates of one token, which are per group [beta, a of its heads].
void GatedDelta::sort_gates(const float* grouped, uint32_t token, const Projected& to) const {
  const size_t heads = state_.heads, each = heads / state_.groups;
  const float* const from = grouped + token * 2 * heads;
  for (size_t head = 0; head < heads; ++head) {
    const float* const own = from + head / each * 2 * each + head % each;
    to.beta[token * heads + head] = own[0];
    to.a[token * heads + head] = own[each];
  }
}

Projected GatedDelta::project_inputs(const Pass& pass, Rest rest) const {
  const size_t tokens = pass.tokens, heads = state_.heads;
  const size_t inputs = size_t{state_.conv_channels} + state_.inner();
  Workspace& workspace = pass.workspace;
  float* const qkv = workspace.floats(Workspace::kQkv, tokens * (inputs + 2 * heads));
  float* const z = qkv + tokens * state_.conv_channels;
  float* const beta = z + tokens * state_.inner();
  const Projected in = {qkv, z, beta, beta + tokens * heads};
  float* const grouped = workspace.floats(Workspace::kFfn, tokens * (inputs + 2 * heads));
  float* const grouped_gates = grouped + tokens * inputs;
  project_normed(pass, rest, norm_,
                 {{&qkv_, in.qkv},
                  {&z_, in.z},
                  {&beta_, in.beta},
                  {&a_, in.a},
                  {&qkvz_, grouped},
                  {&beta_a_, grouped_gates}});
  const bool sorted = qkvz_.w.rows == 0, gates_sorted = beta_a_.w.rows == 0;
  if (!sorted || !gates_sorted)
    workspace.for_tokens(pass.tokens, sorted ? heads : inputs, [&](uint32_t t) {
      if (!sorted) sort_inputs(grouped, t, in);
      if (!gates_sorted) sort_gates(grouped_gates, t, in);
    });
  return in;
}

// Prepares one token: keys and queries of length 1, and a decay and a step size between 0 and 1.
void GatedDelta::prepare(const kernels::Table& kernels, uint32_t token, const Projected& in) const {
  const size_t n = state_.state_size, heads = state_.heads;
  const float eps = kLengthEps / static_cast<float>(n);
  float* const q = in.qkv + token * size_t{state_.conv_channels};
  float* const k = q + group_floats();
  for (size_t at = 0; at < group_floats(); at += n) {
    kernels.rms_norm(q + at, q_scale_.data(), n, eps, q + at);
    kernels.rms_norm(k + at, k_scale_.data(), n, eps, k + at);
  }
  float *const beta = in.beta + token * heads, *const a = in.a + token * heads;
  for (size_t h = 0; h < heads; ++h) {
    beta[h] = sigmoid(beta[h]);
    a[h] = std::exp(softplus(a[h] + dt_bias_[h]) * rate_[h]);
  }
}

// Combines consecutive rows that update one state in place into one kernel call.
void GatedDelta::advance(const kernels::Table& kernels, std::span<const StateRow> rows, Part part,
                         const Projected& in, float* y) const {
  const size_t n = state_.state_size, heads = state_.heads, channels = state_.conv_channels;
  const size_t group = state_.group_of(part.head);
  const size_t value = part.head * size_t{state_.head_dim} + part.first * kernels::kDeltaPanel;
  const size_t place = state_.conv_floats() + part.head * state_.head_floats() +
                       part.first * kernels::kDeltaPanel * n;
  for (size_t first = 0, end = 0; first < rows.size(); first = end) {
    const StateRow& row = rows[first];
    for (end = first + 1;
         end < rows.size() && rows[end].before == row.after && rows[end].after == row.after;)
      ++end;
    const float* const qkv = in.qkv + row.token * channels;
    kernels.delta_rule({.tokens = end - first,
                        .k_dim = n,
                        .panels = part.count,
                        .q = qkv + group * n,
                        .k = qkv + group_floats() + group * n,
                        .k_stride = channels,
                        .v = qkv + 2 * size_t{group_floats()} + value,
                        .v_stride = channels,
                        .decay = in.a + row.token * heads + part.head,
                        .beta = in.beta + row.token * heads + part.head,
                        .gate_stride = heads,
                        .before = row.before + place,
                        .after = row.after + place,
                        .out = y + row.token * size_t{state_.inner()} + value,
                        .out_stride = state_.inner()});
    row.finish(kernels, place, part.count * kernels::kDeltaPanel * n);
  }
}

// Heads and parts of their states are independent, so each task goes over all tokens of a slot.
void GatedDelta::advance_all(const Pass& pass, const LayerStates& states, const Projected& in,
                             float* y) const {
  const size_t panels = state_.head_dim / kernels::kDeltaPanel;
  const size_t parts = (panels + kTaskPanels - 1) / kTaskPanels, heads = state_.heads;
  const size_t floats =
      kTaskPanels * kernels::kDeltaPanel * state_.state_size * pass.tokens / states.slots();
  const size_t grain = std::max<size_t>(1, kWorthwhileFloats / std::max<size_t>(1, floats));
  const auto run = [&](size_t begin, size_t end, unsigned) {
    for (size_t i = begin; i < end; ++i) {
      const size_t first = i % parts * kTaskPanels;
      const Part part = {static_cast<uint32_t>(i / parts % heads), first,
                         std::min(kTaskPanels, panels - first)};
      const auto slot = static_cast<uint32_t>(i / (parts * heads));
      advance(pass.workspace.kernels, states.rows(slot), part, in, y);
    }
  };
  pass.workspace.pool.parallel_for(states.slots() * heads * parts, grain, run);
}

// y = norm of each head of y, times silu(z).
void GatedDelta::finish(const Pass& pass, const float* z, float* y) const {
  const kernels::Table& kernels = pass.workspace.kernels;
  const size_t dim = state_.head_dim;
  for (size_t at = 0; at < state_.inner(); at += dim)
    kernels.rms_norm(y + at, head_norm_.data(), dim, pass.config.norm_eps, y + at);
  kernels.silu_mul(z, y, state_.inner(), y);
}

Rest GatedDelta::run(const Pass& pass, Rest rest) const {
  Workspace& workspace = pass.workspace;
  const size_t inner = state_.inner(), channels = state_.conv_channels;
  const Projected in = project_inputs(pass, rest);
  LayerStates states(pass, layer_);
  conv_.run(pass, states, in.qkv, channels, CausalConv::Activation::kSilu);
  workspace.for_tokens(pass.tokens, 2 * size_t{group_floats()},
                       [&](uint32_t t) { prepare(workspace.kernels, t, in); });
  float* const y = workspace.floats(Workspace::kAttention, pass.tokens * inner);
  advance_all(pass, states, in, y);
  states.done();
  const auto gate = [&](uint32_t t) { finish(pass, in.z + t * inner, y + t * inner); };
  return {project_back(pass, y, gate, out_), nullptr};
}

}  // namespace

base::Result<std::unique_ptr<Block>> read_gated_delta(const BlockReader& reader) {
  return GatedDelta::read(reader);
}

}  // namespace kvick::model
