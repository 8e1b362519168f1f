#include "cli/commands/plan_ranks.h"

#include <algorithm>
#include <fmt/format.h>

#include "model/core/share.h"

namespace kvick::cli {
namespace {

using plan::network_s;
using plan::PiecesOfStep;

constexpr uint32_t kChunk = 512;  // tokens of a prompt chunk
constexpr uint32_t kNoPrompt = 0;
constexpr uint32_t kMany = 16;  // sequences compared if the plan is for one
// Bytes of the layers measured: more than any CPU cache holds, and a quarter of what the plan of
// one machine takes, since five or six predictors are measured here.
constexpr uint64_t kSampleBytes = uint64_t{256} << 20;

// Measures the compute time of one of the machines.
class Machine {
 public:
  Machine(base::ThreadPool& pool, const kernels::Table& kernels, const RankQuestion& question,
          const PlanReport& report)
      : pool_(pool), kernels_(kernels), question_(question), report_(report) {}

  base::Result<PlannedSplit> replicas(uint32_t many) const;
  base::Result<PlannedSplit> tensor(uint32_t many) const;
  base::Result<PlannedSplit> pipeline(uint32_t many) const;
  // Measures one sequence on the whole model, which the other methods compare with. Call it first.
  base::Status<> measure_one();

 private:
  const model::Config& config() const { return report_.model.config; }
  // With chunk = kNoPrompt, only steps of single tokens are measured.
  base::Result<plan::Predictor> measure(const plan::ModelSize& model, uint32_t batch,
                                        uint32_t chunk, model::Ranks* ranks = nullptr) const;
  // Returns how a step of `tokens` tokens is cut into pieces for the pipeline.
  PiecesOfStep pieces_of(uint32_t tokens) const;
  base::Result<double> pipeline_prompt_s(std::span<const double> stages) const;

