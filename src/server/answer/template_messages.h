#pragma once
// Messages of a conversation as the model's chat template takes them.

#include "server/request/json.h"
#include "text/template/answer_syntax.h"

namespace kvick::server {

// Calls that the template leaves out go into the content; thoughts come in reasoning_content and go
// where the template looks for them; results of tools that it refuses, or leaves out, are messages
// of the user; tools that it does not describe are described in a message. tools: as the
// template gets them, or null.
Json template_messages(Json messages, const Json& tools, const text::AnswerSyntax& syntax);

}  // namespace kvick::server
