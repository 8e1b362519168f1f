#pragma once
// Describes tools as text, for chat templates that do not describe them to the model.

#include <string>

#include "server/request/json.h"
#include "text/template/answer_syntax.h"

namespace kvick::server {

// Returns the description of the tools, [{"type": "function", "function": {...}}, ...], and of the
// form of a call.
std::string offered_tools(const Json& tools, const text::AnswerSyntax::Calls& syntax);

// Adds the text of offered_tools() to the messages: at the end of the system message, or in a new
// system message. If the template takes no system message, the text goes in front of the first user
// message. Returns the messages unchanged if the template itself describes tools, or tools is null
// or empty.
Json with_offered_tools(Json messages, const Json& tools, const text::AnswerSyntax& syntax);

}  // namespace kvick::server
