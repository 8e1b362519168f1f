#include "model/blocks/experts.h"

#include <algorithm>
#include <cmath>

#include "model/blocks/activation.h"
#include "model/matrices/expert_memory.h"

namespace kvick::model {
namespace {

using Activation = MixtureTraits::Activation;

// The shared expert, which all tokens go through.
struct SharedExpert {
  Linear gate, up, down;
  Linear share;  // the sigmoid of its output is the expert's weight; no rows: the weight is 1
  bool empty() const { return up.w.rows == 0; }
};

// The norms of MixtureTraits::parallel.
struct ParallelNorms {
  Norm router, shared, behind_shared, behind_experts;
};

class Mixture final : public Block {
 public:
  static base::Result<std::unique_ptr<Block>> read(const BlockReader& reader,
                                                   const MixtureTraits& traits);
  Rest run(const Pass& pass, Rest rest) const override;

 private:
  base::Status<> read_experts(const BlockReader& reader);
  base::Status<> read_shared(const BlockReader& reader);
  base::Status<> read_parallel(const BlockReader& reader);
  std::vector<Choice> route(const Pass& pass, Rest rest, float* x) const;
  const float* compute(const Pass& pass, const ExpertPairs& pairs, const float* x) const;
  const float* compute_in_turns(const Pass& pass, const ExpertPairs& pairs, const float* x) const;
  struct Room {
    float* inputs;  // [pairs][dim]
    float* gate;    // [pairs][ffn]
    float* up;      // [pairs][ffn]
    float* out;     // [pairs][dim]
  };
  Room room_for(const Pass& pass, const ExpertPairs& pairs) const;
  void compute_runs(const Pass& pass, const ExpertPairs& pairs, std::span<const TokenRun> runs,
                    std::span<const uint32_t> experts, const float* x, const Room& room) const;
  void run_shared(const Pass& pass, float* x, float* y) const;
  void run_shared_ungated(const Pass& pass, const float* x, float* y) const;
  void add_up(const Pass& pass, const ExpertPairs& pairs, const float* outputs, float* x,
              float* y) const;
  bool gated() const {
    return traits_.activation != Activation::kReluSquared &&
           traits_.activation != Activation::kGelu;
  }
  float* activated(const Room& room) const { return gated() ? room.gate : room.up; }
  void activate(const kernels::Table& kernels, const Room& room, size_t pair) const;

