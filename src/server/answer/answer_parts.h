#pragma once
// An answer's text as two: what the model thinks, and what it says. For whoever has no tools.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/core/engine.h"
#include "server/answer/channels.h"
#include "server/answer/thinking.h"

namespace kvick::server {

// Whether a prompt ends with the mark behind which the model thinks.
bool inside_thoughts(const engine::Engine& engine, std::span<const engine::Token> prompt);

class AnswerParts {
 public:
  struct Found {
    std::string reasoning, content;
  };
  // inside: inside_thoughts() of the prompt.
  AnswerParts(const text::AnswerSyntax& syntax, bool inside);

  // What became certain. The text has the names of the marks (Request::special_text).
  Found push(std::string_view text);
  // The rest; whole: the model ended the text.
  Found finish(bool whole);

 private:
  std::optional<ChannelParser> channels_;  // or
  std::optional<ThinkingParser> thinking_;
};

}  // namespace kvick::server
