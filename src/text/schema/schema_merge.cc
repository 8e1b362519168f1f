#include "text/schema/schema_merge.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "text/grammar/number_grammar.h"

namespace kvick::text {
namespace {

using base::fail;
using base::Result;
using base::Status;

constexpr size_t kMostPatterns = 8;  // of one string

enum class Form {
  kSchema,
  kSchemas,
  kProperties,
  kNames,
  kCount,
  kNumber,
  kString,
  kList,
  kTypes,
  kFlag
};
struct Keyword {
  std::string_view name;
  Form form;
};
constexpr std::array<Keyword, 22> kKeywords = {{{"type", Form::kTypes},
                                                {"enum", Form::kList},
                                                {"properties", Form::kProperties},
                                                {"required", Form::kNames},
                                                {"additionalProperties", Form::kSchema},
                                                {"propertyNames", Form::kSchema},
                                                {"minProperties", Form::kCount},
                                                {"maxProperties", Form::kCount},
                                                {"items", Form::kSchema},
                                                {"prefixItems", Form::kSchemas},
                                                {"minItems", Form::kCount},
                                                {"maxItems", Form::kCount},
                                                {"uniqueItems", Form::kFlag},
                                                {"minLength", Form::kCount},
                                                {"maxLength", Form::kCount},
                                                {"pattern", Form::kString},
                                                {"format", Form::kString},
                                                {"minimum", Form::kNumber},
                                                {"maximum", Form::kNumber},
                                                {"exclusiveMinimum", Form::kNumber},
                                                {"exclusiveMaximum", Form::kNumber},
                                                {"multipleOf", Form::kNumber}}};
// Ignoring these keywords would allow texts that are not instances. Keywords in neither list do not
// constrain instances, according to the standard.
constexpr std::array<std::string_view, 18> kUnsupported = {"not",
                                                           "if",
                                                           "then",
                                                           "else",
                                                           "contains",
                                                           "minContains",
                                                           "maxContains",
                                                           "dependencies",
                                                           "dependentSchemas",
                                                           "dependentRequired",
                                                           "$dynamicRef",
                                                           "$recursiveRef",
                                                           "patternProperties",
                                                           "unevaluatedProperties",
                                                           "unevaluatedItems",
                                                           "disallow",
                                                           "extends",
                                                           "divisibleBy"};
constexpr std::array<std::string_view, 7> kTypes = {"null",   "boolean", "object", "array",
                                                    "string", "number",  "integer"};

bool is_schema(const Json& value) { return value.is_object() || value.is_boolean(); }

bool is_type(const Json& value) {
  return value.is_string() && std::find(kTypes.begin(), kTypes.end(),
                                        value.get_ref<const std::string&>()) != kTypes.end();
}

bool is_count(const Json& value) {
  return value.is_number() && value.get<double>() >= 0 &&
         std::floor(value.get<double>()) == value.get<double>();
}

template <typename Predicate>
bool all_of(const Json& list, Predicate predicate) {
  return std::all_of(list.begin(), list.end(), predicate);
}

// Returns what a value of that form must be, or "" if it is.
std::string_view complaint(Form form, const Json& value) {
  const auto is_string = [](const Json& one) { return one.is_string(); };
  switch (form) {
    case Form::kSchema:
      return is_schema(value) ? "" : "a schema";
    case Form::kSchemas:
      return value.is_array() && all_of(value, is_schema) ? "" : "a list of schemas";
    case Form::kProperties:
      return value.is_object() && all_of(value, is_schema) ? "" : "an object of schemas";
    case Form::kNames:
      return value.is_array() && all_of(value, is_string) ? "" : "a list of strings";
    case Form::kCount:
      return is_count(value) ? "" : "a whole number, zero or more";
    case Form::kNumber:
      return value.is_number() && std::isfinite(value.get<double>()) ? "" : "a number";
    case Form::kString:
      return value.is_string() ? "" : "a string";
    case Form::kList:
      return value.is_array() ? "" : "a list of values";
    case Form::kFlag:
      return value.is_boolean() ? "" : "true or false";
    case Form::kTypes:
      return value.is_array() && !value.empty() && all_of(value, is_type)
                 ? ""
                 : "one or a list of null, boolean, object, array, string, number, integer";
  }
  return "";
}

void modernise_bound(Json& schema, const char* bound, const char* strict) {
  const auto flag = schema.find(strict);
  if (flag == schema.end() || !flag->is_boolean()) return;
  const bool is_strict = flag->get<bool>();
  schema.erase(strict);
  if (!is_strict || !schema.contains(bound)) return;
  schema[strict] = schema[bound];
  schema.erase(bound);
}

// Zod's z.never() and z.undefined() are {"not": {}}.
void modernise_not(Json& schema) {
  const Json no = schema.value("not", Json());
  if (no == false) schema.erase("not");
  if (no != true && no != Json::object()) return;
  schema = Json::object();
  schema["enum"] = Json::array();
}

// Pydantic's dict[Annotated[str, Field(pattern=...)], T] has this form. Names that do not match are
// excluded, as undeclared names are beside `properties`.
void modernise_names(Json& schema) {
  const Json patterns = schema.value("patternProperties", Json());
  const bool alone = patterns.is_object() && patterns.size() == 1 &&
                     schema.value("additionalProperties", Json(false)) == false;
  if (!alone || schema.contains("properties") || schema.contains("required") ||
      schema.contains("propertyNames"))
    return;
  schema.erase("patternProperties");
  schema["propertyNames"]["pattern"] = patterns.begin().key();
  schema["additionalProperties"] = patterns.begin().value();
}

void modernise(Json& schema) {
  modernise_not(schema);
  modernise_names(schema);
  modernise_bound(schema, "minimum", "exclusiveMinimum");
  modernise_bound(schema, "maximum", "exclusiveMaximum");
  if (schema.contains("type") && !schema["type"].is_array())
    schema["type"] = Json::array({schema["type"]});
  if (schema.value("nullable", Json()) == true && schema.contains("type"))
    schema["type"].push_back("null");
  schema.erase("nullable");
  if (schema.contains("items") && schema["items"].is_array()) {
    schema["prefixItems"] = schema["items"];
    schema.erase("items");
    if (schema.contains("additionalItems")) schema["items"] = schema["additionalItems"];
  }
  schema.erase("additionalItems");
  if (schema.value("uniqueItems", Json()) == false) schema.erase("uniqueItems");
}

Json both(const Json& a, const Json& b) {
  if (a == true || a == b) return b;
  if (b == true) return a;
  if (a == false || b == false) return false;
  Json out = {{"allOf", Json::array({a})}};
  if (a.is_object() && a.size() == 1 && a.contains("allOf")) out = a;
  out["allOf"].push_back(b);
  return out;
}

Json common(const Json& a, const Json& b) {
  Json out = Json::array();
  for (const Json& one : a)
    if (std::find(b.begin(), b.end(), one) != b.end()) out.push_back(one);
  return out;
}

Json common_types(const Json& a, const Json& b) {
  Json out = common(a, b);
  const auto has = [](const Json& list, const char* type) {
    return std::find(list.begin(), list.end(), type) != list.end();
  };
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)})
    if (has(*one, "integer") && has(*other, "number") && !has(out, "integer") &&
        !has(out, "number"))
      out.push_back("integer");
  return out;
}

