#pragma once
// Adapts the messages of a conversation to the model's chat template.

#include "server/request/json.h"
#include "text/template/answer_syntax.h"

namespace kvick::server {

// Rewrites what the template does not render. Tool calls that it omits go into the content, and
// thoughts go from reasoning_content to the field that it reads. Tool results that it refuses or
// omits become user messages. Tools that it does not describe are described in a message. tools: as
// the template gets them, or null.
Json template_messages(Json messages, const Json& tools, const text::AnswerSyntax& syntax);

// Returns the variables with a reasoning_effort that the template takes: APIs have more levels than
// templates, and a template may raise an exception for a level that it does not name.
// chat_template: its source.
Json template_variables(Json variables, std::string_view chat_template);

}  // namespace kvick::server
