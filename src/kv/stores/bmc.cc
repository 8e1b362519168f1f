// BMC, "Striking the Right Balance between Compute and Copy", section V: capacity grows by r rows
// at a time, so r - 1 of r steps copy nothing and at most r - 1 rows are unused. r = 1 is
// iterative, r = max_tokens is upfront.

#include "kv/stores/bucket.h"
#include "kv/stores/growth_model.h"
#include "kv/strategy/options.h"

namespace kvick::kv {
namespace {

constexpr Option kOptions[] = {
    {.name = "r",
     .summary = "rows added at each growth; auto: what takes least time on this machine",
     .fallback = "64"}};

base::Result<Growth> growth_of(const Setup& setup, const Spec& spec) {
  const auto given = spec.options.find(std::string(kOptions[0].name));
  if (given != spec.options.end() && given->second == "auto") {
    if (!setup.compute.growth_rates)
      return base::fail(
          "{}: r=auto needs a measurement of this machine, and there is none; give r a number",
          spec.name);
    KVICK_TRY(const GrowthRates rates, setup.compute.growth_rates());
    const uint32_t tokens = setup.shape.max_tokens;
    const uint32_t growths = best_growths(tokens, setup.shape.token_bytes(), rates);
    return Growth{.unit_rows = (tokens + growths - 1) / growths};
  }
  KVICK_TRY(const uint64_t rows, read_number(spec, kOptions[0], 1, UINT32_MAX));
  return Growth{.unit_rows = static_cast<uint32_t>(rows)};
}

}  // namespace

Strategy bmc_strategy() {
  return {.name = "bmc",
          .summary = "contiguous, grown by r rows at a time with one copy (BMC)",
          .options = kOptions,
          .traits = {.buckets = true, .holds_old = true, .moves_rows = true},
          .make_rows = [](const Setup& setup,
                          const Spec& spec) -> base::Result<std::unique_ptr<RowStore>> {
            KVICK_TRY(const Growth growth, growth_of(setup, spec));
            return make_bucket_store(setup, growth);
          },
          .cost = [](const Setup& setup, const Spec& spec, const Load& load) -> base::Result<Cost> {
            KVICK_TRY(const Growth growth, growth_of(setup, spec));
            return bucket_cost(setup, growth, load);
          }};
}

}  // namespace kvick::kv
