#pragma once
// Tools as text: for chat templates that do not tell the model of them.

#include <string>

#include "server/request/json.h"
#include "text/template/answer_syntax.h"

namespace kvick::server {

// What a model is told: the tools, [{"type": "function", "function": {...}}, ...], and how a call
// of one is written.
std::string offered_tools(const Json& tools, const text::AnswerSyntax::Calls& syntax);

// Puts that behind the system's message, or in a new one; where the template takes none, before the
// user's first message. The messages as they are if the template tells the model itself, or tools
// is null or empty.
Json with_offered_tools(Json messages, const Json& tools, const text::AnswerSyntax& syntax);

}  // namespace kvick::server
