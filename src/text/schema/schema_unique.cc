// SchemaCompiler's functions for arrays whose items must differ.

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "text/schema/schema_compiler.h"

namespace kvick::text {
namespace {

using base::fail;
using base::Result;
using base::Status;

// The most sets of values that an array with uniqueItems may have: those of ten values.
constexpr size_t kMostSets = 1024;

base::Error not_unique(const std::string& path) {
  return fail(
      "the schema at {}: uniqueItems is supported for items of at most about 10 values only, of an "
      "enum, const, boolean, null or a range of integers; leave it out",
      path);
}

// Returns the integers within the schema's bounds; nullopt if there are more than `most`.
std::optional<std::vector<Json>> few_integers(const Json& schema, size_t most) {
  constexpr double kExact = 0x1p53;
  double first = -INFINITY, last = INFINITY;
  const auto bound = [&](const char* name) { return schema[name].get<double>(); };
  if (schema.contains("minimum")) first = std::ceil(bound("minimum"));
  if (schema.contains("exclusiveMinimum"))
    first = std::max(first, std::floor(bound("exclusiveMinimum")) + 1);
  if (schema.contains("maximum")) last = std::floor(bound("maximum"));
  if (schema.contains("exclusiveMaximum"))
    last = std::min(last, std::ceil(bound("exclusiveMaximum")) - 1);
  const bool few = std::abs(first) < kExact && std::abs(last) < kExact &&
                   last - first < static_cast<double>(most);
  if (!few) return std::nullopt;
  std::vector<Json> out;
  for (; first <= last; ++first) out.emplace_back(static_cast<int64_t>(first));
  return out;
}

}  // namespace

Result<std::vector<Json>> SchemaCompiler::values_of(const Json& schema, const std::string& path) {
  constexpr size_t kMost = 60;  // values; a set of them fits in 64 bits
  std::vector<Json> values;
  const auto add = [&](const Json& value) {
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
    return values.size() <= kMost;
  };
  KVICK_TRY(const std::vector<Json> any, expander_.alternatives(schema, path));
  for (const Json& one : any) {
    if (one.contains("enum")) {
      KVICK_TRY(const std::vector<Json> fitting, listed(one, path));
      for (const Json& value : fitting)
        if (!add(value)) return not_unique(path);
      continue;
    }
    for (const Json& type : one.contains("type") ? one["type"] : Json::array({"any"})) {
      std::optional<std::vector<Json>> few;
      if (type == "null") few.emplace(1);
      if (type == "boolean") few.emplace({Json(false), Json(true)});
      if (type == "integer") few = few_integers(one, kMost);
      if (!few) return not_unique(path);
      for (const Json& value : *few) {
        KVICK_TRY(const bool fits, is_instance(value, one, path));
        if (fits && !add(value)) return not_unique(path);
      }
    }
  }
  return values;
}

// Builds three states for each set of values that the array may hold so far.
Status<> SchemaCompiler::compile_unique(const Json& schema, const Count& count, Between place,
                                        const std::string& path) {
  if (schema.contains("prefixItems")) return not_unique(path);
  KVICK_TRY(const std::vector<Json> values,
            values_of(schema.contains("items") ? schema["items"] : Json(true), path));
  std::vector<RuleId> rules;
  for (const Json& value : values) {
    const Json one = {{"enum", Json::array({value})}};
    KVICK_TRY(const RuleId rule, rule_of(one, path + "/items"));
    rules.push_back(rule);
  }
  const StateId open = grammar_.state(), inside = grammar_.state();
  grammar_.byte(place.from, '[', open);
  gap(open, inside);
  if (count.least == 0) grammar_.byte(inside, ']', place.to);
  std::unordered_map<uint64_t, StateId> behind = {{0, inside}};  // by the set of values so far
  std::vector<uint64_t> sets = {0};
  for (size_t i = 0; i < sets.size(); ++i) {
    const auto size = static_cast<uint32_t>(std::popcount(sets[i]));
    StateId next = behind[sets[i]];
    if (size > 0) {
      const StateId comma = grammar_.state(), close = grammar_.state();
      if (size >= count.least) gap(next, close);
      grammar_.byte(close, ']', place.to);
      grammar_.byte(next, ',', comma);
      next = grammar_.state();
      gap(comma, next);
    }
    for (size_t value = 0; value < values.size() && size < count.most.value_or(64); ++value) {
      const uint64_t more = sets[i] | uint64_t{1} << value;
      if (more == sets[i]) continue;
      const auto [found, is_new] = behind.try_emplace(more);
      if (is_new) {
        found->second = grammar_.state();
        sets.push_back(more);
      }
      grammar_.call(next, rules[value], found->second);
    }
    if (sets.size() > kMostSets) return not_unique(path);
  }
  return base::Done{};
}

}  // namespace kvick::text
