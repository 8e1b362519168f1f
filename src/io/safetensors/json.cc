#include "io/safetensors/json.h"

#include "io/file/builder.h"

namespace kvick::io {
namespace {

constexpr size_t kSafeDigits = 18;  // digits that always fit into 64 bits

bool digit(char c) { return c >= '0' && c <= '9'; }

// Python writes these as numbers, which JSON does not have.
constexpr std::string_view kNotFinite[] = {"Infinity", "-Infinity", "NaN"};

// Returns which of kNotFinite is the value at the start of the text; empty if none.
std::string_view not_finite(std::string_view text) {
  for (const std::string_view name : kNotFinite) {
    if (!text.starts_with(name)) continue;
    const size_t next = text.find_first_not_of(" \t\r\n", name.size());
    const bool ends = next == std::string_view::npos || text[next] == ',' || text[next] == ']' ||
                      text[next] == '}';
    return ends ? name : std::string_view();
  }
  return {};
}

// Returns Python's JSON as JSON: with ".0" after each integer of more than kSafeDigits digits, and
// with numbers that are not finite as strings, which no field that needs a number accepts.
std::string without_pythons_numbers(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    if (in_string || !digit(text[i])) {
      const std::string_view name = in_string ? std::string_view() : not_finite(text.substr(i));
      if (!name.empty()) {
        out.append("\"").append(name).append("\"");
        i += name.size();
        continue;
      }
      if (text[i] == '"') in_string = !in_string;
      if (in_string && text[i] == '\\' && i + 1 < text.size()) out += text[i++];
      out += text[i++];
      continue;
    }
    const size_t begin = i;
    while (i < text.size() && digit(text[i])) ++i;
    out += text.substr(begin, i - begin);
    const bool whole = i == text.size() || (text[i] != '.' && text[i] != 'e' && text[i] != 'E');
    const bool fraction = begin > 0 && (text[begin - 1] == '.' || text[begin - 1] == '+' ||
                                        text[begin - 1] == 'e' || text[begin - 1] == 'E');
    if (whole && !fraction && i - begin > kSafeDigits) out += ".0";
  }
  return out;
}

}  // namespace

base::Result<JsonDocument> JsonDocument::parse(std::string_view text, const std::string& name,
                                               uint64_t max_bytes) {
  if (text.size() > max_bytes)
    return base::fail("{}: {} bytes of JSON; at most {} are read", name, text.size(), max_bytes);
  JsonDocument document;
  document.parser_ = std::make_unique<simdjson::dom::parser>();
  auto result = document.parser_->parse(text.data(), text.size());
  // TAPE_ERROR: a word that is no value, such as NaN.
  if (result.error() == simdjson::NUMBER_ERROR || result.error() == simdjson::TAPE_ERROR)
    result = document.parser_->parse(without_pythons_numbers(text));
  if (result.error() != simdjson::SUCCESS)
    return base::fail("{}: not valid JSON: {}", name, simdjson::error_message(result.error()));
  document.root_ = result.value_unsafe();
  return document;
}

base::Result<JsonObject> JsonObject::from(const Json& element, std::string name) {
  JsonObject object;
  if (element.get(object.object_) != simdjson::SUCCESS)
    return base::fail("{}: must be a JSON object", name);
  object.name_ = std::move(name);
  return object;
}

std::string JsonObject::label(std::string_view key) const {
  return fmt::format("{}: {}", name_, in_quotes(key));
}

std::optional<Json> JsonObject::find(std::string_view key) const {
  Json element;
  if (object_.at_key(key).get(element) != simdjson::SUCCESS || element.is_null())
    return std::nullopt;
  return element;
}

base::Error JsonObject::wrong(std::string_view key, std::string_view wanted) const {
  const auto element = find(key);
  std::string_view text;
  if (element && element->get(text) == simdjson::SUCCESS && !text.empty() &&
      not_finite(text) == text)
    return base::fail("{} is {}, but must be {}", label(key), text, wanted);
  return base::fail("{} must be {}", label(key), wanted);
}

base::Result<uint64_t> JsonObject::get_uint(std::string_view key,
                                            std::optional<uint64_t> fallback) const {
  const auto element = find(key);
  if (!element && fallback) return *fallback;
  if (!element) return base::fail("{} is missing", label(key));
  uint64_t value = 0;
  if (element->get(value) == simdjson::SUCCESS) return value;
  return wrong(key, "a whole number, not negative");
}

base::Result<double> JsonObject::get_float(std::string_view key,
                                           std::optional<double> fallback) const {
  const auto element = find(key);
  if (!element && fallback) return *fallback;
  if (!element) return base::fail("{} is missing", label(key));
  double value = 0;
  if (element->get(value) == simdjson::SUCCESS) return value;
  return wrong(key, "a number");
}

base::Result<bool> JsonObject::get_bool(std::string_view key, bool fallback) const {
  const auto element = find(key);
  if (!element) return fallback;
  bool value = false;
  if (element->get(value) == simdjson::SUCCESS) return value;
  return wrong(key, "true or false");
}

base::Result<std::string> JsonObject::get_string(std::string_view key,
                                                 std::optional<std::string> fallback) const {
  const auto element = find(key);
  if (!element && fallback) return *std::move(fallback);
  if (!element) return base::fail("{} is missing", label(key));
  std::string_view value;
  if (element->get(value) == simdjson::SUCCESS) return std::string(value);
  return wrong(key, "a string");
}

base::Result<JsonObject> JsonObject::get_object(std::string_view key) const {
  const auto element = find(key);
  if (!element) return base::fail("{} is missing", label(key));
  return from(*element, label(key));
}

base::Result<simdjson::dom::array> JsonObject::get_array(std::string_view key) const {
  const auto element = find(key);
  if (!element) return base::fail("{} is missing", label(key));
  simdjson::dom::array array;
  if (element->get(array) == simdjson::SUCCESS) return array;
  return wrong(key, "a list");
}

}  // namespace kvick::io