void merge_properties(const Json& a, const Json& b, Json& out) {
  const Json none = Json::object();
  const Json& in_a = a.contains("properties") ? a["properties"] : none;
  const Json& in_b = b.contains("properties") ? b["properties"] : none;
  const auto rest_of = [](const Json& schema) {
    return schema.contains("additionalProperties") ? schema["additionalProperties"] : Json(true);
  };
  Json properties = Json::object();
  for (const auto& [name, schema] : in_a.items())
    properties[name] = both(schema, in_b.contains(name) ? in_b[name] : rest_of(b));
  for (const auto& [name, schema] : in_b.items())
    if (!in_a.contains(name)) properties[name] = both(rest_of(a), schema);
  if (a.contains("properties") || b.contains("properties")) out["properties"] = properties;
  if (a.contains("additionalProperties") || b.contains("additionalProperties"))
    out["additionalProperties"] = both(rest_of(a), rest_of(b));
}

void merge_items(const Json& a, const Json& b, Json& out) {
  const auto prefix = [](const Json& schema) {
    return schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
  };
  const auto rest_of = [](const Json& schema) {
    return schema.contains("items") ? schema["items"] : Json(true);
  };
  const auto item = [&](const Json& schema, size_t i) {
    return i < prefix(schema) ? schema["prefixItems"][i] : rest_of(schema);
  };
  const size_t most = std::max(prefix(a), prefix(b));
  Json items = Json::array();
  for (size_t i = 0; i < most; ++i) items.push_back(both(item(a, i), item(b, i)));
  if (most > 0) out["prefixItems"] = items;
  if (a.contains("items") || b.contains("items")) out["items"] = both(rest_of(a), rest_of(b));
}

