#include "kv/registry/policies.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "kv/strategy/options.h"

namespace kvick::kv {

Policy quest_policy();         // quest.cc
Policy clusters_policy();      // clusters.cc
Policy sparq_policy();         // sparq.cc
Policy h2o_policy();           // h2o.cc
Policy scissorhands_policy();  // scissorhands.cc
Policy kvzap_policy();         // kvzap.cc
Policy kvzip_policy();         // kvzip.cc
Policy duo_policy();           // duo.cc
Policy snapkv_policy();        // snapkv.cc
Policy expected_policy();      // expected.cc
Policy streaming_policy();     // streaming.cc
Policy loki_policy();          // loki.cc
Policy maple_policy();         // maple.cc

namespace {

constexpr size_t kMostPolicies = 64;

// Other threads may read the table while a policy is added. So rows never move, and the count is
// raised last.
struct Table {
  std::vector<Policy> rows;
  std::atomic<size_t> count;
  std::mutex adding;

  Table() {
    rows.reserve(kMostPolicies);
    rows = {quest_policy(),        clusters_policy(),  sparq_policy(), h2o_policy(),
            snapkv_policy(),       expected_policy(),  kvzap_policy(), kvzip_policy(),
            scissorhands_policy(), streaming_policy(), duo_policy(),   loki_policy(),
            maple_policy()};
    count = rows.size();
  }
};

Table& table() {
  static Table all;
  return all;
}

base::Status<> check_row(const Policy& row, std::span<const Policy> before) {
  KVICK_TRY_VOID(check_name("policy", row.name));
  if (std::any_of(before.begin(), before.end(),
                  [&](auto& other) { return other.name == row.name; }))
    return base::fail("there is a policy named {} already", row.name);
  if (row.change_traits == nullptr || row.make == nullptr || row.cost == nullptr)
    return base::fail("policy {} needs change_traits, make and cost", row.name);
  return base::Done{};
}

}  // namespace

std::span<const Policy> policies() {
  const Table& all = table();
  return {all.rows.data(), all.count.load(std::memory_order_acquire)};
}

base::Status<> check_policies(std::span<const Policy> rows) {
  const std::span<const Policy> before = policies();
  if (rows.size() > kMostPolicies - before.size())
    return base::fail("{} policies more than the {} that there are: at most {} in all", rows.size(),
                      before.size(), kMostPolicies);
  std::vector<Policy> known(before.begin(), before.end());
  for (const Policy& row : rows) {
    KVICK_TRY_VOID(check_row(row, known));
    known.push_back(row);
  }
  return base::Done{};
}

base::Status<> add_policies(std::span<const Policy> rows) {
  Table& all = table();
  const std::lock_guard lock(all.adding);
  KVICK_TRY_VOID(check_policies(rows));
  all.rows.insert(all.rows.end(), rows.begin(), rows.end());
  all.count.store(all.rows.size(), std::memory_order_release);
  return base::Done{};
}

bool forgets(const Spec& select) {
  const Policy* policy = find_policy(select.name);
  if (policy == nullptr) return false;
  Traits traits;
  policy->change_traits(traits);
  return traits.forgets;
}

bool needs_file(const Policy& policy) {
  return std::any_of(policy.options.begin(), policy.options.end(),
                     [](const Option& option) { return option.name == "file"; });
}

const Policy* find_policy(std::string_view name) {
  for (const Policy& policy : policies())
    if (policy.name == name) return &policy;
  return nullptr;
}

namespace {

base::Result<const Policy*> checked_policy(const Layout& layout, const Setup& setup) {
  const Spec& spec = setup.select.spec;
  const Policy* policy = find_policy(spec.name);
  if (policy == nullptr) {
    std::vector<std::string_view> names;
    for (const Policy& other : policies()) names.push_back(other.name);
    return base::fail("{} is not a policy of which rows are read{}; there are {}", quote(spec.name),
                      hint(spec.name, names), fmt::join(names, ", "));
  }
  KVICK_TRY_VOID(check_options(spec, policy->options));
  if (layout.strategy.traits.tiered && forgets(spec))
    return base::fail("{} keeps the remaining rows in memory of its own: leave --kv-tier out",
                      policy->name);
  if (!layout.strategy.traits.holds_old && !layout.strategy.traits.tiered) {
    std::vector<std::string_view> names;
    for (const Strategy& other : strategies())
      if (other.traits.holds_old) names.push_back(other.name);
    return base::fail("{} does not keep rows that {} could choose from; those that do are {}",
                      layout.strategy.name, policy->name, fmt::join(names, ", "));
  }
  if (setup.shape.window > 0 || setup.shape.latent)
    return base::fail(
        "{} chooses among all keys of a sequence, but the layers of this model {}: leave "
        "--kv-select out",
        policy->name,
        setup.shape.latent ? "keep latent rows"
                           : fmt::format("see a window of {} tokens", setup.shape.window));
  if (setup.shape.aging)
    return base::fail(
        "{} reads rows of one type, not of types that change with age, such as mixed and kivi4",
        policy->name);
  return policy;
}

}  // namespace

base::Result<std::unique_ptr<Store>> make_policy_store(const Layout& layout, const Setup& setup) {
  KVICK_TRY(const Policy* policy, checked_policy(layout, setup));
  return policy->make(setup, layout);
}

base::Result<Cost> policy_cost(const Layout& layout, const Setup& setup, const Load& load) {
  KVICK_TRY(const Policy* policy, checked_policy(layout, setup));
  return policy->cost(setup, layout, load);
}

}  // namespace kvick::kv
