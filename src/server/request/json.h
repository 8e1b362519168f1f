#pragma once
// JSON of requests. Parsing takes bounded time, memory and depth, whatever the bytes are.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvick::server {

using Json = nlohmann::ordered_json;

// The most levels of nested lists and objects. Schemas of tools nest deepest.
inline constexpr size_t kMostJsonDepth = 64;

// Parses JSON in UTF-8. The last of several fields with one name counts, as in Python. Error: the
// text is not valid JSON, is nested too deep, or has a number beyond the range of a double.
base::Result<Json> parse_json(std::string_view text);

// Returns the JSON on one line; bytes that are not UTF-8 become U+FFFD.
std::string to_text(const Json& json);

}  // namespace kvick::server
