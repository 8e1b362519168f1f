#pragma once
// The body of POST /v1/chat/completions.

#include "engine/core/engine.h"
#include "server/answer/tools.h"
#include "server/openai/generation_request.h"

namespace kvick::server {

// What becomes of the model's thoughts: beside the content, left out, or in it as they were
// written.
enum class Thoughts : uint8_t { kApart, kDropped, kInContent };

struct ChatRequest : GenerationRequest {
  Json messages;   // as chat templates take them: content is one string or null
  Json variables;  // what else the template sees: tools, chat_template_kwargs
  Tools tools;
  engine::ChatEnd end = engine::ChatEnd::kNewTurn;
  Thoughts thoughts = Thoughts::kApart;
};

// Hugging Face's names, as vLLM has them: add_generation_prompt and continue_final_message.
ApiResult<engine::ChatEnd> read_chat_end(Fields& fields);

ApiResult<ChatRequest> parse_chat(const Json& body, UnknownFields& unknown);

// The messages in a template's form: parts of text put together, "developer" called "system",
// arguments of tool calls as the objects that they stand for.
ApiResult<Json> read_messages(Fields& fields);

}  // namespace kvick::server
