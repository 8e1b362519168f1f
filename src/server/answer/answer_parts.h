#pragma once
// Splits an answer's text into what the model thinks and what it says. For callers without tools.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/core/engine.h"
#include "server/answer/channels.h"
#include "server/answer/thinking.h"

namespace kvick::server {

// Returns whether a prompt ends with the mark that opens the model's thoughts.
bool inside_thoughts(const engine::Engine& engine, std::span<const engine::Token> prompt);

class AnswerParts {
 public:
  struct Found {
    std::string reasoning, content;
  };
  // inside: inside_thoughts() of the prompt.
  AnswerParts(const text::AnswerSyntax& syntax, bool inside);

  // Returns the parts that are certain by now. text: with the names of special tokens
  // (Request::special_text).
  Found push(std::string_view text);
  // Returns the rest. whole: the model ended the text.
  Found finish(bool whole);

 private:
  // Set for models with channels; otherwise thinking_ is set.
  std::optional<ChannelParser> channels_;
  std::optional<ThinkingParser> thinking_;
};

}  // namespace kvick::server
