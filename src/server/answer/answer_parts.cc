#include "server/answer/answer_parts.h"

#include <algorithm>

#include "server/answer/text_marks.h"

namespace kvick::server {

bool inside_thoughts(const engine::Engine& engine, std::span<const engine::Token> prompt) {
  constexpr size_t kLast = 16;  // tokens; a mark has only a few
  const auto last = prompt.last(std::min(kLast, prompt.size()));
  const std::string end = engine.tokenizer().decode({last.begin(), last.end()}, true);
  const std::string_view text = std::string_view(end).substr(0, text_end(end));
  return text.ends_with(engine.answer_syntax().think_open);
}

AnswerParts::AnswerParts(const text::AnswerSyntax& syntax, bool inside) {
  if (syntax.channels)
    channels_.emplace(nullptr);
  else
    thinking_.emplace(syntax, inside);
}

AnswerParts::Found AnswerParts::push(std::string_view text) {
  if (channels_) {
    ChannelParser::Found found = channels_->push(text);
    return {std::move(found.reasoning), std::move(found.content)};
  }
  ThinkingParser::Found found = thinking_->push(text);
  return {std::move(found.reasoning), std::move(found.content)};
}

AnswerParts::Found AnswerParts::finish(bool whole) {
  if (channels_) {
    ChannelParser::Found found = channels_->finish(whole);
    return {std::move(found.reasoning), std::move(found.content)};
  }
  ThinkingParser::Found found = thinking_->finish();
  return {std::move(found.reasoning), std::move(found.content)};
}

}  // namespace kvick::server
