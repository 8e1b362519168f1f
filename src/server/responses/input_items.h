#pragma once
// The items of a conversation in the Responses API: messages, function calls and their outputs, and
// thoughts.

#include <functional>
#include <string>

#include "server/request/fields.h"

namespace kvick::server {

// Returns the item with this id from an earlier response, or null if there is none.
using FindItem = std::function<Json(const std::string& id)>;

// Reads the items of `input` into full form: a string becomes a user message, contents become lists
// of parts, and an item_reference becomes the item that it names. Ids stay as given; items without
// an id get none. Calls that were cut off have the arguments {}, which is an error if unknown
// fields are refused. Errors: no input, or a kind of item or part that this server does not accept.
ApiResult<Json> read_input(Fields& request, const FindItem& find);

// Converts items to messages of OpenAI's chats. Consecutive items of the assistant become one
// message with its thoughts, text and calls. The instructions and the system messages at the start
// become one message, because many templates accept only one. items: from read_input(), or output
// of this server.
Json chat_messages(const std::string& instructions, const Json& items);

}  // namespace kvick::server
