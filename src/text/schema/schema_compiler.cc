#include "text/schema/schema_compiler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "text/grammar/nfa_algebra.h"
#include "text/unicode/utf8.h"

namespace kvick::text {
namespace {

using base::fail;
using base::Result;
using base::Status;

constexpr auto kReplace = Json::error_handler_t::replace;

std::string text_of(const Json& value) { return value.dump(-1, ' ', false, kReplace); }

// The keywords that constrain values of one type.
struct AboutType {
  const char* type;
  std::vector<const char*> keywords;
};
const std::array<AboutType, 4>& about_types() {
  static const std::array<AboutType, 4> kAbout = {
      {{"object",
        {"properties", "required", "additionalProperties", "propertyNames", "minProperties",
         "maxProperties"}},
       {"array", {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}},
       {"string", {"minLength", "maxLength", "pattern", "format"}},
       {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}}}};
  return kAbout;
}

std::vector<std::string> types_of(const Json& schema) {
  std::vector<std::string> types;
  if (schema.contains("type")) {
    for (const Json& type : schema["type"]) types.push_back(type.get<std::string>());
  } else {
    for (const AboutType& about : about_types())
      if (std::any_of(about.keywords.begin(), about.keywords.end(),
                      [&](const char* keyword) { return schema.contains(keyword); }))
        types.emplace_back(about.type);
  }
  if (types.empty()) types = {"null", "boolean", "object", "array", "string", "number"};
  std::sort(types.begin(), types.end());
  types.erase(std::unique(types.begin(), types.end()), types.end());
  if (std::count(types.begin(), types.end(), "number") > 0) std::erase(types, "integer");
  return types;
}

// Returns whether the schema is an object of two required properties, the first with a single
// string as its value. Schemas of tool calls have this form.
bool has_tag(const Json& schema) {
  if (!schema.is_object() || schema.size() != 4 || schema.value("type", Json()) != "object" ||
      schema.value("additionalProperties", Json()) != false)
    return false;
  const Json properties = schema.value("properties", Json());
  if (!properties.is_object() || properties.size() != 2) return false;
  const auto first = properties.begin(), second = std::next(first);
  const Json values =
      first->is_object() && first->size() == 1 ? first->value("enum", Json()) : Json();
  return schema.value("required", Json()) == Json::array({first.key(), second.key()}) &&
         values.is_array() && values.size() == 1 && values[0].is_string();
}

std::pair<std::string, std::string> keys_of(const Json& tagged) {
  const auto first = tagged["properties"].begin();
  return {first.key(), std::next(first).key()};
}

// Returns whether these are more alternatives than the automaton can follow at once, all of them
// objects with the same keys and a tag.
bool have_tags(const Json& any) {
  constexpr size_t kFew = 100;
  return any.size() > kFew && std::all_of(any.begin(), any.end(), [&](const Json& one) {
           return has_tag(one) && keys_of(one) == keys_of(any[0]);
         });
}

bool is_integer(const Json& value) {
  return value.is_number() &&
         (!value.is_number_float() || std::floor(value.get<double>()) == value.get<double>());
}

bool is_of_type(const Json& value, const Json& types) {
  return std::any_of(types.begin(), types.end(), [&](const Json& type) {
    return type == (value.is_number() ? "number" : value.type_name()) ||
           (type == "integer" && is_integer(value));
  });
}

bool all_differ(const Json& items) {
  // Objects are equal in whatever order they have their members, which nlohmann::json sorts.
  std::set<nlohmann::json> known;
  return std::all_of(items.begin(), items.end(),
                     [&](const Json& item) { return known.insert(nlohmann::json(item)).second; });
}

// Returns whether a value of the keyword's type satisfies it; nullopt if only a grammar could
// decide.
Result<std::optional<bool>> keeps_to(const Json& value, std::string_view keyword,
                                     const Json& bound) {
  if (keyword == "uniqueItems") return std::optional(all_differ(value));
  if (keyword == "multipleOf") {
    KVICK_TRY(const DecimalStep step, step_of(bound));
    KVICK_TRY(const Decimal number, decimal_of(value));
    return std::optional(is_multiple(number, step));
  }
  if (keyword == "pattern") return std::optional(true);  // listed() checks it
  // Formats that are not enforced are ignored here too: Gemini's schemas write "format": "enum".
  if (keyword == "format" && !pattern_of_format(bound.get_ref<const std::string&>()))
    return std::optional(true);
  if (keyword == "required")
    return std::optional(std::all_of(bound.begin(), bound.end(), [&](const Json& name) {
      return value.contains(name.get_ref<const std::string&>());
    }));
  const bool is_range = keyword.find("inimum") != std::string_view::npos ||
                        keyword.find("aximum") != std::string_view::npos;
  if (is_range && keyword.starts_with("exclusive"))
    return std::optional(keyword.ends_with("inimum") ? bound < value : value < bound);
  if (is_range) return std::optional(keyword == "minimum" ? bound <= value : value <= bound);
  const bool is_count = keyword.starts_with("min") || keyword.starts_with("max");
  if (!is_count) return std::optional<bool>();
  size_t size = value.size();
  if (value.is_string()) {
    size = 0;
    for (std::string_view rest = value.get_ref<const std::string&>(); !rest.empty(); ++size)
      rest.remove_prefix(decode_utf8(rest).bytes);
  }
  return std::optional(keyword.starts_with("min") ? bound <= size : size <= bound);
}

}  // namespace

