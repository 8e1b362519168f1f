#pragma once
// The strategies, options and element types that the conformance tests try.

#include <cctype>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "kv/testing/memory.h"
#include "kv/testing/plugin.h"
#include "kv/testing/policies.h"

namespace kvick::kv::test {

// Programs are ten times slower under a sanitizer. The memory and thread errors that it finds
// depend on a strategy or on an element type, not on a certain pair. So with a sanitizer each
// strategy is tried with some types and each type with some strategies; without one, all pairs are
// tried.
#if defined(KVICK_SANITIZED)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
// Returns whether a test of many strategies and many types (or forms) tries this pair.
inline constexpr bool tries(size_t strategy, size_t type) {
  return !kSanitized || (strategy + type) % 2 == 0;
}

// A strategy of the registry, with its defaults or with other options, and element types.
struct Case {
  std::string spec;
  kernels::DType k_type, v_type;
  std::optional<Aging> aging = {};
};

inline void PrintTo(const Case& test, std::ostream* out) {  // NOLINT: googletest's name
  *out << test.spec << " " << kernels::dtype_info(test.k_type).name << " "
       << kernels::dtype_info(test.v_type).name;
  if (test.aging)
    *out << " old " << kernels::dtype_info(test.aging->k_type).name << " "
         << kernels::dtype_info(test.aging->v_type).name;
}

inline std::vector<std::string> specs() {
  add_plugin_of_environment();
  std::vector<std::string> all;
  for (const Strategy& strategy : strategies()) all.emplace_back(strategy.name);
  for (const char* more :
       {"virtual:hugepages=on", "bmc:r=1", "bmc:r=7", "bmc:r=100000", "paged:block=1",
        "paged:block=7,prefix=off", "sliding:reserve=1.25", "sliding:reserve=1"})
    all.emplace_back(more);
  // Policies, over layouts that store rows in different ways.
  for (const char* layout : {"virtual", "bmc:r=7", "paged:block=7"})
    for (const Policy& policy : policies())
      if (is_tried_over(policy, layout))
        all.push_back(fmt::format("{} {}", layout, tried_policy(policy)));
  all.push_back(over("virtual", "snapkv", ",heads=ada"));
  all.push_back(over("virtual", "expected", ",heads=ada,cov=diagonal"));
  for (const char* policy : {"quest", "maple", "clusters"}) all.push_back(over("tiered", policy));
  for (const char* policy : {"quest", "maple", "loki"})
    all.push_back(over("paged:block=7", policy, ",candidates=1"));
  return all;
}

// Types of keys and values.
inline constexpr std::pair<kernels::DType, kernels::DType> kTypes[] = {
    {kernels::DType::kF32, kernels::DType::kF32},
    {kernels::DType::kF16, kernels::DType::kF16},
    {kernels::DType::kBF16, kernels::DType::kBF16},
    {kernels::DType::kQ8, kernels::DType::kQ8},
    {kernels::DType::kQ4, kernels::DType::kQ4},
    {kernels::DType::kQ8, kernels::DType::kQ4},
    {kernels::DType::kQ3, kernels::DType::kQ2},
    {kernels::DType::kStatic8, kernels::DType::kStatic16}};

// Aging, with windows shorter than sequences of a few dozen tokens.
inline constexpr Aging kAgings[] = {
    {.k_type = kernels::DType::kQ8, .v_type = kernels::DType::kQ4, .window = 32},
    {.k_type = kernels::DType::kQ4, .v_type = kernels::DType::kF32, .window = 0},
    {.k_type = kernels::DType::kKivi4K, .v_type = kernels::DType::kKivi4V, .window = 64}};

inline std::vector<Case> cases() {
  using kernels::DType;
  const std::vector<std::string> tried = specs();
  std::vector<Case> all;
  for (size_t s = 0; s < tried.size(); ++s) {
    const Traits traits = traits_of(tried[s]);
    if (traits.slots) all.push_back({tried[s], DType::kF32, DType::kF32});
    for (size_t i = 0; i < std::size(kTypes) && !traits.slots; ++i) {
      const size_t turn = (s + i) % std::size(kTypes);
      if (!kSanitized || turn == 0 || turn == 3)
        all.push_back({tried[s], kTypes[i].first, kTypes[i].second});
    }
    for (size_t i = 0; i < std::size(kAgings) && traits.holds_old; ++i)
      if (!kSanitized || (s + i) % std::size(kAgings) == 0)
        all.push_back({tried[s], DType::kF16, DType::kF16, kAgings[i]});
  }
  return all;
}

// Returns the case's shape. head_dim is that of `like`, 32 for types in groups of 32, or 8 for a
// policy that uses the attention kernel.
inline Shape shape_of(const Case& test, const Shape& like) {
  Shape shape = like;
  shape.k_type = test.k_type;
  shape.v_type = test.v_type;
  shape.aging = test.aging;
  if (select_of(test.spec).name == "clusters") shape.head_dim = 8;
  if (test.aging || kernels::dtype_info(test.k_type).block > 1) shape.head_dim = 32;
  return shape;
}

inline std::string name_of(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.spec;
  for (const kernels::DType type : {info.param.k_type, info.param.v_type})
    name += "_" + std::string(kernels::dtype_info(type).name);
  if (info.param.aging)
    for (const kernels::DType type : {info.param.aging->k_type, info.param.aging->v_type})
      name += "_old_" + std::string(kernels::dtype_info(type).name);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

// Returns the cases whose sequences grow past max_tokens.
inline std::vector<Case> endless_cases() {
  std::vector<Case> all = cases();
  std::erase_if(all, [](const Case& test) { return !traits_of(test.spec).endless; });
  return all;
}

// Returns the cases whose rows can be moved as they are stored.
inline std::vector<Case> moving_cases() {
  std::vector<Case> all = cases();
  std::erase_if(all, [](const Case& test) {
    // Under a policy the layout moves the rows; random_test.cc tests that.
    const bool policy = !select_of(test.spec).name.empty();
    return test.aging.has_value() || policy || !traits_of(test.spec).moves_rows;
  });
  return all;
}

// Returns why a spec cannot be tried on this machine, or "".
inline std::string unavailable(const std::string& spec) {
  if (spec.find("hugepages=on") == std::string::npos) return "";
  auto made = make_store(spec_of(spec), {.shape = {1, 1, 1, 1}});
  return made.ok() ? "" : made.error().message;
}

}  // namespace kvick::kv::test
