#pragma once
// Reads the JSON of model folders with simdjson: typed fields, with errors that name file and
// field.

#include <cstdint>
#include <memory>
#include <optional>
#include <simdjson.h>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvick::io {

using Json = simdjson::dom::element;

// One parsed text. Its elements are valid as long as the document. Move-only.
class JsonDocument {
 public:
  // Errors: not JSON, with the reason; more than max_bytes. Integers beyond 64 bits become floats,
  // because Python writes "model_max_length": 1000000000000000019884624838656 into nearly every
  // tokenizer_config.json. Python's Infinity, -Infinity and NaN become strings of these names, so
  // that they are errors only where a number is needed.
  static base::Result<JsonDocument> parse(std::string_view text, const std::string& name,
                                          uint64_t max_bytes);
  const Json& root() const { return root_; }

 private:
  std::unique_ptr<simdjson::dom::parser> parser_;  // elements point into it, so it must not move
  Json root_;
};

// A JSON object with its name in error messages, such as "dir/config.json: rope_scaling".
class JsonObject {
 public:
  static base::Result<JsonObject> from(const Json& element, std::string name);

  const std::string& name() const { return name_; }
  std::string label(std::string_view key) const;
  // Returns nullopt if the key is absent or null.
  std::optional<Json> find(std::string_view key) const;

  // Typed look-ups. If the key is absent or null, they return the fallback or, without one, an
  // Error. A value of another type or out of range is an Error.
  base::Result<uint64_t> get_uint(std::string_view key,
                                  std::optional<uint64_t> fallback = {}) const;
  base::Result<double> get_float(std::string_view key, std::optional<double> fallback = {}) const;
  base::Result<bool> get_bool(std::string_view key, bool fallback) const;
  base::Result<std::string> get_string(std::string_view key,
                                       std::optional<std::string> fallback = {}) const;
  base::Result<JsonObject> get_object(std::string_view key) const;
  base::Result<simdjson::dom::array> get_array(std::string_view key) const;

  const simdjson::dom::object& fields() const { return object_; }

 private:
  base::Error wrong(std::string_view key, std::string_view wanted) const;
  simdjson::dom::object object_;
  std::string name_;
};

}  // namespace kvick::io
