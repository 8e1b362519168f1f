#pragma once
// JSON of requests: whatever the bytes are, parsing ends in bounded time, memory and depth.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvick::server {

using Json = nlohmann::ordered_json;

// Lists and objects inside each other. Schemas of tools are the deepest thing that is sent.
inline constexpr size_t kMostJsonDepth = 64;

// The last of several fields with one name counts, as in Python. Error: not JSON (which is UTF-8),
// nested too deep, a number that no double holds.
base::Result<Json> parse_json(std::string_view text);

// On one line; bytes that are not UTF-8 become U+FFFD.
std::string to_text(const Json& json);

}  // namespace kvick::server
