#include "cli/commands/plan_report.h"

#include <algorithm>
#include <fmt/format.h>

#include "cli/options/engine_options.h"
#include "kv/stores/growth_model.h"
#include "plan/machine/calibration_file.h"

namespace kvick::cli {
namespace {

kv::Setup setup_of(const PlanReport& report, const kernels::Table& kernels,
                   base::ThreadPool& pool) {
  const model::Config& config = report.model.config;
  kv::Setup setup;
  const model::LayerConfig& layer = config.layers.front();
  const model::Rope& rope = config.rope_of(0);
  setup.shape = {.layers = config.layer_count(),
                 .kv_heads = layer.kv_heads,
                 .head_dim = layer.k_dim,
                 .max_tokens = report.tokens,
                 .k_type = report.k_type(),
                 .v_type = report.v_type(),
                 .aging = report.kv.aging};
  setup.tier.spec = report.kv.tier;
  setup.compute.store_row = kernels.store_row;
  setup.compute.store_group = kernels.store_group;
  setup.compute.pool = &pool;
  setup.compute.kernels = &kernels;
  setup.select.spec = engine::reads_all(report.kv) ? kv::Spec{} : report.kv.select;
  setup.select.group = layer.group();
  setup.select.model_dim = config.dim;
  setup.select.rotation = {
      .frequency = rope.frequency, .dims = rope.dims, .interleaved = rope.interleaved};
  return setup;
}

// The largest n in [0, most] for which the weights and the cache fit.
uint64_t largest(uint64_t most, base::FunctionRef<bool(uint64_t)> fits) {
  uint64_t low = 0, high = most;
  while (low < high) {
    const uint64_t middle = low + (high - low + 1) / 2;
    if (fits(middle))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

void find_limits(const kv::Setup& setup, PlanReport& report) {
  const uint64_t weights = report.weight_bytes();
  const auto fits = [&](uint64_t tokens, uint64_t batch) {
    kv::Setup wide = setup;
    wide.shape.max_tokens = static_cast<uint32_t>(std::max<uint64_t>(1, tokens));
    const auto cost =
        kv::cost_of(report.kv.spec, wide,
                    {.tokens = wide.shape.max_tokens, .sequences = static_cast<uint32_t>(batch)});
    return cost.ok() && weights + cost->fast_bytes <= report.memory_bytes &&
           cost->fast_bytes <= UINT64_MAX - weights;
  };
  report.largest_context = largest(report.model.config.context,
                                   [&](uint64_t tokens) { return fits(tokens, report.batch); });
  report.largest_batch =
      largest(1 << 20, [&](uint64_t batch) { return fits(report.tokens, batch); });
}

std::string giga(double bytes) {
  if (bytes >= 1e12) return fmt::format("{:.2f} TB", bytes / 1e12);
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  return bytes >= 1e6 ? fmt::format("{:.2f} MB", bytes / 1e6)
                      : fmt::format("{:.2f} kB", bytes / 1e3);
}
std::string giga(uint64_t bytes) { return giga(static_cast<double>(bytes)); }

}  // namespace

base::Status<> fill_plan(base::ThreadPool& pool, const kernels::Table& kernels,
                         engine::Attention attention, PlanReport& report) {
  kernels::BucketAttention library;
  model::Workspace workspace(pool, kernels);
  const bool bmm = attention == engine::Attention::kBmm;
  if (bmm) workspace.library = &library;
  kv::Setup setup = setup_of(report, kernels, pool);
  // First, so that what cannot be is refused before it is measured.
  const kv::Load load = {.tokens = report.tokens, .sequences = report.batch};
  setup.compute.growth_rates = [] { return kv::GrowthRates{.copy_bytes_s = 1}; };
  KVICK_TRY_VOID(kv::cost_of(report.kv.spec, setup, load));
  KVICK_TRY(report.rates, plan::measure_growth(report.model.config, setup, workspace));
  setup.compute.growth_rates = [rates = report.rates] { return rates; };
  report.spec_rates = report.rates;
  if (report.spec_rows > 1) {
    KVICK_TRY(report.spec_rates, plan::measure_growth(report.model.config, setup, workspace,
                                                      base::steady_seconds, report.spec_rows));
  }
  report.growths = kv::best_growths(report.tokens, setup.shape.token_bytes(), report.spec_rates,
                                    report.spec_tokens);
  // What a step does once its rows are in memory: the tier's part is advice_of's to say.
  kv::Setup in_memory = setup;
  in_memory.tier.spec.reset();
  const kv::Spec plain = {.name = std::string(kv::default_strategy(false, false).name),
                          .options = {}};
  auto predictor = plan::Predictor::measure({.model = report.model,
                                             .spec = setup.tier.spec ? plain : report.kv.spec,
                                             .setup = in_memory,
                                             .rates = report.rates,
                                             .batch = report.batch,
                                             .tokens = report.tokens},
                                            std::move(workspace));
  if (!predictor.ok()) return predictor.error();
  report.prefill_s = predictor->prefill_s(report.tokens);
  std::vector<kv::Spec> specs = {report.kv.spec};
  for (const kv::Strategy& strategy : kv::strategies())
    if (strategy.name != report.kv.spec.name)
      specs.push_back({.name = std::string(strategy.name), .options = {}});
  for (const kv::Spec& spec : specs) {
    const bool asked = report.ways.empty();
    const auto cost =
        kv::cost_of(spec, setup, {.tokens = report.tokens, .sequences = report.batch});
    if (!cost.ok() && asked) return cost.error();
    const kv::Strategy* strategy = kv::find_strategy(spec.name);
    if (!cost.ok() || (bmm && !strategy->traits.buckets && !asked)) continue;
    const plan::TokenSeconds token = predictor->token(report.tokens, spec);
    report.ways.push_back(
        {.spec = spec, .cost = *cost, .token = token, .decode_tok_s = report.batch / token.all()});
  }
  find_limits(setup, report);
  return base::Done{};
}

std::vector<std::string> advice_of(const PlanReport& report) {
  std::vector<std::string> advice;
  const PlannedWay& asked = report.ways.front();
  if (asked.cost.slow_read_bytes_per_token > 0)
    advice.push_back(fmt::format(
        "a step reads {} from the slower tier, which the prediction does not wait for: at 1 GB/s "
        "no more than {:.1f} tokens/s",
        giga(asked.cost.slow_read_bytes_per_token),
        report.batch * 1e9 / static_cast<double>(asked.cost.slow_read_bytes_per_token)));
  const uint64_t all = report.weight_bytes() + asked.cost.fast_bytes;
  if (!report.fits())
    advice.push_back(fmt::format(
        "weights and cache take {}, more than the {} there are: {} tokens a sequence fit, or {} "
        "sequences of {} tokens",
        giga(all), giga(report.memory_bytes), report.largest_context, report.largest_batch,
        report.tokens));
  const double share = asked.token.attention / asked.token.all();
  const bool wide =
      report.k_type() != kernels::DType::kQ8 && report.k_type() != kernels::DType::kQ4;
  if (wide && (share > 0.3 || !report.fits()))
    advice.push_back(fmt::format(
        "attention takes {:.0f} % of a token at {} tokens: --kv-type q8 reads {:.0f} % of the "
        "bytes",
        100 * share, report.tokens, report.k_type() == kernels::DType::kF32 ? 27.0 : 53.0));
  for (const PlannedWay& way : report.ways)
    if (way.decode_tok_s > 1.1 * asked.decode_tok_s) {
      advice.push_back(fmt::format("{} decodes {:.1f} tokens/s where {} decodes {:.1f}",
                                   way.spec.name, way.decode_tok_s, asked.spec.name,
                                   asked.decode_tok_s));
      break;
    }
  if (report.others.value_or(0) > plan::kBusyShare)
    advice.push_back(fmt::format(
        "others used {:.0f} % of the cores while this was measured: run it again when the machine "
        "is idle",
        100 * *report.others));
  if (asked.cost.copied_bytes > 0)
    advice.push_back(
        fmt::format("{} copies {} on the way to {} tokens; virtual and paged copy nothing",
                    asked.spec.name, giga(asked.cost.copied_bytes), report.tokens));
  if (report.batch > 1 && asked.spec.name != "paged")
    advice.push_back("sequences whose prompts begin alike share their rows with --kv paged");
  if (advice.empty())
    advice.push_back(
        fmt::format("nothing to change: {} of {} are taken", giga(all), giga(report.memory_bytes)));
  return advice;
}

nlohmann::ordered_json plan_json(const PlanReport& report) {
  const PlannedWay& asked = report.ways.front();
  nlohmann::ordered_json ways = nlohmann::ordered_json::array();
  for (const PlannedWay& way : report.ways)
    ways.push_back({{"strategy", kv::spec_text(way.spec)},
                    {"kv_bytes", way.cost.fast_bytes + way.cost.slow_bytes},
                    {"read_bytes_per_token", way.cost.read_bytes_per_token},
                    {"copied_bytes", way.cost.copied_bytes},
                    {"predicted_decode_tok_s", way.decode_tok_s}});
  return {{"model", report.model.config.name},
          {"strategy", kv::spec_text(asked.spec)},
          {"kv_type", engine::kv_type_text(report.kv)},
          {"kv_select", engine::kv_select_text(report.kv)},
          {"tokens", report.tokens},
          {"batch", report.batch},
          {"weight_bytes", report.weight_bytes()},
          {"kv_bytes", asked.cost.fast_bytes + asked.cost.slow_bytes},
          {"fast_bytes", asked.cost.fast_bytes},
          {"slow_bytes", asked.cost.slow_bytes},
          {"read_bytes_per_token", asked.cost.read_bytes_per_token},
          {"slow_read_bytes_per_token", asked.cost.slow_read_bytes_per_token},
          {"copied_bytes", asked.cost.copied_bytes},
          {"bmc",
           {{"T", report.growths},
            {"r", (report.tokens + report.growths - 1) / report.growths},
            {"k", report.spec_rows},
            {"m", report.spec_tokens},
            {"copy_bytes_s", report.spec_rates.copy_bytes_s},
            {"growth_s", report.spec_rates.growth_s},
            {"attention_bytes_s", report.spec_rates.attention_bytes_s}}},
          {"predicted_decode_tok_s", asked.decode_tok_s},
          {"predicted_prefill_s", report.prefill_s},
          {"token_s",
           {{"layers", asked.token.layers},
            {"attention", asked.token.attention},
            {"output", asked.token.output},
            {"copies", asked.token.copies}}},
          {"others_share", plan::share_json(report.others)},
          {"memory_bytes", report.memory_bytes},
          {"fits", report.fits()},
          {"largest_context", report.largest_context},
          {"largest_batch", report.largest_batch},
          {"strategies", ways},
          {"advice", advice_of(report)}};
}

std::string plan_text(const PlanReport& report) {
  const PlannedWay& asked = report.ways.front();
  std::string text = fmt::format(
      "{}: {} sequence{} of {} tokens, {} {}{}\n\nweights {}, cache {}, of {} memory: {}\n\n",
      report.model.config.name, report.batch, report.batch == 1 ? "" : "s", report.tokens,
      kv::spec_text(asked.spec), engine::kv_type_text(report.kv),
      engine::reads_all(report.kv) ? "" : ", " + engine::kv_select_text(report.kv),
      giga(report.weight_bytes()), giga(asked.cost.fast_bytes), giga(report.memory_bytes),
      report.fits() ? "fits" : "does not fit");
  text += fmt::format("{:<12}{:>12}{:>14}{:>12}{:>14}\n", "strategy", "cache", "read a token",
                      "copied", "decode tok/s");
  for (const PlannedWay& way : report.ways)
    text += fmt::format("{:<12}{:>12}{:>14}{:>12}{:>14.1f}\n", way.spec.name,
                        giga(way.cost.fast_bytes), giga(way.cost.read_bytes_per_token),
                        giga(way.cost.copied_bytes), way.decode_tok_s);
  text += fmt::format(
      "\nlast token: layers {:.2f} ms, their attention to the cache {:.2f} ms, output layer "
      "{:.2f} ms, copies {:.2f} ms\n",
      1e3 * asked.token.layers, 1e3 * asked.token.attention, 1e3 * asked.token.output,
      1e3 * asked.token.copies);
  text += fmt::format("a prompt of {} tokens: {:.2f} s\n", report.tokens, report.prefill_s);
  text += fmt::format("bmc: T = {} growths of r = {} rows take least here", report.growths,
                      (report.tokens + report.growths - 1) / report.growths);
  if (report.spec_rows > 1)
    text +=
        fmt::format(", with {} rows and {} tokens a step", report.spec_rows, report.spec_tokens);
  text += "\n";
  text += fmt::format("at most: {} tokens a sequence, or {} sequences\n\n", report.largest_context,
                      report.largest_batch);
  for (const std::string& line : advice_of(report)) text += "* " + line + "\n";
  return text;
}

}  // namespace kvick::cli
