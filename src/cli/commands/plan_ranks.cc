#include "cli/commands/plan_ranks.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvick::cli {

using plan::network_s;

base::Result<PlannedRanks> plan_ranks(base::ThreadPool& pool, const kernels::Table& kernels,
                                      const RankQuestion& question, const PlanReport& report) {
  KVICK_TRY(const plan::ModelSize share, plan::size_of_share(report.model, question.ranks));
  const auto lone = plan::lone_rank(question.ranks);
  PlanReport of_share = report;
  of_share.model = share;
  kv::Setup setup = plan_setup(of_share, kernels, pool);
  setup.compute.growth_rates = [rates = report.rates] { return rates; };
  setup.tier.spec.reset();
  constexpr uint32_t kChunk = 512;
  KVICK_TRY(const plan::Predictor predictor,
            plan::Predictor::measure({.model = share,
                                      .spec = report.kv.spec,
                                      .setup = setup,
                                      .rates = report.rates,
                                      .batch = report.batch,
                                      .tokens = report.tokens,
                                      .prefill_chunk = kChunk,
                                      .ranks = lone.get()},
                                     model::Workspace(pool, kernels)));
  PlannedRanks planned = {.ranks = question.ranks};
  const model::Config& config = report.model.config;
  const plan::Network& network = question.network;
  planned.token_compute_s = predictor.token(report.tokens).all();
  planned.token_network_s = network_s(config, question.ranks, network, report.batch, report.batch);
  planned.prefill_s = predictor.prefill_s(report.tokens);
  for (uint32_t first = 0; first < report.tokens; first += kChunk) {
    const uint32_t chunk = std::min(kChunk, report.tokens - first);
    planned.prefill_s +=
        network_s(config, question.ranks, network, chunk, first + chunk == report.tokens ? 1 : 0);
  }
  planned.decode_tok_s = report.batch / (planned.token_compute_s + planned.token_network_s);
  planned.weight_bytes = plan::packed_bytes(share);
  return planned;
}

nlohmann::ordered_json ranks_json(const PlannedRanks& ranks) {
  return {{"ranks", ranks.ranks},
          {"weight_bytes", ranks.weight_bytes},
          {"predicted_decode_tok_s", ranks.decode_tok_s},
          {"predicted_prefill_s", ranks.prefill_s},
          {"token_s", {{"compute", ranks.token_compute_s}, {"network", ranks.token_network_s}}}};
}

std::string ranks_text(const PlannedRanks& ranks, const PlanReport& report) {
  const double alone = report.ways.front().decode_tok_s;
  return fmt::format(
             "{} machines like this one   decode tok/s, one load   all together   a prompt of {} "
             "tokens\n",
             ranks.ranks, report.tokens) +
         fmt::format("one model (--ranks)        {:>22.1f}{:>15.1f}{:>19.2f} s\n",
                     ranks.decode_tok_s, ranks.decode_tok_s, ranks.prefill_s) +
         fmt::format("a copy on each (replicas)  {:>22.1f}{:>15.1f}{:>19.2f} s\n", alone,
                     ranks.ranks * alone, report.prefill_s) +
         fmt::format("a token with --ranks: {:.2f} ms computed, {:.2f} ms on the network\n\n",
                     1e3 * ranks.token_compute_s, 1e3 * ranks.token_network_s);
}

std::string ranks_advice(const PlannedRanks& ranks, const PlanReport& report) {
  const double alone = report.ways.front().decode_tok_s;
  if (!report.fits())
    return fmt::format(
        "on one machine it does not fit: --ranks {} keeps {:.2f} GB of weights on each",
        ranks.ranks, static_cast<double>(ranks.weight_bytes) / 1e9);
  if (ranks.decode_tok_s < 1.1 * alone)
    return fmt::format(
        "use replicas behind a router: over this network --ranks {} decodes {:.2f} times what one "
        "machine does",
        ranks.ranks, ranks.decode_tok_s / alone);
  return fmt::format(
      "replicas behind a router answer most requests ({:.1f} times one machine); --ranks {} "
      "answers each one {:.2f} times as fast",
      static_cast<double>(ranks.ranks), ranks.ranks, ranks.decode_tok_s / alone);
}

}  // namespace kvick::cli
