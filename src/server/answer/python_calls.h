#pragma once
// Calls of tools as Python writes them, [get_weather(city="Paris", days=3), now()]: LFM2, Llama 3.2
// and 4.

#include <optional>
#include <string_view>
#include <vector>

#include "server/answer/tool_calls.h"

namespace kvick::server {

// The calls of a list, or of one call alone. Arguments have names; their values are strings,
// numbers, True, False, None, lists, tuples and dictionaries of such, and JSON's true, false and
// null. None if the text is anything else, or nests more than 64 deep.
std::optional<std::vector<ToolCall>> python_calls(std::string_view text);

}  // namespace kvick::server
