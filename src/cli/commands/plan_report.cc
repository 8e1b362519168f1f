#include "cli/commands/plan_report.h"

#include <algorithm>
#include <fmt/format.h>

#include "engine/options/layer_options.h"
#include "engine/session/session.h"
#include "kv/registry/policies.h"
#include "kv/stores/growth_model.h"
#include "kv/tier/tier.h"
#include "kv/values/saturating.h"

namespace kvick::cli {

kv::Setup plan_setup(const PlanReport& report, const kernels::Table& kernels,
                     base::ThreadPool& pool) {
  const model::Config& config = report.model.config;
  kv::Setup setup;
  const model::Rope& rope = config.rope_of_full();
  setup.shape = {.max_tokens = report.tokens,
                 .k_type = report.k_type(),
                 .v_type = report.v_type(),
                 .aging = report.kv.aging};
  engine::set_layers(config, report.kv, setup);
  setup.tier.spec = report.kv.tier;
  setup.compute.store_row = kernels.store_row;
  setup.compute.store_group = kernels.store_group;
  setup.compute.pool = &pool;
  setup.compute.kernels = &kernels;
  setup.select.spec = engine::reads_all(report.kv) ? kv::Spec{} : report.kv.select;
  setup.select.group = config.heads_layer().group();
  setup.select.model_dim = config.dim;
  setup.select.rotation = {
      .frequency = rope.frequency, .dims = rope.dims, .interleaved = rope.interleaved};
  return setup;
}

namespace {

// Returns the largest n in [0, most] for which fits(n) is true. fits must be monotonic.
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

// Returns why the tier's fast memory cannot hold a step that reads a prompt as long as the load's
// sequences; empty if it can. Prompts are read one after the other, as `kvick bench` does, and the
// other sequences keep their newest rows in fast memory meanwhile: as many as a first token takes.
std::string prompt_shortage(const kv::Spec& spec, const kv::Setup& setup, const kv::Load& load,
                            uint64_t fast_bytes) {
  constexpr uint32_t kPiece = engine::Session::kPrefillChunk;
  const auto newest = kv::group_costs(spec, setup, {.tokens = 1});
  if (!newest.ok()) return newest.error().message;
  for (uint32_t end = 0; end < load.tokens;) {
    end += std::min(kPiece, load.tokens - end);
    const auto costs = kv::group_costs(spec, setup, {.tokens = end, .step = kPiece});
    if (!costs.ok()) return costs.error().message;
    for (size_t g = 0; g < costs->size(); ++g) {
      const uint64_t others = kv::saturating_mul(load.sequences - 1, (*newest)[g].least_fast_bytes);
      const uint64_t needed = kv::saturating_add((*costs)[g].least_fast_bytes, others);
      if (needed > fast_bytes)
        return fmt::format(
            "a prompt is read {} tokens a step, and the step up to token {} needs {} bytes of fast "
            "memory, but --kv-tier has fast={}",
            kPiece, end, needed, fast_bytes);
    }
  }
  return "";
}

// Returns why --kv-tier cannot keep the load; empty if it can, or without a tier. The cost's
// fast_bytes do not tell: they count the frames that the tier has, even if a step needs more.
std::string tier_shortage(const kv::Spec& spec, const kv::Setup& setup, const kv::Load& load) {
  if (!setup.tier.spec) return "";
  const auto tier = kv::read_tier(*setup.tier.spec);
  const auto costs = kv::group_costs(spec, setup, load);
  if (!tier.ok()) return tier.error().message;
  if (!costs.ok()) return costs.error().message;
  for (const kv::Cost& cost : *costs) {
    if (cost.least_fast_bytes > tier->fast_bytes)
      return fmt::format(
          "a step of {} sequence{} at {} tokens needs {} bytes of fast memory, but --kv-tier has "
          "fast={}",
          load.sequences, load.sequences == 1 ? "" : "s", load.tokens, cost.least_fast_bytes,
          tier->fast_bytes);
    if (cost.slow_bytes > tier->most_bytes)
      return fmt::format("the rows take {} bytes of the slower tier, but --kv-tier has size={}",
                         cost.slow_bytes, tier->most_bytes);
  }
  return prompt_shortage(spec, setup, load, tier->fast_bytes);
}

// Returns PlanReport::step_bytes for sequences of `tokens` tokens. Of several prompts one piece is
// counted, since a step divides its tokens among them.
uint64_t step_bytes_of(const kv::Spec& spec, const kv::Setup& setup, uint32_t tokens) {
  if (!kv::forgets(setup.select.spec)) return 0;
  const auto rows = kv::cost_of(spec, setup, {.tokens = tokens});
  const auto all =
      kv::cost_of(spec, setup, {.tokens = tokens, .step = engine::Session::kPrefillChunk});
  return rows.ok() && all.ok() ? all->fast_bytes - rows->fast_bytes : 0;
}

void find_limits(const kv::Setup& setup, PlanReport& report) {
  const uint64_t weights = report.weight_bytes();
  const auto fits = [&](uint64_t tokens, uint64_t batch) {
    kv::Setup wide = setup;
    wide.shape.max_tokens = static_cast<uint32_t>(std::max<uint64_t>(1, tokens));
    engine::set_layers(report.model.config, report.kv, wide);
    const kv::Load load = {.tokens = wide.shape.max_tokens,
                           .sequences = static_cast<uint32_t>(batch)};
    const auto cost = kv::cost_of(report.kv.spec, wide, load);
    if (!cost.ok()) return false;
    const uint64_t cache = kv::saturating_add(
        cost->fast_bytes, step_bytes_of(report.kv.spec, wide, wide.shape.max_tokens));
    return cache <= report.kv_memory && weights + cache <= report.memory_bytes &&
           cache <= UINT64_MAX - weights && tier_shortage(report.kv.spec, wide, load).empty();
  };
  report.largest_context = largest(report.model.config.context,
                                   [&](uint64_t tokens) { return fits(tokens, report.batch); });
  report.largest_batch =
      largest(1 << 20, [&](uint64_t batch) { return fits(report.tokens, batch); });
}

kv::Load load_of(const PlanReport& report) {
  return {.tokens = report.tokens, .sequences = report.batch};
}

// Returns the options with every choice made, as Engine::resolved does.
engine::KvOptions resolved(const PlanReport& report) {
  engine::KvOptions kv = report.kv;
  kv.k_type = report.k_type();
  kv.v_type = report.v_type();
  kv.max_tokens = report.tokens;
  if (engine::reads_all(kv)) kv.select = {};
  return kv;
}

// Returns the bytes of a token's rows that bmc copies as it grows: those of the groups that keep
// all rows, or of all groups if each has a window.
uint64_t growing_bytes(const kv::StoreInfo& info) {
  uint64_t bytes = 0;
  for (const kv::Shape& shape : info.groups)
    if (shape.window == 0) bytes += shape.token_bytes();
  return bytes != 0 ? bytes : info.token_bytes();
}

base::Status<> measure_growths(const kv::Setup& setup, model::Workspace& workspace,
                               PlanReport& report) {
  const model::Config& config = report.model.config;
  KVICK_TRY(report.rates, plan::measure_growth(config, setup, workspace));
  report.spec_rates = report.rates;
  if (report.spec_rows > 1) {
    KVICK_TRY(report.spec_rates, plan::measure_growth(config, setup, workspace,
                                                      base::steady_seconds, report.spec_rows));
  }
  report.growths =
      kv::best_growths(report.tokens, growing_bytes(kv::info_of(report.kv.spec, setup)),
                       report.spec_rates, report.spec_tokens);
  return base::Done{};
}

base::Status<> plan_groups(const kv::Setup& setup, PlanReport& report) {
  const std::vector<kv::LayerGroup> groups = kv::groups_of(kv_layers(report.model.config));
  const kv::StoreInfo info = kv::info_of(report.kv.spec, setup);
  KVICK_TRY(const std::vector<kv::Cost> costs,
            kv::group_costs(report.kv.spec, setup, load_of(report)));
  for (size_t g = 0; g < groups.size(); ++g)
    report.groups.push_back(
        {.group = groups[g], .token_bytes = info.groups[g].token_bytes(), .cost = costs[g]});
  return base::Done{};
}

// Fills in report.ways. predictor: null if no seconds are predicted.
base::Status<> plan_ways(const kv::Setup& setup, const plan::Predictor* predictor,
                         bool buckets_only, PlanReport& report) {
  std::vector<kv::Spec> specs = {report.kv.spec};
  for (const kv::Strategy& strategy : kv::strategies())
    if (strategy.name != report.kv.spec.name)
      specs.push_back({.name = std::string(strategy.name), .options = {}});
  for (const kv::Spec& spec : specs) {
    const bool asked = report.ways.empty();
    const auto cost = kv::cost_of(spec, setup, load_of(report));
    if (!cost.ok() && asked) return cost.error();
    const kv::Strategy* strategy = kv::find_strategy(spec.name);
    if (!cost.ok() || (buckets_only && !strategy->traits.buckets && !asked)) continue;
    PlannedWay way = {.spec = spec, .cost = *cost};
    if (predictor != nullptr) {
      way.token = predictor->token(report.tokens, spec);
      way.decode_tok_s = report.batch / way.token.all();
    }
    report.ways.push_back(way);
  }
  return base::Done{};
}

}  // namespace

base::Status<> check_plan(const PlanReport& report, const kernels::Table& kernels,
                          base::ThreadPool& pool) {
  KVICK_TRY_VOID(engine::check_layers(report.model.config, resolved(report)));
  KVICK_TRY_VOID(engine::check_states(report.model.config, report.kv));
  kv::Setup setup = plan_setup(report, kernels, pool);
  setup.compute.growth_rates = [] { return kv::GrowthRates{.copy_bytes_s = 1}; };
  KVICK_TRY_VOID(kv::cost_of(report.kv.spec, setup, load_of(report)));
  return base::Done{};
}

base::Status<> fill_plan(base::ThreadPool& pool, const kernels::Table& kernels,
                         engine::Attention attention, PlanReport& report) {
  if (report.model.config.both_ways())
    return base::fail("{} is an encoder, which keeps nothing: there is no cache to plan",
                      report.model.config.name);
  kernels::BucketAttention library;
  model::Workspace workspace(pool, kernels);
  const bool bmm = attention == engine::Attention::kBmm;
  if (bmm) workspace.library = &library;
  kv::Setup setup = plan_setup(report, kernels, pool);
  // First, so that an impossible plan is refused before anything is measured.
  KVICK_TRY_VOID(check_plan(report, kernels, pool));
  if (bmm && !kernels::bucket_attention_built())
    return base::fail(
        "attention by bmm needs oneDNN, without which this kvick was built: use fused");
  if (bmm) KVICK_TRY_VOID(engine::check_buckets(resolved(report)));
  report.prompt_role = engine::prompt_role_of(resolved(report), report.prompts, kernels, bmm);
  for (const std::string& note : engine::layer_notes(report.model.config, resolved(report)))
    report.notes.push_back(note);
  KVICK_TRY_VOID(measure_growths(setup, workspace, report));
  setup.compute.growth_rates = [rates = report.rates] { return rates; };
  KVICK_TRY_VOID(plan_groups(setup, report));
  // The predictor measures steps whose rows are in memory. advice_of adds the tier's part.
  kv::Setup in_memory = setup;
  in_memory.tier.spec.reset();
  const kv::Spec plain = {.name = std::string(kv::default_strategy(false, false).name),
                          .options = {}};
  const auto predictor = plan::Predictor::measure({.model = report.model,
                                                   .spec = setup.tier.spec ? plain : report.kv.spec,
                                                   .setup = in_memory,
                                                   .rates = report.rates,
                                                   .batch = report.batch,
                                                   .tokens = report.tokens,
                                                   .prompt_role = report.prompt_role,
                                                   .state_type = report.kv.type_of_states()},
                                                  std::move(workspace));
  // A sample of a model whose layers differ may not be valid for its family, and a policy's file
  // covers all layers, not a sample. The memory is known in both cases.
  const kv::Policy* const policy = kv::find_policy(report.kv.select.name);
  const bool learnt = policy != nullptr && kv::needs_file(*policy);
  if (!predictor.ok() && !learnt && !engine::layers_differ(report.model.config))
    return predictor.error();
  if (predictor.ok())
    report.prefill_s = predictor->prefill_s(report.tokens);
  else if (learnt)
    report.unpredicted =
        fmt::format("only a few layers are measured, but a file of {} covers all layers of a model",
                    policy->name);
  else
    report.unpredicted = predictor.error().message;
  KVICK_TRY_VOID(plan_ways(setup, predictor.ok() ? &*predictor : nullptr, bmm, report));
  report.step_bytes = step_bytes_of(report.kv.spec, setup, report.tokens);
  report.tier_shortage = tier_shortage(report.kv.spec, setup, load_of(report));
  find_limits(setup, report);
  return base::Done{};
}

}  // namespace kvick::cli
