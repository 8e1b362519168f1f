#pragma once
// The items of a conversation in the Responses API: messages, calls of functions and their outputs,
// thoughts.

#include <functional>
#include <string>

#include "server/request/fields.h"

namespace kvick::server {

// The item of this id that an earlier response made; null: there is none.
using FindItem = std::function<Json(const std::string& id)>;

// The items of `input`, whole: a text is a message of the user, contents are lists of parts, and an
// item_reference is the item that it names. Ids stay as they were given, also if none were.
// Errors: no input, a kind of item or part that this server does not take.
ApiResult<Json> read_input(Fields& request, const FindItem& find);

// The same as messages of OpenAI's chats: what stands between two outputs or messages of others is
// one message of the assistant, with its thoughts, text and calls. The instructions and the system
// messages that the conversation begins with are one message, since many templates take only one.
// items: as read_input() gives them, or output of this server.
Json chat_messages(const std::string& instructions, const Json& items);

}  // namespace kvick::server
