#pragma once
// Calls of tools as text: for chat templates that leave those of earlier messages out.

#include <string>

#include "server/request/json.h"
#include "text/template/answer_syntax.h"

namespace kvick::server {

// As the model writes them, in JSON or Python's form. calls: a message's tool_calls, whose
// arguments are objects.
std::string written_calls(const Json& calls, const text::AnswerSyntax::Calls& syntax);

// The messages with their calls behind their content, where the template leaves calls out.
Json with_written_calls(Json messages, const text::AnswerSyntax::Calls& syntax);

}  // namespace kvick::server
