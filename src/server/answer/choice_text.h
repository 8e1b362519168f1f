#pragma once
// What an answer is made of, before an API's format writes it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/serving/service.h"
#include "server/answer/tool_calls.h"

namespace kvick::server {

struct TokenCounts {
  uint64_t prompt = 0, cached = 0, answer = 0;
  uint64_t moved = 0;  // of those cached: engine::JobOutcome::moved_tokens
};

// Something of one choice: new, or all of it.
struct ChoiceText {
  uint32_t index = 0;  // of the choice in the answer
  std::string content;
  std::string reasoning;  // what the model thought before
  std::vector<ToolCall> calls;
  size_t first_call = 0;  // how many calls the choice had before these
  std::vector<engine::TokenReport> tokens;
  std::vector<engine::Token> token_ids;  // if they were asked for
  size_t offset = 0;                     // characters of the choice's text before these tokens
  // With the choice's last text: why it ended, in OpenAI's words ("stop", "length", "tool_calls")
  // and in the engine's; and the stop text that ended it, if one did.
  std::string finish_reason;  // empty: it goes on
  std::optional<engine::Finish> finish;
  std::string stop;
};

// False: it has nothing that a client could see.
bool says_something(const ChoiceText& text);

}  // namespace kvick::server