  ExpertsConfig numbers_;
  MixtureTraits traits_;
  BlockNorms norms_;
  ParallelNorms parallel_;  // empty norms unless traits_.parallel
  Linear router_;
  std::vector<float> selection_bias_;     // [experts], or empty
  std::vector<float> output_scale_;       // factor of each expert's output, [experts], or empty
  std::vector<Linear> gate_, up_, down_;  // [experts]
  std::vector<float> sum_bias_;           // added to the sum of the outputs, [dim], or empty
  SharedExpert shared_;
  ExpertMemory* memory_ = nullptr;  // pages experts in; null: all are in memory
  uint32_t memory_layer_ = 0;       // index of this layer in memory_
};

base::Status<> Mixture::read_experts(const BlockReader& reader) {
  using enum WeightReader::Bias;
  const uint32_t dim = reader.config.dim;
  const Slice width = reader.of_width();
  const auto read = [&](std::string_view tensor, Slice outputs, Slice inputs,
                        WeightReader::Bias bias) {
    return reader.weights.experts(reader.name(tensor), numbers_, outputs, inputs, bias);
  };
  if (reader.has("ffn_latent_down.weight"))
    return base::fail("{}: layer {} has experts of a latent width, which kvick does not run",
                      reader.weights.path(), reader.layer);
  if (!gated()) {
    gate_.resize(numbers_.count);
    KVICK_TRY(up_, read("ffn_up", width, dim, kOptional));
  } else if (reader.has("ffn_gate_up_exps.weight")) {
    KVICK_TRY(gate_, read("ffn_gate_up", rows_of_both(width, false), dim, kOptional));
    KVICK_TRY(up_, read("ffn_gate_up", rows_of_both(width, true), dim, kOptional));
  } else {
    KVICK_TRY(gate_, read("ffn_gate", width, dim, kOptional));
    KVICK_TRY(up_, read("ffn_up", width, dim, kOptional));
  }
  KVICK_TRY(down_, read("ffn_down", dim, width, reader.share.adds_biases ? kOptional : kElsewhere));
  if (reader.has("ffn_exps.bias") && reader.share.adds_biases) {
    KVICK_TRY(sum_bias_, reader.weights.vector(reader.name("ffn_exps.bias"), dim));
  }
  memory_ = reader.expert_memory;
  if (memory_ == nullptr) return base::Done{};
  std::vector<ExpertMatrices> experts(numbers_.count);
  for (uint32_t e = 0; e < numbers_.count; ++e) experts[e] = {&gate_[e].w, &up_[e].w, &down_[e].w};
  memory_layer_ = memory_->add_layer(experts, numbers_.used);
  return base::Done{};
}

base::Status<> Mixture::read_shared(const BlockReader& reader) {
  using enum WeightReader::Bias;
  if (numbers_.shared_ffn == 0) return base::Done{};
  const bool weighed = reader.has("ffn_gate_inp_shexp.weight");
  if (traits_.activation == Activation::kOai || traits_.activation == Activation::kGelu ||
      (weighed && !gated()))
    return base::fail("{}: layer {} has a shared expert of a form that kvick does not run",
                      reader.weights.path(), reader.layer);
  if (traits_.parallel) return read_parallel(reader);
  const uint32_t dim = reader.config.dim;
  const Slice width = reader.of_shared_width();
  const auto part = [&](const char* own, bool up) {
    if (!reader.has("ffn_gate_up_shexp.weight")) return reader.linear(own, width, dim, kOptional);
    return reader.linear("ffn_gate_up_shexp", rows_of_both(width, up), dim, kOptional);
  };
  if (gated()) {
    KVICK_TRY(shared_.gate, part("ffn_gate_shexp", false));
  }
  KVICK_TRY(shared_.up, part("ffn_up_shexp", true));
  KVICK_TRY(shared_.down, reader.linear_back("ffn_down_shexp", width, kOptional));
  if (weighed) {
    KVICK_TRY(shared_.share, reader.weights.row(reader.name("ffn_gate_inp_shexp"), dim));
  }
  return base::Done{};
}

// The router's input is divided by the root of its width; the factor goes into its norm's weights.
base::Status<> Mixture::read_parallel(const BlockReader& reader) {
  using enum WeightReader::Bias;
  const uint32_t dim = reader.config.dim;
  if (!reader.of_width().all())
    return base::fail(
        "{}: layer {} adds up a feed-forward block and experts behind norms of their own, which "
        "--ranks cannot divide; use --pipeline",
        reader.weights.path(), reader.layer);
  const uint32_t width = numbers_.shared_ffn;
  KVICK_TRY(shared_.gate, reader.linear("ffn_gate", width, dim, kNone));
  KVICK_TRY(shared_.up, reader.linear("ffn_up", width, dim, kNone));
  KVICK_TRY(shared_.down, reader.linear("ffn_down", dim, width, kNone));
  KVICK_TRY(parallel_.shared, reader.norm("ffn_norm"));
  KVICK_TRY(parallel_.behind_shared, reader.norm("post_ffw_norm_1"));
  KVICK_TRY(parallel_.behind_experts, reader.norm("post_ffw_norm_2"));
  KVICK_TRY(parallel_.router.weight, reader.weights.vector(reader.name("ffn_gate_inp.scale"), dim));
  for (float& w : parallel_.router.weight) w /= std::sqrt(static_cast<float>(dim));
  if (reader.has("ffn_down_exps.scale")) {
    KVICK_TRY(output_scale_,
              reader.weights.vector(reader.name("ffn_down_exps.scale"), numbers_.count));
  }
  return base::Done{};
}

base::Result<std::unique_ptr<Block>> Mixture::read(const BlockReader& reader,
                                                   const MixtureTraits& traits) {
  auto block = std::make_unique<Mixture>();
  block->numbers_ = reader.numbers().experts;
  block->traits_ = traits;
  const uint32_t count = block->numbers_.count, dim = reader.config.dim;
  KVICK_TRY(block->norms_, reader.norms_of(traits.norms));
  KVICK_TRY(block->router_,
            reader.linear("ffn_gate_inp", count, dim, WeightReader::Bias::kOptional));
  if (reader.has("exp_probs_b.bias")) {
    KVICK_TRY(block->selection_bias_,
              reader.weights.vector(reader.name("exp_probs_b.bias"), count));
  }
  KVICK_TRY_VOID(block->read_experts(reader));
  KVICK_TRY_VOID(block->read_shared(reader));
  return std::unique_ptr<Block>(std::move(block));
}

// Chooses the experts of all tokens. Fills x, [tokens][dim], with the experts' input.
std::vector<Choice> Mixture::route(const Pass& pass, Rest rest, float* x) const {
  Workspace& workspace = pass.workspace;
  const size_t dim = pass.config.dim, count = numbers_.count;
  float* const logits = workspace.floats(Workspace::kRouter, pass.tokens * 3 * count);
  float* const scratch = logits + pass.tokens * count;
  const bool own = !parallel_.router.empty();
  float* const read = own ? workspace.floats(Workspace::kExpertInputs, pass.tokens * dim) : x;
  const auto prepare = [&](uint32_t t) {
    norm_token(pass, rest, norms_.before, t, x + t * dim);
    if (own)
      parallel_.router.apply(workspace.kernels, pass.hidden + t * dim, dim, pass.config.norm_eps,
                             read + t * dim);
  };
  project(workspace, pass.runs, read, prepare, {{&router_, logits}});
  std::vector<Choice> chosen(size_t{pass.tokens} * numbers_.used);
  workspace.for_tokens(pass.tokens, 8 * count, [&](uint32_t t) {
    choose_experts(numbers_, logits + t * count, selection_bias_, scratch + t * 2 * count,
                   chosen.data() + size_t{t} * numbers_.used);
  });
  if (!output_scale_.empty())
    for (Choice& choice : chosen) choice.weight *= output_scale_[choice.expert];
  return chosen;
}

void Mixture::activate(const kernels::Table& kernels, const Room& room, size_t pair) const {
  const size_t n = numbers_.ffn;
  float* const gate = room.gate + pair * n;
  float* const up = room.up + pair * n;
  switch (traits_.activation) {
    case Activation::kSilu:
      return kernels.silu_mul(gate, up, n, gate);
    case Activation::kGatedGelu:
      return gelu_mul(kernels, gate, up, n, gate);
    case Activation::kOai:
      return gated_oai(kernels, gate, up, n, gate);
    case Activation::kReluSquared:
      return relu_squared(kernels, up, n);
    case Activation::kGelu:
      return gelu(kernels, up, n);
  }
}

Mixture::Room Mixture::room_for(const Pass& pass, const ExpertPairs& pairs) const {
  Workspace& workspace = pass.workspace;
  const size_t dim = pass.config.dim, ffn = numbers_.ffn, n = pairs.token.size();
  float* const gate = workspace.floats(Workspace::kExpertFfn, 2 * n * ffn);
  return {.inputs = workspace.floats(Workspace::kExpertInputs, n * dim),
          .gate = gate,
          .up = gate + n * ffn,
          .out = workspace.floats(Workspace::kExpertOutputs, n * dim)};
}

// Computes some of the runs; experts: one per run.
void Mixture::compute_runs(const Pass& pass, const ExpertPairs& pairs,
                           std::span<const TokenRun> runs, std::span<const uint32_t> experts,
                           const float* x, const Room& room) const {
  Workspace& workspace = pass.workspace;
  const size_t dim = pass.config.dim;
  const auto gather = [&](uint32_t pair) {
    const float* const from = x + pairs.token[pair] * dim;
    float* const to = room.inputs + pair * dim;
    std::copy_n(from, dim, to);
    if (traits_.weighs_inputs)
      for (size_t i = 0; i < dim; ++i) to[i] *= pairs.weight[pair];
  };
  std::vector<RunOutput> outputs;
  for (size_t r = 0; r < runs.size(); ++r) {
    if (gated()) outputs.push_back({r, &gate_[experts[r]], room.gate});
    outputs.push_back({r, &up_[experts[r]], room.up});
  }
  project_each(workspace, runs, room.inputs, gather, outputs);
  outputs.clear();
  for (size_t r = 0; r < runs.size(); ++r) outputs.push_back({r, &down_[experts[r]], room.out});
  const auto prepare = [&](uint32_t pair) { activate(workspace.kernels, room, pair); };
  project_each(workspace, runs, activated(room), prepare, outputs);
}

// Returns the outputs of the experts, [pairs][dim].
const float* Mixture::compute(const Pass& pass, const ExpertPairs& pairs, const float* x) const {
  if (memory_ != nullptr) return compute_in_turns(pass, pairs, x);
  const Room room = room_for(pass, pairs);
  compute_runs(pass, pairs, pairs.runs, pairs.experts, x, room);
  return room.out;
}

// The same with ExpertMemory: the experts that are already in memory are computed first.
const float* Mixture::compute_in_turns(const Pass& pass, const ExpertPairs& pairs,
                                       const float* x) const {
  const Room room = room_for(pass, pairs);
  std::vector<uint32_t> needed = pairs.experts;  // an expert has one run or two
  needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
  ExpertMemory::Turn turn(*memory_, memory_layer_, needed, pass.workspace.pool);
  for (auto given = turn.next(); !given.empty(); given = turn.next()) {
    std::vector<TokenRun> runs;
    std::vector<uint32_t> experts;
    for (const uint32_t i : given) {
      const auto [begin, end] =
          std::equal_range(pairs.experts.begin(), pairs.experts.end(), needed[i]);
      for (auto at = begin; at != end; ++at) {
        runs.push_back(pairs.runs[static_cast<size_t>(at - pairs.experts.begin())]);
        experts.push_back(*at);
      }
    }
    compute_runs(pass, pairs, runs, experts, x, room);
  }
  return room.out;
}

// Computes the shared expert's output y, [tokens][dim]. x: its input, or scratch for it.
void Mixture::run_shared(const Pass& pass, float* x, float* y) const {
  const size_t dim = pass.config.dim;
  if (shared_.empty()) {
    pass.workspace.for_tokens(pass.tokens, dim,
                              [&](uint32_t t) { std::fill_n(y + t * dim, dim, 0.0F); });
    return;
  }
  if (!gated()) return run_shared_ungated(pass, x, y);
  const auto prepare = [&](uint32_t t) {
    if (traits_.parallel)
      parallel_.shared.apply(pass.workspace.kernels, pass.hidden + t * dim, dim,
                             pass.config.norm_eps, x + t * dim);
  };
  project_gated(
      pass.workspace, pass.runs, x, prepare,
      {shared_.gate, shared_.up, shared_.down, traits_.activation == Activation::kGatedGelu}, y);
  if (shared_.share.w.rows == 0) return;
  float* const share = pass.workspace.floats(Workspace::kRouter, pass.tokens);
  project(pass.workspace, pass.runs, x, [](uint32_t) {}, {{&shared_.share, share}});
  pass.workspace.for_tokens(pass.tokens, dim, [&](uint32_t t) {
    const float counts = 1 / (1 + std::exp(-share[t]));
    for (size_t i = 0; i < dim; ++i) y[t * dim + i] *= counts;
  });
}

void Mixture::run_shared_ungated(const Pass& pass, const float* x, float* y) const {
  const size_t width = shared_.up.w.rows;
  float* const up = pass.workspace.floats(Workspace::kFfn, pass.tokens * width);
  project(pass.workspace, pass.runs, x, [](uint32_t) {}, {{&shared_.up, up}});
  const auto square = [&](uint32_t t) {
    relu_squared(pass.workspace.kernels, up + t * width, width);
  };
  project(pass.workspace, pass.runs, up, square, {{&shared_.down, y}});
}

// Adds the experts' outputs to y, which holds the shared expert's. x: scratch, [tokens][dim]. Adds
// in the order of the choices, so a token's sum has the same bits in any batch.
void Mixture::add_up(const Pass& pass, const ExpertPairs& pairs, const float* outputs, float* x,
                     float* y) const {
  const size_t dim = pass.config.dim;
  const uint32_t used = numbers_.used;
  const kernels::Table& kernels = pass.workspace.kernels;
  pass.workspace.for_tokens(pass.tokens, used * dim, [&](uint32_t t) {
    float* const all = y + t * dim;
    float* const sum = traits_.parallel ? x + t * dim : all;
    if (traits_.parallel) std::fill_n(sum, dim, 0.0F);
    for (uint32_t i = 0; i < used; ++i) {
      const uint32_t pair = pairs.of[t * used + i];
      const float weight = traits_.weighs_inputs ? 1 : pairs.weight[pair];
      kernels.axpy(sum, weight, outputs + pair * dim, dim);
    }
    if (!sum_bias_.empty()) kernels.add(sum, sum_bias_.data(), dim);
    if (!traits_.parallel) return;
    parallel_.behind_experts.apply(kernels, sum, dim, pass.config.norm_eps, sum);
    parallel_.behind_shared.apply(kernels, all, dim, pass.config.norm_eps, all);
    kernels.add(all, sum, dim);
  });
}

Rest Mixture::run(const Pass& pass, Rest rest) const {
  float* const x = pass.workspace.floats(Workspace::kNormed, pass.tokens * size_t{pass.config.dim});
  const ExpertPairs pairs = expert_pairs(pass.runs, numbers_, route(pass, rest, x));
  const float* const outputs = compute(pass, pairs, x);
  float* const y = room_for_output(pass);
  run_shared(pass, x, y);
  add_up(pass, pairs, outputs, x, y);
  return rest_of(sum_of_ranks(pass, y), norms_);
}

}  // namespace

base::Result<std::unique_ptr<Block>> read_mixture(const BlockReader& reader,
                                                  const MixtureTraits& traits) {
  return Mixture::read(reader, traits);
}

}  // namespace kvick::model
