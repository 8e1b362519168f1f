#pragma once
// The parts of an answer, independent of the API that formats it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/serving/service.h"
#include "server/answer/tool_calls.h"

namespace kvick::server {

struct TokenCounts {
  uint64_t prompt = 0, cached = 0, answer = 0;
  uint64_t moved = 0;  // part of `cached`: engine::JobOutcome::moved_tokens
};

// Text of one choice: newly added, or all of it.
struct ChoiceText {
  uint32_t index = 0;  // index of the choice in the answer
  std::string content;
  std::string reasoning;  // the model's thoughts
  std::vector<ToolCall> calls;
  size_t first_call = 0;  // number of the choice's calls before these
  std::vector<engine::TokenReport> tokens;
  size_t prompt_reports = 0;             // number of the first `tokens` that are the prompt's
  std::vector<engine::Token> token_ids;  // only if the client asked for them
  size_t offset = 0;                     // characters of the choice before these tokens
  // Set with the last text of the choice: why it ended, in OpenAI's words ("stop", "length",
  // "tool_calls") and in the engine's, and the stop text that ended it, if any.
  std::string finish_reason;  // empty: not ended
  std::optional<engine::Finish> finish;
  std::string stop;
};

// Returns whether `text` has anything that a client can see.
bool says_something(const ChoiceText& text);

}  // namespace kvick::server
