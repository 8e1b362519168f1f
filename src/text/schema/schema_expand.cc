#include "text/schema/schema_expand.h"

#include <algorithm>
#include <array>
#include <optional>

#include "text/schema/schema_merge.h"
#include "text/tokenizer/vocabulary_check.h"

namespace kvick::text {
namespace {

using base::fail;
using base::Result;

constexpr std::array<std::string_view, 15> kNotes = {
    "title",    "description", "default",     "examples",  "example",
    "$comment", "deprecated",  "readOnly",    "writeOnly", "$id",
    "$schema",  "$defs",       "definitions", "$anchor",   "discriminator"};
constexpr size_t kMostNames = 1000;  // in propertyNames: each name is searched for among all
constexpr std::array<std::string_view, 4> kCombinations = {"allOf", "anyOf", "oneOf", "$ref"};

size_t size_of(const Json& value) {
  size_t size = 16;
  if (value.is_string()) size += value.get_ref<const std::string&>().size();
  if (value.is_object())
    for (const auto& [key, inside] : value.items()) size += key.size() + size_of(inside);
  if (value.is_array())
    for (const Json& inside : value) size += size_of(inside);
  return size;
}

std::string unescaped(std::string_view part) {
  std::string out;
  const auto hex = [&](size_t i) {
    const std::string two(part.substr(i, 2));
    char* end = nullptr;
    const long value = std::strtol(two.c_str(), &end, 16);
    return two.size() == 2 && end == two.c_str() + 2 ? static_cast<int>(value) : -1;
  };
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '%' && hex(i + 1) >= 0) {
      out += static_cast<char>(hex(i + 1));
      i += 2;
    } else if (part.substr(i).starts_with("~1")) {
      out += '/';
      ++i;
    } else if (part.substr(i).starts_with("~0")) {
      out += '~';
      ++i;
    } else {
      out += part[i];
    }
  }
  return out;
}

// Returns the value at one part of a JSON pointer, or nullptr.
const Json* under(const Json& value, const std::string& part) {
  if (value.is_object()) {
    const auto found = value.find(part);
    return found == value.end() ? nullptr : &*found;
  }
  const bool digits =
      !part.empty() && part.size() < 8 &&
      std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!value.is_array() || !digits || std::stoul(part) >= value.size()) return nullptr;
  return &value[std::stoul(part)];
}

// Returns the schema without allOf, anyOf, oneOf and $ref, normalised.
Result<Json> own_keywords(Json own, const std::string& path) {
  for (const std::string_view combination : kCombinations) own.erase(std::string(combination));
  return normalised(std::move(own), path);
}

}  // namespace

std::string SchemaExpander::below(const std::string& path, const std::string& name) {
  const std::string shown = show_piece(name);
  return path + "/" + shown.substr(1, shown.size() - 2);
}

base::Status<> SchemaExpander::check_size(const Json& root) {
  std::vector<std::pair<const Json*, uint32_t>> waiting = {{&root, 0}};
  size_t size = 0;
  while (!waiting.empty()) {
    const auto [value, depth] = waiting.back();
    waiting.pop_back();
    if (depth > kMostNesting) return fail("the schema is nested deeper than {}", kMostNesting);
    size += 16;
    if (value->is_string()) size += value->get_ref<const std::string&>().size();
    if (value->is_object())
      for (const auto& [key, inside] : value->items()) size += key.size();
    if (value->is_structured())
      for (const Json& inside : *value) waiting.emplace_back(&inside, depth + 1);
    if (size > kMostWork / 32)
      return fail("the schema is larger than {} bytes; use a smaller one", kMostWork / 32);
  }
  return base::Done{};
}

base::Status<> SchemaExpander::spend(const Json& schema) {
  work_ += size_of(schema);
  if (work_ > kMostWork)
    return fail(
        "the schema becomes too large when its parts are combined; use fewer in allOf and "
        "anyOf");
  return base::Done{};
}

Json SchemaExpander::without_notes(const Json& schema) {
  if (!schema.is_object()) return schema;
  Json out = Json::object();
  for (const auto& [key, value] : schema.items())
    if (std::find(kNotes.begin(), kNotes.end(), key) == kNotes.end() && !key.starts_with("x-"))
      out[key] = value;
  return out;
}

