#pragma once
// Content blocks of Anthropic's messages.

#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "server/request/fields.h"

namespace kvick::server {

// Error: the field is missing or not a string.
ApiResult<std::string> required_string(Fields& fields, std::string_view name);

// Returns the error for a block of a type that is not allowed there. fields: the block's fields.
// takes: what is allowed: "text and tool_result blocks".
ApiError wrong_block(const Fields& fields, std::string_view type, std::string_view takes);

// Returns the text of a block that is known to be a text block.
ApiResult<std::string> read_text_block(Fields& fields);

// Reads content that is a string or a list of text blocks. Returns the texts that are not empty.
// path: the content's name in errors.
ApiResult<std::vector<std::string>> read_texts(const Fields& outer, const Json& content,
                                               const std::string& path);

// Returns the title, the source and the texts of a search_result block, in lines.
ApiResult<std::string> read_search_result(Fields& block);

// Returns whether a document's source is text rather than a file. Takes a copy, so that find()
// does not mark an omitted source as known.
bool has_text(Fields document);

// Returns the title, the context and the texts of a document, in lines. read: read_texts or
// similar, for the content of the source. Error: the source is a file.
using ReadContent = base::FunctionRef<ApiResult<std::vector<std::string>>(
    const Fields& outer, const Json& content, const std::string& path)>;
ApiResult<std::string> read_document(Fields& block, ReadContent read);

}  // namespace kvick::server
