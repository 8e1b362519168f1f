// SchemaCompiler's functions for each JSON type; schema_unique.cc has those for uniqueItems.

#include <algorithm>
#include <numeric>
#include <string>
#include <unordered_set>

#include "text/grammar/nfa_algebra.h"
#include "text/schema/schema_compiler.h"

namespace kvick::text {
namespace {

using base::fail;
using base::Result;
using base::Status;

// The most states of the automaton of a pattern combined with a format. A larger one would leave
// little room for the rest of the grammar.
constexpr size_t kMostFormatStates = 1000;

// The most multiples that are listed one by one.
constexpr int64_t kMostMultiples = 1000;

// Returns the least integer that a lower bound allows, or the largest that an upper one does.
int64_t integer_within(const NumberRange::Bound& bound, bool lower) {
  const int64_t whole = std::stoll(bound.value.whole);  // at most NumberRange::kMostWhole digits
  const int64_t cut = bound.value.negative ? -whole : whole;
  const bool moves = bound.value.fraction.empty() ? bound.strict : bound.value.negative != lower;
  if (!moves) return cut;
  return lower ? cut + 1 : cut - 1;
}

// Returns the integers within the range that are multiples of the step; nullopt if they are many,
// or if fractions are allowed.
std::optional<std::vector<std::string>> few_multiples(const NumberRange& range, uint64_t step) {
  if (!range.least || !range.most || range.fraction_digits > 0) return std::nullopt;
  const auto unit = static_cast<int64_t>(step);
  const int64_t least = integer_within(*range.least, true);
  const int64_t most = integer_within(*range.most, false);
  // Integers are divided towards zero.
  const int64_t first = least / unit + (least > 0 && least % unit != 0 ? 1 : 0);
  const int64_t last = most / unit - (most < 0 && most % unit != 0 ? 1 : 0);
  if (last - first >= kMostMultiples) return std::nullopt;
  std::vector<std::string> out;
  for (int64_t i = first; i <= last; ++i) out.push_back(std::to_string(i * unit));
  return out;
}

bool looks_ahead(const std::string& pattern) {
  return pattern.find("(?=") != pattern.npos || pattern.find("(?!") != pattern.npos;
}

}  // namespace

Result<SchemaCompiler::Count> SchemaCompiler::count_of(const Json& schema, const char* least,
                                                       const char* most,
                                                       const std::string& path) const {
  Count count;
  for (const char* name : {least, most}) {
    if (!schema.contains(name)) continue;
    const double value = schema[name].get<double>();
    if (value > kMostCount)
      return fail("the schema at {}: {} is more than {}; lower it or leave it out", path, name,
                  kMostCount);
    if (name == least)
      count.least = static_cast<uint32_t>(value);
    else
      count.most = static_cast<uint32_t>(value);
  }
  if (count.last() < count.least)
    return fail("the schema at {}: {} is below {}, so nothing fits", path, most, least);
  return count;
}

Result<std::optional<CharNfa>> SchemaCompiler::matched_by(const Json& schema) {
  Json patterns = Json::array();
  if (schema.contains("pattern")) patterns = schema["pattern"];
  if (!patterns.is_array()) patterns = Json::array({patterns});
  std::optional<std::string> format;
  if (schema.contains("format"))
    format = pattern_of_format(schema["format"].get_ref<const std::string&>());
  const bool looks = std::any_of(patterns.begin(), patterns.end(), [](const Json& one) {
    return looks_ahead(one.get_ref<const std::string&>());
  });
  const bool combines = looks || patterns.size() + (format ? 1 : 0) > 1;
  if (combines && ++combined_ > kMostCombined)
    return fail("it is combined with others in more than {} strings; use fewer", kMostCombined);
  std::optional<CharNfa> all;
  for (const Json& one : patterns) {
    KVICK_TRY(CharNfa next, parse_pattern(one.get_ref<const std::string&>()));
    if (all) {
      KVICK_TRY(next, common_texts(*all, next));
    }
    all = std::move(next);
  }
  if (!format) return all;
  KVICK_TRY(CharNfa next, parse_pattern(*format));
  if (!all) return std::optional(std::move(next));
  // The standard lets implementations ignore formats, and some contradict their pattern: Zod's
  // pattern of a time has no offset.
  auto both = common_texts(*all, next);
  const bool fits = both.ok() && both->states.size() <= kMostFormatStates && takes_any(*both);
  return fits ? std::optional(*std::move(both)) : std::move(all);
}

Status<> SchemaCompiler::compile_string(const Json& schema, Between place,
                                        const std::string& path) {
  KVICK_TRY(const Count count, count_of(schema, "minLength", "maxLength", path));
  const Length length = {count.least, count.most};
  const auto in_place = [&](const base::Error& error) {
    return fail("the schema at {}: pattern: {}", path, error.message);
  };
  const auto pattern = matched_by(schema);
  if (!pattern.ok()) return in_place(pattern.error());
  if (!*pattern) {
    strings_.add(length, place.from, place.to);
    return base::Done{};
  }
  const auto added = strings_.add_matching(**pattern, length, place.from, place.to);
  if (!added.ok()) return in_place(added.error());
  return base::Done{};
}

Status<> SchemaCompiler::compile_number(const Json& schema, bool integer, Between place,
                                        const std::string& path) {
  NumberRange range;
  uint64_t step = 1;
  if (schema.contains("multipleOf")) {
    const auto read = step_of(schema["multipleOf"]);
    if (!read.ok()) return fail("the schema at {}: multipleOf: {}", path, read.error().message);
    step = read->units;
    range.fraction_digits = read->fraction_digits;
    // A step over integers is a whole number.
    uint64_t one = 1;
    for (uint32_t i = 0; i < read->fraction_digits; ++i) one *= 10;
    if (integer) step /= std::gcd(step, one);
  }
  if (integer) range.fraction_digits = 0;
  for (const auto& [name, strict] : {std::pair("minimum", false),
                                     {"exclusiveMinimum", true},
                                     {"maximum", false},
                                     {"exclusiveMaximum", true}}) {
    if (!schema.contains(name)) continue;
    auto digits = decimal_of(schema[name]);
    if (!digits.ok()) return fail("the schema at {}: {}: {}", path, name, digits.error().message);
    const bool lower = std::string_view(name).ends_with("inimum");
    if (digits->whole.size() > NumberRange::kMostWhole) {
      if (digits->negative == lower) continue;  // every number that can be written satisfies it
      return fail("the schema at {}: {} leaves only numbers of more than {} digits", path, name,
                  NumberRange::kMostWhole);
    }
    auto& bound = lower ? range.least : range.most;
    // The narrower one of minimum and exclusiveMinimum counts (likewise the maximums); if they are
    // equal, the exclusive one.
    const double value = schema[name].get<double>();
    const char* other = lower ? "minimum" : "maximum";
    const bool wider = bound && (lower ? value < schema[other].get<double>()
                                       : value > schema[other].get<double>());
    if (!wider) bound = NumberRange::Bound{*std::move(digits), strict};
  }
  if (step == 1) {
    add_number(grammar_, range, place.from, place.to);
  } else if (auto few = few_multiples(range, step)) {
    add_literals(*std::move(few), place);
  } else if (!add_multiples(grammar_, range, step, place.from, place.to)) {
    return fail(
        "the schema at {}: multipleOf takes more than {} states; bring minimum and maximum closer "
        "together, or leave it out",
        path, kMostRemainders);
  }
  return base::Done{};
}

Status<> SchemaCompiler::compile_array(const Json& schema, Between place, const std::string& path) {
  KVICK_TRY(Count count, count_of(schema, "minItems", "maxItems", path));
  if (schema.contains("uniqueItems") && count.most.value_or(2) > 1)
    return compile_unique(schema, count, place, path);
  std::vector<RuleId> first;
  const Json none = Json::array();
  const Json& prefix = schema.contains("prefixItems") ? schema["prefixItems"] : none;
  for (size_t i = 0; i < prefix.size(); ++i) {
    KVICK_TRY(const RuleId rule, rule_of(prefix[i], fmt::format("{}/prefixItems/{}", path, i)));
    first.push_back(rule);
  }
  KVICK_TRY(const RuleId rest,
            rule_of(schema.contains("items") ? schema["items"] : Json(true), path + "/items"));
  const StateId open = grammar_.state(), inside = grammar_.state();
  grammar_.byte(place.from, '[', open);
  gap(open, inside);
  if (count.least == 0) grammar_.byte(inside, ']', place.to);
  // Each item of the prefix has its own state. Later items are counted only as far as the count
  // matters.
  const uint32_t least = count.least;
  if (!count.most) count.least = std::max(least, static_cast<uint32_t>(first.size()));
  std::vector<StateId> items = {inside};  // the state before each item
  while (items.size() <= count.last() && !grammar_.full()) items.push_back(grammar_.state());
  for (uint32_t i = 0; i < items.size() && !grammar_.full(); ++i) {
    const std::optional<uint32_t> next = count.next(i);
    if (!next) break;
    const StateId behind = grammar_.state(), comma = grammar_.state(), close = grammar_.state();
    grammar_.call(items[i], i < first.size() ? first[i] : rest, behind);
    grammar_.byte(behind, ',', comma);
    StateId again = items[*next];
    // The array may close at `inside`, but not after a comma.
    if (*next == 0) again = grammar_.state();
    gap(comma, again);
    if (*next == 0) grammar_.call(again, rest, behind);
    if (i + 1 < least) continue;
    gap(behind, close);
    grammar_.byte(close, ']', place.to);
  }
  return base::Done{};
}

Result<std::vector<SchemaCompiler::Member>> SchemaCompiler::members_of(const Json& schema,
                                                                       const std::string& path) {
  const Json none = Json::object(), nobody = Json::array();
  Json properties = schema.contains("properties") ? schema["properties"] : none;
  const Json& required = schema.contains("required") ? schema["required"] : nobody;
  std::unordered_set<std::string> wanted, known;
  for (const auto& [name, value] : properties.items()) known.insert(name);
  for (const Json& name : required) {
    wanted.insert(name.get<std::string>());
    if (!known.insert(name.get<std::string>()).second) continue;
    properties.push_back({name.get<std::string>(), schema.contains("additionalProperties")
                                                       ? schema["additionalProperties"]
                                                       : Json(true)});
  }
  std::vector<Member> members;
  for (const auto& [name, value] : properties.items()) {
    KVICK_TRY(const RuleId rule, rule_of(value, SchemaExpander::below(path + "/properties", name)));
    const RuleId member = grammar_.rule();
    const StateId behind_key = grammar_.state(), behind_colon = grammar_.state();
    grammar_.literal(grammar_.start(member),
                     Json(name).dump(-1, ' ', false, Json::error_handler_t::replace), behind_key);
    colon(behind_key, behind_colon);
    grammar_.call(behind_colon, rule, grammar_.end(member));
    members.push_back({member, wanted.count(name) > 0});
    if (grammar_.full()) break;
  }
  return members;
}

// Returns the rule of a property that is not declared; nullopt if there may be none.
Result<std::optional<RuleId>> SchemaCompiler::other_member(const Json& schema,
                                                           const std::string& path) {
  const bool said = schema.contains("additionalProperties");
  const bool names_some = schema.contains("properties") || schema.contains("required");
  if (schema.contains("propertyNames") && names_some)
    return fail(
        "the schema at {}: propertyNames beside properties or required is supported for a "
        "list of names only",
        path);
  if (!said && schema.contains("properties")) return std::optional<RuleId>();
  KVICK_TRY(const RuleId rule, rule_of(said ? schema["additionalProperties"] : Json(true),
                                       path + "/additionalProperties"));
  std::vector<std::string> names;
  if (schema.contains("properties"))
    for (const auto& [name, value] : schema["properties"].items()) names.push_back(name);
  if (schema.contains("required"))
    for (const Json& name : schema["required"]) names.push_back(name.get<std::string>());
  const RuleId member = grammar_.rule();
  const StateId behind_key = grammar_.state(), behind_colon = grammar_.state();
  if (schema.contains("propertyNames")) {
    const Json key = {{"type", "string"}, {"allOf", Json::array({schema["propertyNames"]})}};
    const std::string place = path + "/propertyNames";
    KVICK_TRY(const std::vector<Json> any, expander_.alternatives(key, place));
    for (const Json& one : any)
      KVICK_TRY_VOID(compile_flat(one, {grammar_.start(member), behind_key}, place));
  } else {
    strings_.add_others(names, grammar_.start(member), behind_key);
  }
  colon(behind_key, behind_colon);
  grammar_.call(behind_colon, rule, grammar_.end(member));
  return std::optional(member);
}

Status<> SchemaCompiler::compile_object(const Json& schema, Between place,
                                        const std::string& path) {
  KVICK_TRY(const Count count, count_of(schema, "minProperties", "maxProperties", path));
  KVICK_TRY(const std::vector<Member> members, members_of(schema, path));
  KVICK_TRY(const std::optional<RuleId> other, other_member(schema, path));
  add_members(members, other, count, place);
  return base::Done{};
}

// Builds two states for each place in the order of members and each count of members so far: before
// and after a member.
void SchemaCompiler::add_members(const std::vector<Member>& members, std::optional<RuleId> other,
                                 const Count& count, Between place) {
  const size_t places = members.size() + 1, counts = count.last() + size_t{1};
  std::vector<bool> may_close(places, true);  // no required member is left
  for (size_t i = members.size(); i-- > 0;) may_close[i] = may_close[i + 1] && !members[i].required;
  if (places * counts > GrammarBuilder::kMostParts) {
    while (!grammar_.full()) grammar_.state();  // finish() then returns the error
    return;
  }
  std::vector<StateId> before(places * counts), behind(places * counts);
  for (StateId& state : before) state = grammar_.state();
  for (StateId& state : behind) state = grammar_.state();
  const StateId open = grammar_.state(), inside = grammar_.state();
  grammar_.byte(place.from, '{', open);
  gap(open, inside);
  grammar_.skip(inside, before[0]);
  if (may_close[0] && count.least == 0) grammar_.byte(inside, '}', place.to);
  for (size_t i = 0; i < places && !grammar_.full(); ++i) {
    for (uint32_t c = 0; c < counts; ++c) {
      const StateId at = before[i * counts + c], done = behind[i * counts + c];
      const std::optional<uint32_t> next = count.next(c);
      if (i < members.size()) {
        if (next) grammar_.call(at, members[i].rule, behind[(i + 1) * counts + *next]);
        if (!members[i].required) grammar_.skip(at, before[(i + 1) * counts + c]);
      } else if (other && next) {
        grammar_.call(at, *other, behind[i * counts + *next]);
      }
      const StateId comma = grammar_.state();
      grammar_.byte(done, ',', comma);
      gap(comma, at);
      if (!may_close[i] || c < count.least) continue;
      const StateId close = grammar_.state();
      gap(done, close);
      grammar_.byte(close, '}', place.to);
    }
  }
}

}  // namespace kvick::text
