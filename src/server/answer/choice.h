#pragma once
// Builds one choice of an answer from the pieces of its text.

#include "server/answer/channels.h"
#include "server/answer/choice_text.h"
#include "server/answer/thinking.h"

namespace kvick::server {

// How to parse the text of a choice.
struct ChoiceSyntax {
  const Tools* tools = nullptr;  // null: none are offered; must outlive the choice
  // Null: all text except tool calls is content. Must outlive the choice.
  const text::AnswerSyntax* syntax = nullptr;
  bool inside_thoughts = false;  // the prompt ends with the mark that opens thoughts
  bool drops_thoughts = false;
};

class Choice {
 public:
  // token_ids: keep the ids of the answer's tokens.
  Choice(uint32_t index, const ChoiceSyntax& syntax, bool token_ids = false);

  // Returns what a piece adds to the choice, which may be nothing.
  ChoiceText add(engine::AnswerPiece piece);
  // Adds the prompt to the front of the answer, for requests that ask for that.
  ChoiceText echo(std::string prompt);
  // Returns the whole choice so far.
  const ChoiceText& all() const { return all_; }
  bool finished() const { return !all_.finish_reason.empty(); }

 private:
  ChoiceText keep(ChoiceText added);
  void take(std::string_view text, ChoiceText& added);
  void take_content(std::string_view text, ChoiceText& added);
  // Adds the calls at the end of thoughts that the model did not close. Their text also stays in
  // the thoughts.
  void take_thought_calls(ChoiceText& added);
  // Ends the parser of thoughts or channels. Returns whether the text ended within a call.
  bool finish_parts(engine::Finish finish, ChoiceText& added);
  // Ends all parsers, adds the text that they held back, and sets why the choice ended.
  void finish_calls(engine::Finish finish, ChoiceText& added);

  std::optional<ChannelParser> channels_;
  std::optional<ThinkingParser> thinking_;
  std::optional<ToolCallParser> parser_;
  ChoiceSyntax how_;
  std::string thoughts_;   // the thoughts so far, kept only if tools are offered
  bool required_ = false;  // the request requires a call
  bool token_ids_, drops_thoughts_;
  ChoiceText all_;
  size_t characters_ = 0;  // of the text so far
};

}  // namespace kvick::server
