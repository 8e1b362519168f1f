#pragma once
// Items of a response, page by page.

#include <string_view>

#include "server/request/error.h"

namespace kvick::server {

// OpenAI's list of the items that a target asks for: ?limit=20&order=desc&after=ID, which are the
// defaults but for after. Errors: none of these values.
ApiResult<Json> item_list(const Json& items, std::string_view target);

}  // namespace kvick::server
