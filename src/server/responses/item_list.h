#pragma once
// Lists the items of a response, page by page.

#include <string_view>

#include "server/request/error.h"

namespace kvick::server {

// Returns OpenAI's list of the items that the target's query selects:
// ?limit=20&order=desc&after=ID. Defaults: limit 20, order desc, from the start. Errors: invalid
// values.
ApiResult<Json> item_list(const Json& items, std::string_view target);

}  // namespace kvick::server
