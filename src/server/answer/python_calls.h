#pragma once
// Tool calls in Python's syntax, [get_weather(city="Paris", days=3), now()], as LFM2, Llama 3.2 and
// Llama 4 write them.

#include <optional>
#include <string_view>
#include <vector>

#include "server/answer/tool_calls.h"

namespace kvick::server {

// Parses a list of calls or a single call. Arguments have names. Their values are strings, numbers,
// True, False, None, lists, tuples and dictionaries of these, and JSON's true, false and null.
// Nothing if the text is anything else or nests more than 64 deep.
std::optional<std::vector<ToolCall>> python_calls(std::string_view text);

}  // namespace kvick::server
