#include "server/openai/choice.h"

#include <algorithm>

#include "engine/session/session.h"

namespace kvick::server {
namespace {

// Of whole UTF-8 characters: bytes that do not continue one.
size_t characters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

Choice::Choice(uint32_t index, const Tools* tools, bool token_ids) : token_ids_(token_ids) {
  all_.index = index;
  if (tools == nullptr) return;
  parser_.emplace(*tools);
  required_ = tools->choice == Tools::Choice::kRequired;
}

ChoiceText Choice::keep(ChoiceText added) {
  added.index = all_.index;
  added.first_call = all_.calls.size();
  all_.content += added.content;
  all_.calls.insert(all_.calls.end(), added.calls.begin(), added.calls.end());
  all_.tokens.insert(all_.tokens.end(), added.tokens.begin(), added.tokens.end());
  all_.token_ids.insert(all_.token_ids.end(), added.token_ids.begin(), added.token_ids.end());
  all_.finish_reason = added.finish_reason;
  return added;
}

ChoiceText Choice::echo(std::string prompt) {
  characters_ += characters(prompt);
  return keep({.content = std::move(prompt)});
}

ChoiceText Choice::add(engine::AnswerPiece piece) {
  ChoiceText added;
  // The prompt's tokens begin where its echo did, before all others.
  added.offset = piece.of_prompt ? 0 : characters_;
  if (all_.tokens.empty()) all_.offset = added.offset;
  characters_ += characters(piece.text);
  added.tokens = std::move(piece.tokens);
  if (token_ids_ && piece.token) added.token_ids.push_back(*piece.token);
  if (!parser_) {
    added.content = std::move(piece.text);
  } else {
    ToolCallParser::Found found = parser_->push(piece.text);
    added.content = std::move(found.content);
    added.calls = std::move(found.calls);
  }
  if (!piece.finish) return keep(std::move(added));
  added.finish_reason = engine::finish_name(*piece.finish);
  if (parser_) finish_calls(*piece.finish, added);
  return keep(std::move(added));
}

void Choice::finish_calls(engine::Finish finish, ChoiceText& added) {
  using engine::Finish;
  ToolCallParser::Found rest = parser_->finish(finish == Finish::kEnd);
  added.content += rest.content;
  added.calls.insert(added.calls.end(), rest.calls.begin(), rest.calls.end());
  const bool called = !all_.calls.empty() || !added.calls.empty();
  // A call that was required is all of the answer: with its last byte nothing is left to cut off.
  const bool ended = finish == Finish::kEnd || finish == Finish::kStop || required_;
  if (called && ended && !rest.cut) added.finish_reason = "tool_calls";
}

bool says_something(const ChoiceText& text) {
  return !text.content.empty() || !text.calls.empty() || !text.tokens.empty() ||
         !text.token_ids.empty() || !text.finish_reason.empty();
}

}  // namespace kvick::server