// Returns the combination of two values of one keyword.
Result<Json> merge_values(const std::string& name, const Json& a, const Json& b,
                          const std::string& path) {
  if (a == b) return a;
  if (name == "type") return common_types(a, b);
  if (name == "enum") return common(a, b);
  if (name == "required") {
    Json out = a;
    out.insert(out.end(), b.begin(), b.end());
    return out;
  }
  if (name == "propertyNames") return both(a, b);
  if (name == "pattern") {  // a list if there are several
    Json out = a.is_array() ? a : Json::array({a});
    for (const Json& one : b.is_array() ? b : Json::array({b}))
      if (std::find(out.begin(), out.end(), one) == out.end()) out.push_back(one);
    if (out.size() <= kMostPatterns) return out;
    return fail("the schema at {}: more than {} patterns cannot be combined", path, kMostPatterns);
  }
  if (name == "multipleOf") {
    const auto steps = [&]() -> Result<Json> {
      KVICK_TRY(const DecimalStep one, step_of(a));
      KVICK_TRY(const DecimalStep other, step_of(b));
      return common_multiple(one, other);
    }();
    if (steps.ok()) return steps;
    return fail("the schema at {}: multipleOf {} and {}: {}", path, a.dump(), b.dump(),
                steps.error().message);
  }
  if (name.starts_with("min") || name == "exclusiveMinimum") return a < b ? b : a;
  if (name.starts_with("max") || name == "exclusiveMaximum") return a < b ? a : b;
  return fail("the schema at {}: two different values of {} cannot be combined", path, name);
}

}  // namespace

Result<Json> normalised(Json schema, const std::string& path) {
  modernise(schema);
  if (schema.contains("const")) {
    const Json values = Json::array({schema["const"]});
    schema["enum"] = schema.contains("enum") ? common(schema["enum"], values) : values;
    schema.erase("const");
  }
  Json out = Json::object();
  for (const auto& [name, value] : schema.items()) {
    if (std::find(kUnsupported.begin(), kUnsupported.end(), name) != kUnsupported.end())
      return fail("the schema at {}: {} is not supported; leave it out", path, name);
    const auto known =
        std::find_if(kKeywords.begin(), kKeywords.end(),
                     [&, &key = name](const Keyword& one) { return one.name == key; });
    if (known == kKeywords.end()) continue;
    if (const std::string_view wanted = complaint(known->form, value); !wanted.empty())
      return fail("the schema at {}: {} is {}", path, name, wanted);
    out[name] = value;
  }
  return out;
}

Result<std::optional<Json>> merged(const Json& a, const Json& b, const std::string& path) {
  static constexpr std::array<std::string_view, 4> kTogether = {
      "properties", "additionalProperties", "prefixItems", "items"};
  Json out = Json::object();
  for (const Json* schema : {&a, &b}) {
    for (const auto& [name, value] : schema->items()) {
      if (std::find(kTogether.begin(), kTogether.end(), name) != kTogether.end()) continue;
      if (!out.contains(name)) {
        out[name] = value;
        continue;
      }
      KVICK_TRY(out[name], merge_values(name, out[name], value, path));
    }
  }
  merge_properties(a, b, out);
  merge_items(a, b, out);
  for (const char* list : {"type", "enum"})
    if (out.contains(list) && out[list].empty()) return std::optional<Json>();
  return std::optional<Json>(std::move(out));
}

}  // namespace kvick::text
