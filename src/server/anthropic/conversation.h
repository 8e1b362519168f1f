#pragma once
// Anthropic's messages as chat templates take them.

#include "engine/core/engine.h"
#include "server/answer/tools.h"

namespace kvick::server {

struct Conversation {
  Json messages;  // as ChatRequest has them
  // kLastMessage: the last one is the assistant's, and the answer goes on its text.
  engine::ChatEnd end = engine::ChatEnd::kNewTurn;
};

// Reads system and messages. Messages of one role that follow each other become one; each result of
// a tool becomes a message of its own. A system message that is not the first is the user's text:
// templates take none there. tools: those of the request, which results may name.
ApiResult<Conversation> read_conversation(Fields& fields, const Tools& tools);

}  // namespace kvick::server
