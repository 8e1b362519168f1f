#pragma once
// Blocks of content in Anthropic's messages.

#include <string>
#include <string_view>
#include <vector>

#include "server/request/fields.h"

namespace kvick::server {

// Error: it is missing, or none.
ApiResult<std::string> required_string(Fields& fields, std::string_view name);

// What is told of a block that does not belong where it is. fields: the block's; takes: "text and
// tool_result blocks".
ApiError wrong_block(const Fields& fields, std::string_view type, std::string_view takes);

// The text of a block that is known to be one of text.
ApiResult<std::string> read_text_block(Fields& fields);

// Content that is a string or a list of text blocks: the texts that are not empty. path: of the
// content.
ApiResult<std::vector<std::string>> read_texts(const Fields& outer, const Json& content,
                                               const std::string& path);

}  // namespace kvick::server