SchemaCompiler::SchemaCompiler(const Json& root, const JsonLayout& layout)
    : layout_(layout), expander_(root), strings_(grammar_) {}

Result<GrammarBuilder> SchemaCompiler::compile(const Json& schema) && {
  const RuleId whole = grammar_.rule();
  const StateId begin = grammar_.state();
  grammar_.skip(grammar_.start(whole), begin);
  if (layout_.leading_space) grammar_.byte(grammar_.start(whole), ' ', begin);
  gap_ = grammar_.rule();
  const StateId end = grammar_.end(gap_);
  grammar_.skip(grammar_.start(gap_), end);
  if (layout_.spaces) grammar_.byte(grammar_.start(gap_), ' ', end);
  StateId at = grammar_.start(gap_);
  for (uint32_t indent = 0; layout_.most_indent > 0 && indent <= layout_.most_indent; ++indent) {
    const StateId next = grammar_.state();
    grammar_.byte(at, indent == 0 ? '\n' : ' ', next);
    grammar_.skip(next, end);
    at = next;
  }
  KVICK_TRY(const RuleId top, rule_of(schema, "#"));
  grammar_.call(begin, top, grammar_.end(whole));
  for (; !jobs_.empty() && !grammar_.full(); jobs_.pop_front()) {
    KVICK_TRY_VOID(compile(jobs_.front()));
  }
  return std::move(grammar_);
}

Result<RuleId> SchemaCompiler::rule_of(const Json& schema, const std::string& path) {
  Json plain = SchemaExpander::without_notes(schema);
  KVICK_TRY_VOID(expander_.spend(plain));
  const auto [found, is_new] = rules_.try_emplace(text_of(plain));
  if (is_new) {
    found->second = grammar_.rule();
    jobs_.push_back({std::move(plain), found->second, path});
  }
  return found->second;
}