  base::ThreadPool& pool_;
  const kernels::Table& kernels_;
  const RankQuestion& question_;
  const PlanReport& report_;
  std::optional<plan::Predictor> one_;
};

base::Result<plan::Predictor> Machine::measure(const plan::ModelSize& model, uint32_t batch,
                                               uint32_t chunk, model::Ranks* ranks) const {
  PlanReport of_model = report_;
  of_model.model = model;
  kv::Setup setup = plan_setup(of_model, kernels_, pool_);
  setup.compute.growth_rates = [rates = report_.rates] { return rates; };
  setup.tier.spec.reset();
  return plan::Predictor::measure({.model = model,
                                   .spec = report_.kv.spec,
                                   .setup = setup,
                                   .rates = report_.rates,
                                   .batch = batch,
                                   .tokens = report_.tokens,
                                   .prefill_chunk = chunk,
                                   .prompt_role = report_.prompt_role,
                                   .state_type = report_.kv.type_of_states(),
                                   .most_bytes = kSampleBytes,
                                   .ranks = ranks},
                                  model::Workspace(pool_, kernels_));
}

base::Status<> Machine::measure_one() {
  KVICK_TRY(plan::Predictor one, measure(report_.model, 1, kChunk));
  one_.emplace(std::move(one));
  return base::Done{};
}

base::Result<PlannedSplit> Machine::replicas(uint32_t many) const {
  // Each replica runs its part of the sequences.
  const uint32_t each = std::max(1U, many / question_.ranks);
  KVICK_TRY(const plan::Predictor some, measure(report_.model, each, kNoPrompt));
  const double token_s = one_->token(report_.tokens).all();
  return PlannedSplit{.weight_bytes = plan::packed_bytes(report_.model),
                      .one_tok_s = 1 / token_s,
                      .many_tok_s = question_.ranks * each / some.token(report_.tokens).all(),
                      .prefill_s = one_->prefill_s(report_.tokens),
                      .compute_s = token_s};
}

base::Result<PlannedSplit> Machine::tensor(uint32_t many) const {
  const auto [ranks, network] = question_;
  KVICK_TRY(const plan::ModelSize share, plan::size_of_share(report_.model, ranks));
  const auto lone = plan::lone_rank(ranks);
  KVICK_TRY(const plan::Predictor one, measure(share, 1, kChunk, lone.get()));
  KVICK_TRY(const plan::Predictor all, measure(share, many, kNoPrompt, lone.get()));
  PlannedSplit split = {.weight_bytes = plan::packed_bytes(share)};
  split.compute_s = one.token(report_.tokens).all();
  split.wait_s = network_s(config(), ranks, network, 1, 1);
  split.one_tok_s = 1 / (split.compute_s + split.wait_s);
  split.many_tok_s =
      many / (all.token(report_.tokens).all() + network_s(config(), ranks, network, many, many));
  split.prefill_s = one.prefill_s(report_.tokens);
  for (uint32_t first = 0; first < report_.tokens; first += kChunk) {
    const uint32_t chunk = std::min(kChunk, report_.tokens - first);
    split.prefill_s +=
        network_s(config(), ranks, network, chunk, first + chunk == report_.tokens ? 1 : 0);
  }
  return split;
}

PiecesOfStep Machine::pieces_of(uint32_t tokens) const {
  const uint32_t each = std::min(tokens, model::piece_tokens(tokens, question_.ranks));
  return {.pieces = (tokens + each - 1) / each, .tokens = each};
}

base::Result<double> Machine::pipeline_prompt_s(std::span<const double> stages) const {
  PiecesOfStep step = pieces_of(std::min(kChunk, report_.tokens));
  KVICK_TRY(const plan::Predictor piece, measure(report_.model, 1, step.tokens));
  step.output_s = piece.token(report_.tokens).output;
  const uint32_t in_all = (report_.tokens + step.tokens - 1) / step.tokens;
  step.layers_s = (piece.prefill_s(report_.tokens) - step.output_s) / in_all;
  const double outputs = std::exchange(step.output_s, 0);
  double seconds = outputs;
  for (uint32_t left = in_all; left > 0; left -= step.pieces) {
    step.pieces = std::min(step.pieces, left);
    seconds +=
        plan::pipeline_s(config(), stages, question_.network, step, left == step.pieces ? 1 : 0);
  }
  return seconds;
}

base::Result<PlannedSplit> Machine::pipeline(uint32_t many) const {
  KVICK_TRY(const std::vector<double> stages, plan::stages_of(report_.model, question_.ranks));
  const auto step_s = [&](PiecesOfStep step, const plan::TokenSeconds& token, uint32_t wanted) {
    step.layers_s = token.layers + token.attention + token.copies;
    step.output_s = token.output;
    return plan::pipeline_s(config(), stages, question_.network, step, wanted);
  };
  const PiecesOfStep of_many = pieces_of(many);
  KVICK_TRY(const plan::Predictor piece, measure(report_.model, of_many.tokens, kNoPrompt));
  PlannedSplit split;
  split.weight_bytes = plan::stage_bytes(report_.model, stages);
  const plan::TokenSeconds token = one_->token(report_.tokens);
  split.compute_s = token.all();
  const double all = step_s({}, token, 1);
  split.wait_s = all - split.compute_s;
  split.one_tok_s = 1 / all;
  split.many_tok_s = many / step_s(of_many, piece.token(report_.tokens), many);
  KVICK_TRY(split.prefill_s, pipeline_prompt_s(stages));
  return split;
}

nlohmann::ordered_json split_json(const std::optional<PlannedSplit>& split) {
  if (!split) return nullptr;
  return {{"weight_bytes", split->weight_bytes},
          {"predicted_one_tok_s", split->one_tok_s},
          {"predicted_many_tok_s", split->many_tok_s},
          {"predicted_prefill_s", split->prefill_s},
          {"token_s", {{"compute", split->compute_s}, {"network", split->wait_s}}}};
}

std::string split_text(std::string_view name, const std::optional<PlannedSplit>& split,
                       const std::string& why_not) {
  if (!split) return fmt::format("{:<30}not possible: {}\n", name, why_not);
  return fmt::format("{:<30}{:>9.2f} GB{:>13.1f}{:>17.1f}{:>12.2f} s\n", name,
                     static_cast<double>(split->weight_bytes) / 1e9, split->one_tok_s,
                     split->many_tok_s, split->prefill_s);
}

}  // namespace

base::Result<PlannedRanks> plan_ranks(base::ThreadPool& pool, const kernels::Table& kernels,
                                      const RankQuestion& question, const PlanReport& report) {
  Machine machine(pool, kernels, question, report);
  KVICK_TRY_VOID(machine.measure_one());
  PlannedRanks planned = {
      .ranks = question.ranks, .many = report.batch > 1 ? report.batch : kMany, .replicas = {}};
  KVICK_TRY(planned.replicas, machine.replicas(planned.many));
  auto tensor = machine.tensor(planned.many);
  auto pipeline = machine.pipeline(planned.many);
  if (!tensor.ok() && !pipeline.ok()) return tensor.error();
  if (tensor.ok())
    planned.tensor = *tensor;
  else
    planned.no_tensor = tensor.error().message;
  if (pipeline.ok())
    planned.pipeline = *pipeline;
  else
    planned.no_pipeline = pipeline.error().message;
  return planned;
}

nlohmann::ordered_json ranks_json(const PlannedRanks& ranks) {
  return {{"ranks", ranks.ranks},
          {"many", ranks.many},
          {"replicas", split_json(ranks.replicas)},
          {"tensor", split_json(ranks.tensor)},
          {"pipeline", split_json(ranks.pipeline)}};
}

std::string ranks_text(const PlannedRanks& ranks, const PlanReport& report) {
  return fmt::format("{:<30}{:>12}{:>13}{:>17}{:>14}\n",
                     fmt::format("{} machines like this one", ranks.ranks), "weights each",
                     "1 sequence", fmt::format("{} sequences", ranks.many),
                     fmt::format("prompt of {}", report.tokens)) +
         split_text("a copy on each (replicas)", ranks.replicas, "") +
         split_text("one model, --ranks", ranks.tensor, ranks.no_tensor) +
         split_text("one model, --ranks --pipeline", ranks.pipeline, ranks.no_pipeline) + "\n";
}

std::string ranks_advice(const PlannedRanks& ranks, const PlanReport& report) {
  const auto speed = [](const std::optional<PlannedSplit>& split) {
    return split ? split->one_tok_s : 0;
  };
  const bool tensor = speed(ranks.tensor) >= speed(ranks.pipeline);
  const std::string way =
      fmt::format("--ranks{} on {} machines", tensor ? "" : " --pipeline", ranks.ranks);
  const PlannedSplit& split = tensor ? *ranks.tensor : *ranks.pipeline;
  if (!report.fits())
    return fmt::format("on one machine it does not fit: {} keeps {:.2f} GB of weights on each", way,
                       static_cast<double>(split.weight_bytes) / 1e9);
  const double times = split.one_tok_s / ranks.replicas.one_tok_s;
  if (times < 1.1)
    return fmt::format(
        "use replicas behind a router: over this network {} decodes {:.2f} times what one machine "
        "does",
        way, times);
  return fmt::format(
      "replicas behind a router answer most requests ({:.1f} tokens/s together); {} answers each "
      "one {:.2f} times as fast",
      ranks.replicas.many_tok_s, way, times);
}

}  // namespace kvick::cli
