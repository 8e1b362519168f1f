#include "kv/aging/aged.h"

#include <algorithm>

#include "base/check.h"
#include "kv/aging/aged_store.h"
#include "kv/values/saturating.h"

namespace kvick::kv {
namespace {

Setup setup_of_old_rows(const Setup& setup) {
  Setup old = setup;
  old.shape = setup.shape.of_old_rows();
  old.sharing.prefixes = false;
  return old;
}

base::Status<> check_holds_old(const Strategy& strategy) {
  if (strategy.traits.holds_old) return base::Done{};
  std::vector<std::string_view> names;
  for (const Strategy& other : strategies())
    if (other.traits.holds_old) names.push_back(other.name);
  return base::fail(
      "{} has no types that change with age, such as mixed and kivi4; those that have are {}",
      strategy.name, fmt::join(names, ", "));
}

}  // namespace

base::Result<std::unique_ptr<Store>> make_aged_store(const Strategy& strategy, const Spec& spec,
                                                     const Setup& setup) {
  KVICK_TRY_VOID(check_holds_old(strategy));
  KVICK_TRY(std::unique_ptr<RowStore> old, strategy.make_rows(setup_of_old_rows(setup), spec));
  return std::unique_ptr<Store>(std::make_unique<AgedStore>(setup, std::move(old)));
}

base::Result<Cost> aged_cost(const Strategy& strategy, const Spec& spec, const Setup& setup,
                             const Load& load) {
  KVICK_CHECK_EQ(load.step, 1U);
  KVICK_TRY_VOID(check_holds_old(strategy));
  const Aging& aging = *setup.shape.aging;
  const Setup of_old = setup_of_old_rows(setup);
  const uint64_t token = setup.shape.token_bytes(), old_token = of_old.shape.token_bytes();
  const uint64_t old = aging.old_rows(load.tokens);
  KVICK_TRY(Cost cost, strategy.cost(of_old, spec,
                                     {.tokens = static_cast<uint32_t>(old),
                                      .sequences = load.sequences,
                                      .step = kAgingRows}));
  const uint64_t groups = (uint64_t{load.tokens} + kAgingRows - 1) / kAgingRows;
  const uint64_t held = std::min<uint64_t>(groups, aging.recent_rows() / kAgingRows);
  cost.fast_bytes =
      saturating_add(cost.fast_bytes, saturating_mul(load.sequences, held * kAgingRows * token));
  // Copied: the buffer's rows each time it grows, and each old row once.
  const uint64_t grown = held > 0 ? held * (held - 1) / 2 * kAgingRows : 0;
  const uint64_t copied = grown * token + old * old_token;
  cost.copied_bytes = saturating_add(cost.copied_bytes, saturating_mul(load.sequences, copied));
  // The last token reads as old the rows that were old before its step.
  const uint64_t read_old = load.tokens > 0 ? aging.old_rows(load.tokens - 1) : 0;
  const uint64_t seen = setup.shape.seen_rows(load.tokens), recent = load.tokens - read_old;
  const uint64_t seen_recent = std::min(seen, recent);
  cost.read_bytes_per_token = (seen - seen_recent) * old_token + seen_recent * token;
  return cost;
}

}  // namespace kvick::kv