Status<> SchemaCompiler::compile(const Job& job) {
  const Between place = {grammar_.start(job.rule), grammar_.end(job.rule)};
  // A schema that is only a reference or only a choice shares the rules that it refers to.
  if (job.schema.is_object() && job.schema.size() == 1) {
    const auto only = job.schema.begin();
    if (only.key() == "$ref") {
      KVICK_TRY(const Json* target, expander_.resolve(*only, job.path));
      KVICK_TRY(const RuleId rule, rule_of(*target, job.path));
      grammar_.call(place.from, rule, place.to);
      return base::Done{};
    }
    if (only.key() == "anyOf" && only->is_array() && have_tags(*only))
      return compile_tagged(*only, place, job.path);
    if ((only.key() == "anyOf" || only.key() == "oneOf") && only->is_array() && !only->empty()) {
      for (size_t i = 0; i < only->size(); ++i) {
        KVICK_TRY(const RuleId rule,
                  rule_of((*only)[i], fmt::format("{}/{}/{}", job.path, only.key(), i)));
        grammar_.call(place.from, rule, place.to);
      }
      return base::Done{};
    }
  }
  KVICK_TRY(const std::vector<Json> any, expander_.alternatives(job.schema, job.path));
  for (const Json& schema : any) KVICK_TRY_VOID(compile_flat(schema, place, job.path));
  return base::Done{};
}

Status<> SchemaCompiler::compile_tagged(const Json& any, Between place, const std::string& path) {
  const auto [tag, rest] = keys_of(any[0]);
  const auto add_key = [&](const std::string& key) {
    const RuleId rule = grammar_.rule();
    const StateId behind = grammar_.state();
    grammar_.literal(grammar_.start(rule), text_of(key), behind);
    colon(behind, grammar_.end(rule));
    return rule;
  };
  const RuleId rest_key = add_key(rest);
  const StateId open = grammar_.state(), inside = grammar_.state(), value = grammar_.state();
  grammar_.byte(place.from, '{', open);
  gap(open, inside);
  grammar_.call(inside, add_key(tag), value);
  std::map<std::pair<StateId, char>, StateId> known;  // the states along the tags' common prefixes
  for (size_t i = 0; i < any.size() && !grammar_.full(); ++i) {
    const Json& properties = any[i]["properties"];
    StateId at = value;
    for (const char c : text_of(properties[tag]["enum"][0])) {
      const auto [found, is_new] = known.try_emplace({at, c});
      if (is_new) {
        found->second = grammar_.state();
        grammar_.byte(at, c, found->second);
      }
      at = found->second;
    }
    KVICK_TRY(const RuleId rule,
              rule_of(properties[rest],
                      SchemaExpander::below(fmt::format("{}/anyOf/{}/properties", path, i), rest)));
    const StateId comma = grammar_.state(), key = grammar_.state(), behind_key = grammar_.state(),
                  behind = grammar_.state(), close = grammar_.state();
    grammar_.byte(at, ',', comma);
    gap(comma, key);
    grammar_.call(key, rest_key, behind_key);
    grammar_.call(behind_key, rule, behind);
    gap(behind, close);
    grammar_.byte(close, '}', place.to);
  }
  return base::Done{};
}

Status<> SchemaCompiler::compile_flat(const Json& schema, Between place, const std::string& path) {
  if (schema.contains("enum")) return compile_values(schema, place, path);
  for (const std::string& type : types_of(schema))
    KVICK_TRY_VOID(compile_type(type, schema, place, path));
  return base::Done{};
}

Status<> SchemaCompiler::compile_type(const std::string& type, const Json& schema, Between place,
                                      const std::string& path) {
  if (type == "object") return compile_object(schema, place, path);
  if (type == "array") return compile_array(schema, place, path);
  if (type == "string") return compile_string(schema, place, path);
  if (type == "number") return compile_number(schema, false, place, path);
  if (type == "integer") return compile_number(schema, true, place, path);
  if (type == "boolean") {
    add_literals({"true", "false"}, place);
  } else {
    add_literals({"null"}, place);
  }
  return base::Done{};
}

Result<bool> SchemaCompiler::is_instance(const Json& value, const Json& schema,
                                         const std::string& path) const {
  if (schema.contains("type") && !is_of_type(value, schema["type"])) return false;
  bool fits = true;
  for (const AboutType& about : about_types()) {
    if (!is_of_type(value, Json::array({about.type}))) continue;
    for (const char* keyword : about.keywords) {
      if (!schema.contains(keyword)) continue;
      const auto keeps = keeps_to(value, keyword, schema[keyword]);
      if (!keeps.ok())
        return fail("the schema at {}: {}: {}", path, keyword, keeps.error().message);
      if (!*keeps)
        return fail("the schema at {}: {} beside enum or const is not supported; leave it out",
                    path, keyword);
      fits = fits && **keeps;
    }
  }
  return fits;
}

