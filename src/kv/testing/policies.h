#pragma once
// The options with which tests try policies.

#include <algorithm>
#include <string>

#include "kv/registry/policies.h"
#include "kv/strategy/selection.h"

namespace kvick::kv::test {

// Used by cases(): so few rows that sequences of some dozen tokens have more.
inline constexpr Selection kTriedSelection = {
    .rows = 24, .sinks = 2, .recent = 3, .dense_layers = 1, .unit = 1};
inline constexpr uint32_t kTriedPage = 4;
inline constexpr uint32_t kTriedDrop = 5;    // rows dropped at a time
inline constexpr uint32_t kTriedWindow = 6;  // newest rows whose queries choose the others
inline constexpr uint32_t kTriedCluster = 4, kTriedBlock = 64;

inline bool has_option(const Policy& policy, std::string_view name) {
  return std::any_of(policy.options.begin(), policy.options.end(),
                     [&](const Option& option) { return option.name == name; });
}
inline std::string tried_policy(const Policy& policy) {
  const Selection& s = kTriedSelection;
  std::string text = fmt::format("{}:budget={},sinks={}", policy.name, s.rows, s.sinks);
  const std::pair<std::string_view, uint32_t> others[] = {
      {"recent", s.recent},    {"dense_layers", s.dense_layers}, {"page", kTriedPage},
      {"drop", kTriedDrop},    {"cluster", kTriedCluster},       {"block", kTriedBlock},
      {"window", kTriedWindow}};
  for (const auto& [name, value] : others)
    if (has_option(policy, name)) text += fmt::format(",{}={}", name, value);
  return text;
}
// Whether cases() tries a policy over a layout. Policies that forget have rows of their own, so one
// layout is enough. How many rows kvzip keeps depends on its document: kvzip_test.cc tests that.
inline bool is_tried_over(const Policy& policy, std::string_view layout) {
  if (policy.name == "kvzip") return false;
  return layout == "virtual" || !forgets({std::string(policy.name), {}});
}
// A tried policy over a layout. more: further options, with a comma before each.
inline std::string over(std::string_view layout, std::string_view policy,
                        std::string_view more = "") {
  return fmt::format("{} {}{}", layout, tried_policy(*find_policy(policy)), more);
}

}  // namespace kvick::kv::test
