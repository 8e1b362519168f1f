#pragma once
// The body of POST /v1/chat/completions.

#include "engine/core/engine.h"
#include "server/answer/tools.h"
#include "server/openai/generation_request.h"

namespace kvick::server {

// Where the model's thoughts go: beside the content, nowhere, or into the content as written.
enum class Thoughts : uint8_t { kApart, kDropped, kInContent };

struct ChatRequest : GenerationRequest {
  Json messages;   // in the form of chat templates: content is one string or null
  Json variables;  // further variables of the template: tools, chat_template_kwargs
  Tools tools;
  engine::ChatEnd end = engine::ChatEnd::kNewTurn;
  Thoughts thoughts = Thoughts::kApart;
};

// Reads add_generation_prompt and continue_final_message, Hugging Face's names, which vLLM uses
// too.
ApiResult<engine::ChatEnd> read_chat_end(Fields& fields);

ApiResult<ChatRequest> parse_chat(const Json& body, UnknownFields& unknown);

// Reads the messages into the form of chat templates: parts of text are joined, "developer" becomes
// "system", and arguments of tool calls become objects.
ApiResult<Json> read_messages(Fields& fields);

}  // namespace kvick::server
