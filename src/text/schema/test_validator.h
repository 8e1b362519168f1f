#pragma once
// For tests: checks by the standard whether JSON is an instance of a schema, for the keywords that
// tests use. Other keywords are ignored. Throws Json::exception if the value of a keyword has a
// wrong type.

#include <algorithm>
#include <string>
#include <string_view>

#include "text/schema/json_constraint.h"
#include "text/unicode/utf8.h"

namespace kvick::text {

inline size_t characters(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(decode_utf8(text).bytes);
  return count;
}

inline bool is_type(const Json& v, const std::string& type) {
  if (type == "integer") return v.is_number_integer();
  return type == (v.is_number() ? "number" : v.type_name());
}

inline bool valid(const Json& v, const Json& s);

inline bool valid_object(const Json& v, const Json& s) {
  const Json properties = s.value("properties", Json::object());
  for (const Json& name : s.value("required", Json::array()))
    if (!v.contains(name.get<std::string>())) return false;
  for (const auto& [name, inside] : v.items()) {
    const Json rest = s.value("additionalProperties", Json(true));
    if (!valid(inside, properties.contains(name) ? properties[name] : rest)) return false;
  }
  return v.size() >= s.value("minProperties", 0U) && v.size() <= s.value("maxProperties", 99U);
}

inline bool valid_array(const Json& v, const Json& s) {
  const Json prefix = s.value("prefixItems", Json::array());
  for (size_t i = 0; i < v.size(); ++i)
    if (!valid(v[i], i < prefix.size() ? prefix[i] : s.value("items", Json(true)))) return false;
  return v.size() >= s.value("minItems", 0U) && v.size() <= s.value("maxItems", 99U);
}

// Checks the keywords that random_schema() uses.
inline bool valid(const Json& v, const Json& s) {
  if (s.is_boolean()) return s.get<bool>();
  const auto fits = [&](const Json& part) { return valid(v, part); };
  if (s.contains("type")) {
    const Json types = s["type"].is_array() ? s["type"] : Json::array({s["type"]});
    if (std::none_of(types.begin(), types.end(), [&](const Json& t) { return is_type(v, t); }))
      return false;
  }
  if (s.contains("enum") && std::count(s["enum"].begin(), s["enum"].end(), v) == 0) return false;
  if (s.contains("const") && s["const"] != v) return false;
  if (s.contains("anyOf") && std::none_of(s["anyOf"].begin(), s["anyOf"].end(), fits)) return false;
  if (s.contains("allOf") && !std::all_of(s["allOf"].begin(), s["allOf"].end(), fits)) return false;
  if (v.is_number()) {
    const double n = v.get<double>();
    if (n < s.value("minimum", -1e300) || n > s.value("maximum", 1e300)) return false;
    if (n <= s.value("exclusiveMinimum", -1e300) || n >= s.value("exclusiveMaximum", 1e300))
      return false;
  }
  if (v.is_string()) {
    const size_t n = characters(v.get_ref<const std::string&>());
    if (n < s.value("minLength", 0U) || n > s.value("maxLength", 1000U)) return false;
  }
  if (v.is_object()) return valid_object(v, s);
  return !v.is_array() || valid_array(v, s);
}

}  // namespace kvick::text