Result<const Json*> SchemaExpander::resolve(const Json& reference, const std::string& path) const {
  if (!reference.is_string()) return fail("the schema at {}: $ref is a string", path);
  const std::string& text = reference.get_ref<const std::string&>();
  const auto nowhere = [&] {
    return fail("the schema at {}: $ref {} leads nowhere; references are #/... within the schema",
                path, show_piece(text));
  };
  if (!text.starts_with('#')) return nowhere();
  const Json* at = &root_;
  std::string_view rest = std::string_view(text).substr(1);
  while (!rest.empty()) {
    if (rest[0] != '/') return nowhere();
    rest.remove_prefix(1);
    const size_t end = std::min(rest.find('/'), rest.size());
    at = under(*at, unescaped(rest.substr(0, end)));
    if (at == nullptr) return nowhere();
    rest.remove_prefix(end);
  }
  return at;
}

Result<std::vector<Json>> SchemaExpander::each_with_each(const std::vector<Json>& left,
                                                         const std::vector<Json>& right,
                                                         const std::string& path) {
  std::vector<Json> out;
  for (const Json& a : left) {
    for (const Json& b : right) {
      KVICK_TRY(std::optional<Json> both, merged(a, b, path));
      if (!both) continue;
      KVICK_TRY_VOID(spend(*both));
      out.push_back(*std::move(both));
    }
    if (out.size() > kMostAlternatives)
      return fail("the schema at {}: more than {} combinations of alternatives; use fewer", path,
                  kMostAlternatives);
  }
  return out;
}

// Pydantic's dict[Literal[...], T] and Zod's z.record(z.enum([...]), T) have this form.
Result<Json> SchemaExpander::with_listed_names(Json schema, const std::string& path,
                                               uint32_t nesting) {
  const auto names = schema.find("propertyNames");
  if (names == schema.end()) return schema;
  const Json declared = schema.value("properties", Json::object());
  if (!declared.is_object()) return schema;
  KVICK_TRY(const std::vector<Json> any,
            alternatives(*names, path + "/propertyNames", nesting + 1));
  const Json strings = Json::array({"string"}),
             rest = schema.value("additionalProperties", Json(true));
  Json listed = Json::object();
  for (const Json& one : any) {
    const bool plain = one.value("type", strings) == strings;
    const size_t others = one.size() - (one.contains("type") ? 1 : 0);
    if (plain && others == 0) {  // all names are strings
      schema.erase("propertyNames");
      return schema;
    }
    if (!plain || others > 1 || !one.contains("enum")) return schema;
    for (const Json& name : one["enum"]) {
      if (!name.is_string()) continue;
      if (listed.size() == kMostNames) return schema;
      const auto& text = name.get_ref<const std::string&>();
      const Json& own = declared.contains(text) ? declared[text] : rest;
      KVICK_TRY_VOID(spend(own));
      listed[text] = own;
    }
  }
  schema.erase("propertyNames");
  schema["properties"] = std::move(listed);
  schema["additionalProperties"] = false;
  return schema;
}

Result<std::vector<Json>> SchemaExpander::alternatives(const Json& schema,
                                                       const std::string& path) {
  return alternatives(schema, path, 0);
}

Result<std::vector<Json>> SchemaExpander::alternatives(const Json& schema, const std::string& path,
                                                       uint32_t nesting) {
  if (schema.is_boolean())
    return schema.get<bool>() ? std::vector<Json>{Json::object()} : std::vector<Json>{};
  if (!schema.is_object())
    return fail("the schema at {} is neither an object nor true or false", path);
  if (nesting > kMostNesting)
    return fail(
        "the schema at {} refers to itself with nothing in between, or through more than {} "
        "others",
        path, kMostNesting);
  KVICK_TRY_VOID(spend(schema));
  KVICK_TRY(Json own, with_listed_names(without_notes(schema), path, nesting));
  KVICK_TRY(own, own_keywords(std::move(own), path));
  std::vector<Json> out = {std::move(own)};
  for (const std::string_view name : kCombinations) {
    const auto found = schema.find(name);
    if (found == schema.end()) continue;
    if (name == "$ref") {
      KVICK_TRY(const Json* target, resolve(*found, path));
      KVICK_TRY(const std::vector<Json> there, alternatives(*target, path, nesting + 1));
      KVICK_TRY(out, each_with_each(out, there, path));
      continue;
    }
    if (!found->is_array() || found->empty())
      return fail("the schema at {}: {} is a list of schemas", path, name);
    std::vector<Json> any;
    for (const Json& part : *found) {
      KVICK_TRY(std::vector<Json> there, alternatives(part, path, nesting + 1));
      if (name == "allOf") {
        KVICK_TRY(out, each_with_each(out, there, path));
      } else {
        std::move(there.begin(), there.end(), std::back_inserter(any));
      }
    }
    if (name != "allOf") {
      KVICK_TRY(out, each_with_each(out, any, path));
    }
  }
  return out;
}

}  // namespace kvick::text
