#pragma once
// Tools as text: for chat templates that do not tell the model of them.

#include <string>

#include "server/request/json.h"
#include "text/template/answer_syntax.h"

namespace kvick::server {

// What a model is told: the tools, [{"type": "function", "function": {...}}, ...], and how a call
// of one is written.
std::string offered_tools(const Json& tools, const text::AnswerSyntax::Calls& syntax);

// Adds the text of offered_tools() to the messages: at the end of the system message, or in a new
// system message; where the template takes none, in front of the first user message. Returns the
// messages unchanged if the template itself tells the model of tools, or tools is null or empty.
Json with_offered_tools(Json messages, const Json& tools, const text::AnswerSyntax& syntax);

}  // namespace kvick::server
