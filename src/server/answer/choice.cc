#include "server/answer/choice.h"

#include <algorithm>

#include "engine/session/session.h"
#include "server/answer/text_marks.h"

namespace kvick::server {
namespace {

// Counts UTF-8 characters: all bytes that are not continuation bytes.
size_t characters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

Choice::Choice(uint32_t index, const ChoiceSyntax& how, bool token_ids)
    : how_(how), token_ids_(token_ids), drops_thoughts_(how.drops_thoughts) {
  all_.index = index;
  required_ = how.tools != nullptr && how.tools->choice == Tools::Choice::kRequired;
  // A required call is the whole answer, so nothing else is parsed.
  const text::AnswerSyntax* const syntax = required_ ? nullptr : how.syntax;
  if (syntax != nullptr && syntax->channels) {
    channels_.emplace(how.tools);
    return;
  }
  if (syntax != nullptr) thinking_.emplace(*syntax, how.inside_thoughts);
  if (how.tools != nullptr)
    parser_.emplace(*how.tools, syntax != nullptr ? syntax->calls : text::AnswerSyntax::Calls{});
}

ChoiceText Choice::keep(ChoiceText added) {
  if (drops_thoughts_) added.reasoning.clear();
  added.index = all_.index;
  added.first_call = all_.calls.size();
  all_.content += added.content;
  all_.reasoning += added.reasoning;
  all_.calls.insert(all_.calls.end(), added.calls.begin(), added.calls.end());
  all_.tokens.insert(all_.tokens.end(), added.tokens.begin(), added.tokens.end());
  all_.prompt_reports += added.prompt_reports;
  all_.token_ids.insert(all_.token_ids.end(), added.token_ids.begin(), added.token_ids.end());
  all_.finish_reason = added.finish_reason;
  all_.finish = added.finish;
  all_.stop = added.stop;
  return added;
}

ChoiceText Choice::echo(std::string prompt) {
  characters_ += characters(prompt);
  return keep({.content = std::move(prompt)});
}

void Choice::take_content(std::string_view text, ChoiceText& added) {
  if (!parser_) {
    added.content += text;
    return;
  }
  ToolCallParser::Found found = parser_->push(text);
  added.content += found.content;
  added.calls.insert(added.calls.end(), found.calls.begin(), found.calls.end());
}

void Choice::take(std::string_view text, ChoiceText& added) {
  if (channels_) {
    ChannelParser::Found found = channels_->push(text);
    added.reasoning = std::move(found.reasoning);
    added.content = std::move(found.content);
    added.calls = std::move(found.calls);
  } else if (thinking_) {
    ThinkingParser::Found found = thinking_->push(text);
    if (parser_) thoughts_ += found.reasoning;
    added.reasoning = std::move(found.reasoning);
    take_content(found.content, added);
  } else {
    take_content(text, added);
  }
}

void Choice::take_thought_calls(ChoiceText& added) {
  const text::AnswerSyntax::Calls& syntax = how_.syntax->calls;
  const auto text = std::string_view(thoughts_).substr(0, text_end(thoughts_));
  const auto closes = [&](const std::string& mark) {
    return !mark.empty() && text.ends_with(mark);
  };
  if (syntax.open.empty() || !(closes(syntax.close) || closes(syntax.all_close))) return;
  constexpr int kMostMarks = 16;  // each mark costs one parse of the text after it
  std::vector<ToolCall> calls;
  size_t open = text.rfind(syntax.open);
  for (int mark = 0; mark < kMostMarks && open != text.npos; ++mark) {
    ToolCallParser parser(*how_.tools, syntax);
    ToolCallParser::Found found = parser.push(text.substr(open));
    ToolCallParser::Found rest = parser.finish(true);
    const bool nothing_else = text_end(found.content) + text_end(rest.content) == 0;
    if (nothing_else && rest.calls.empty() && !found.calls.empty()) calls = std::move(found.calls);
    if (open == 0) break;
    open = text.rfind(syntax.open, open - 1);
  }
  added.calls.insert(added.calls.end(), calls.begin(), calls.end());
}

bool Choice::finish_parts(engine::Finish finish, ChoiceText& added) {
  if (thinking_) {
    ThinkingParser::Found found = thinking_->finish();
    added.reasoning += found.reasoning;
    take_content(found.content, added);
    thoughts_ += found.reasoning;
    if (parser_ && thinking_->inside() && finish == engine::Finish::kEnd) take_thought_calls(added);
  }
  if (!channels_) return false;
  ChannelParser::Found found = channels_->finish(finish == engine::Finish::kEnd);
  added.reasoning += found.reasoning;
  added.content += found.content;
  added.calls.insert(added.calls.end(), found.calls.begin(), found.calls.end());
  return found.cut;
}

ChoiceText Choice::add(engine::AnswerPiece piece) {
  ChoiceText added;
  // Tokens of the prompt begin where its echo began, at 0.
  added.offset = piece.of_prompt ? 0 : characters_;
  if (all_.tokens.empty()) all_.offset = added.offset;
  characters_ += characters(piece.text);
  added.tokens = std::move(piece.tokens);
  if (piece.of_prompt) added.prompt_reports = added.tokens.size();
  if (token_ids_ && piece.token) added.token_ids.push_back(*piece.token);
  take(piece.text, added);
  if (!piece.finish) return keep(std::move(added));
  added.finish_reason = engine::finish_name(*piece.finish);
  added.finish = piece.finish;
  added.stop = std::move(piece.stop);
  finish_calls(*piece.finish, added);
  return keep(std::move(added));
}

void Choice::finish_calls(engine::Finish finish, ChoiceText& added) {
  using engine::Finish;
  bool cut = finish_parts(finish, added);
  if (parser_) {
    ToolCallParser::Found rest = parser_->finish(finish == Finish::kEnd);
    added.content += rest.content;
    added.calls.insert(added.calls.end(), rest.calls.begin(), rest.calls.end());
    cut |= rest.cut;
  }
  const bool called = !all_.calls.empty() || !added.calls.empty();
  // A required call is the whole answer: once its last byte has arrived, a stop text or a limit
  // cuts off nothing.
  const bool ended = finish == Finish::kEnd || finish == Finish::kStop || required_;
  if (called && ended && !cut) added.finish_reason = "tool_calls";
}

bool says_something(const ChoiceText& text) {
  return !text.content.empty() || !text.reasoning.empty() || !text.calls.empty() ||
         !text.tokens.empty() || !text.token_ids.empty() || !text.finish_reason.empty();
}

}  // namespace kvick::server
