#pragma once
// Writes tool calls as text, for chat templates that do not render those of earlier messages.

#include <string>

#include "server/request/json.h"
#include "text/template/answer_syntax.h"

namespace kvick::server {

// Returns the text of a message's tool_calls as the model would write them, in JSON or in Python's
// form. The arguments of each call must be an object.
std::string written_calls(const Json& calls, const text::AnswerSyntax::Calls& syntax);

// Appends the calls of each message to its content, unless the template renders tool_calls itself.
Json with_written_calls(Json messages, const text::AnswerSyntax::Calls& syntax);

}  // namespace kvick::server
