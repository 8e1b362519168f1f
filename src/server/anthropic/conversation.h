#pragma once
// Converts Anthropic's messages to the form of chat templates.

#include "engine/core/engine.h"
#include "server/answer/tools.h"

namespace kvick::server {

struct Conversation {
  Json messages;  // in the form of ChatRequest::messages
  // kLastMessage: the last message is the assistant's, and the answer continues its text.
  engine::ChatEnd end = engine::ChatEnd::kNewTurn;
};

// Reads system and messages. Consecutive messages of one role are merged, and each tool result
// becomes a message. A system message that is not first becomes user text, because templates accept
// no later one. tools: the request's tools, which results may name.
ApiResult<Conversation> read_conversation(Fields& fields, const Tools& tools);

}  // namespace kvick::server
