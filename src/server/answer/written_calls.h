#pragma once
// Calls of tools as text: for chat templates that leave those of earlier messages out.

#include <string>

#include "server/request/json.h"
#include "text/template/answer_syntax.h"

namespace kvick::server {

// The text of a message's tool_calls as the model itself would write them, in JSON or as Python.
// The arguments of each call must be an object.
std::string written_calls(const Json& calls, const text::AnswerSyntax::Calls& syntax);

// Appends the calls of each message to its content if the template does not render tool_calls; else
// returns the messages as they are.
Json with_written_calls(Json messages, const text::AnswerSyntax::Calls& syntax);

}  // namespace kvick::server
