#include <algorithm>
#include <cmath>

#include "model/states/causal_conv.h"
#include "model/states/state_block.h"

namespace kvick::model {
namespace {

float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

// Mamba-2. Its linear layer outputs for a token: z; then the inputs of the convolution, which are
// x, B and C of all heads or groups; then dt of each head.
class Mamba2 final : public Block {
 public:
  static base::Result<std::unique_ptr<Block>> read(const BlockReader& reader);
  Rest run(const Pass& pass, Rest rest) const override;

 private:
  base::Status<> read_vectors(const BlockReader& reader);
  // One head's part of a step: token t's numbers are at in + t * width.
  struct Head {
    uint32_t head;
    const float* in;
    float* y;  // [tokens][inner]
  };
  void scan(const kernels::Table& kernels, std::span<const StateRow> rows, const Head& head) const;
  void advance(const kernels::Table& kernels, const StateRow& row, const Head& head) const;
  void finish(const Pass& pass, const float* z, float* y) const;

  uint32_t layer_ = 0;
  StateConfig state_;
  Norm norm_;
  Linear in_, out_;
  CausalConv conv_;
  std::vector<float> dt_bias_, a_, d_;  // [heads]; a: negative, the decay is exp(dt * a)
  std::vector<float> gated_norm_;       // [groups][inner / groups]; empty: none
};

base::Status<> Mamba2::read_vectors(const BlockReader& reader) {
  WeightReader& weights = reader.weights;
  KVICK_TRY(dt_bias_, weights.vector(reader.name("ssm_dt.bias"), state_.heads));
  if (reader.has("ssm_a_log")) {  // the form of Hugging Face folders
    KVICK_TRY(a_, weights.vector(reader.name("ssm_a_log"), state_.heads));
    for (float& a : a_) a = -std::exp(a);
  } else {
    KVICK_TRY(a_, weights.column(reader.name("ssm_a"), state_.heads));
  }
  KVICK_TRY(d_, weights.column(reader.name("ssm_d"), state_.heads));
  if (!reader.has("ssm_norm.weight")) return base::Done{};
  KVICK_TRY(gated_norm_,
            weights.rows(reader.name("ssm_norm"), state_.groups, state_.inner() / state_.groups));
  return base::Done{};
}

base::Result<std::unique_ptr<Block>> Mamba2::read(const BlockReader& reader) {
  auto block = std::make_unique<Mamba2>();
  block->layer_ = reader.layer;
  const StateConfig& state = block->state_ = reader.numbers().state;
  const uint32_t width = state.inner() + state.conv_channels + state.heads;
  const auto bias = WeightReader::Bias::kOptional;
  KVICK_TRY(block->norm_, reader.norm("attn_norm"));
  KVICK_TRY(block->in_, reader.linear("ssm_in", width, reader.config.dim, bias));
  KVICK_TRY(block->conv_, CausalConv::read(reader, "ssm_conv1d"));
  KVICK_TRY_VOID(block->read_vectors(reader));
  KVICK_TRY(block->out_, reader.linear_back("ssm_out", state.inner(), bias));
  return std::unique_ptr<Block>(std::move(block));
}

// H = exp(dt a) H + dt x B^T, y = H C + d x.
void Mamba2::advance(const kernels::Table& kernels, const StateRow& row, const Head& head) const {
  const size_t n = state_.state_size, dim = state_.head_dim, h = head.head;
  const size_t group = h / (state_.heads / state_.groups);
  const float* const in = head.in + row.token * size_t{in_.w.rows};
  const float* const x = in + state_.inner() + h * dim;
  const float* const b = in + size_t{2} * state_.inner() + group * n;
  const float* const c = b + state_.groups * n;
  const float dt = softplus(in[state_.inner() + state_.conv_channels + h] + dt_bias_[h]);
  const float decay = std::exp(dt * a_[h]);
  const size_t first = state_.conv_floats() + h * state_.head_floats();
  float* const y = head.y + row.token * size_t{state_.inner()} + h * dim;
  for (size_t i = 0; i < dim; ++i) {
    const float* const before = row.before + first + i * n;
    float* const after = row.after + first + i * n;
    const float step = dt * x[i];
    for (size_t j = 0; j < n; ++j) after[j] = decay * before[j] + step * b[j];
    y[i] = kernels.dot(after, c, n) + d_[h] * x[i];
  }
  row.finish(kernels, first, dim * n);
}

// Goes token by token, so that a head's matrix stays in the L1 cache.
void Mamba2::scan(const kernels::Table& kernels, std::span<const StateRow> rows,
                  const Head& head) const {
  for (const StateRow& row : rows) advance(kernels, row, head);
}

// y = norm of each group of (silu(z) * y).
void Mamba2::finish(const Pass& pass, const float* z, float* y) const {
  const kernels::Table& kernels = pass.workspace.kernels;
  kernels.silu_mul(z, y, state_.inner(), y);
  if (gated_norm_.empty()) return;
  const size_t n = state_.inner() / state_.groups;
  for (size_t first = 0; first < gated_norm_.size(); first += n)
    kernels.rms_norm(y + first, gated_norm_.data() + first, n, pass.config.norm_eps, y + first);
}

Rest Mamba2::run(const Pass& pass, Rest rest) const {
  Workspace& workspace = pass.workspace;
  const size_t width = in_.w.rows, inner = state_.inner();
  float* const in = workspace.floats(Workspace::kQkv, pass.tokens * width);
  project_normed(pass, rest, norm_, {{&in_, in}});
  LayerStates states(pass, layer_);
  conv_.run(pass, states, in + inner, width, CausalConv::Activation::kSilu);
  float* const y = workspace.floats(Workspace::kAttention, pass.tokens * inner);
  const size_t heads = state_.heads;
  workspace.pool.parallel_for(states.slots() * heads, 1, [&](size_t begin, size_t end, unsigned) {
    for (size_t i = begin; i < end; ++i)
      scan(workspace.kernels, states.rows(static_cast<uint32_t>(i / heads)),
           {static_cast<uint32_t>(i % heads), in, y});
  });
  states.done();
  const auto prepare = [&](uint32_t t) { finish(pass, in + t * width, y + t * inner); };
  return {project_back(pass, y, prepare, out_), nullptr};
}

}  // namespace

base::Result<std::unique_ptr<Block>> read_mamba2(const BlockReader& reader) {
  return Mamba2::read(reader);
}

}  // namespace kvick::model