Result<std::vector<Json>> SchemaCompiler::listed(const Json& schema, const std::string& path) {
  const Json& values = schema["enum"];
  const bool has_text =
      std::any_of(values.begin(), values.end(), [](const Json& one) { return one.is_string(); });
  std::optional<CharNfa> pattern;
  if (schema.contains("pattern") && has_text) {
    auto read = matched_by(schema);
    if (!read.ok()) return fail("the schema at {}: pattern: {}", path, read.error().message);
    pattern = *std::move(read);
  }
  std::vector<Json> out;
  for (const Json& value : values) {
    KVICK_TRY(const bool fits, is_instance(value, schema, path));
    if (!fits) continue;
    if (pattern && value.is_string()) {
      const auto matches = takes(*pattern, value.get_ref<const std::string&>(), match_budget_);
      if (!matches)
        return fail("the schema at {}: the values beside pattern are too long; leave it out", path);
      if (!*matches) continue;
    }
    out.push_back(value);
  }
  return out;
}

Status<> SchemaCompiler::compile_values(const Json& schema, Between place,
                                        const std::string& path) {
  std::vector<std::string> texts;
  KVICK_TRY(const std::vector<Json> values, listed(schema, path));
  for (const Json& value : values) {
    if (value.is_structured())
      add_value(value, place);
    else
      texts.push_back(text_of(value));
  }
  add_literals(std::move(texts), place);
  return base::Done{};
}

// Adds the texts as a trie, so that many values are few alternatives.
void SchemaCompiler::add_literals(std::vector<std::string> texts, Between place) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  std::vector<StateId> open = {place.from};  // the states along the last text
  std::string_view before;
  for (const std::string& text : texts) {
    if (grammar_.full()) return;
    const auto shared = static_cast<size_t>(
        std::mismatch(before.begin(), before.end(), text.begin(), text.end()).first -
        before.begin());
    open.resize(std::min(shared + 1, open.size()));
    for (size_t at = open.size() - 1; at + 1 < text.size(); ++at) {
      const StateId next = grammar_.state();
      grammar_.byte(open.back(), text[at], next);
      open.push_back(next);
    }
    grammar_.byte(open.back(), text.back(), place.to);
    before = text;
  }
}

void SchemaCompiler::add_value(const Json& value, Between place) {
  if (!value.is_structured()) return grammar_.literal(place.from, text_of(value), place.to);
  const bool object = value.is_object();
  StateId at = grammar_.state();
  grammar_.byte(place.from, object ? '{' : '[', at);
  for (auto inside = value.begin(); inside != value.end(); ++inside) {
    StateId next = grammar_.state();
    if (inside != value.begin()) {
      grammar_.byte(at, ',', next);
      at = std::exchange(next, grammar_.state());
    }
    gap(at, next);
    at = next;
    if (object) {
      const StateId behind_key = grammar_.state(), behind_colon = grammar_.state();
      grammar_.literal(at, text_of(inside.key()), behind_key);
      colon(behind_key, behind_colon);
      at = behind_colon;
    }
    const StateId behind = grammar_.state();
    add_value(*inside, {at, behind});
    at = behind;
  }
  const StateId close = grammar_.state();
  gap(at, close);
  grammar_.byte(close, object ? '}' : ']', place.to);
}

void SchemaCompiler::gap(StateId from, StateId to) { grammar_.call(from, gap_, to); }

void SchemaCompiler::colon(StateId from, StateId to) {
  const StateId behind = grammar_.state();
  grammar_.byte(from, ':', behind);
  grammar_.skip(behind, to);
  if (layout_.spaces) grammar_.byte(behind, ' ', to);
}

}  // namespace kvick::text
