#pragma once
// One choice of an answer as its pieces come.

#include "server/answer/channels.h"
#include "server/answer/choice_text.h"
#include "server/answer/thinking.h"

namespace kvick::server {

// How the text of choices is taken apart.
struct ChoiceSyntax {
  const Tools* tools = nullptr;  // null: none are offered; outlives the choice
  // Null: all of the text is content, but calls of tools. Outlives the choice.
  const text::AnswerSyntax* syntax = nullptr;
  bool inside_thoughts = false;  // the prompt ends with the mark that opens them
  bool drops_thoughts = false;
};

class Choice {
 public:
  // token_ids: they are kept.
  Choice(uint32_t index, const ChoiceSyntax& syntax, bool token_ids = false);

  // What a piece adds, which may be nothing.
  ChoiceText add(engine::AnswerPiece piece);
  // The beginning that the answer repeats from its prompt.
  ChoiceText echo(std::string prompt);
  // All of it so far.
  const ChoiceText& all() const { return all_; }
  bool finished() const { return !all_.finish_reason.empty(); }

 private:
  ChoiceText keep(ChoiceText added);
  void take(std::string_view text, ChoiceText& added);
  void take_content(std::string_view text, ChoiceText& added);
  // The calls with which thoughts end that the model did not close; they stay thoughts, too.
  void take_thought_calls(ChoiceText& added);
  // Ends the thoughts, or the channels.
  bool finish_parts(engine::Finish finish, ChoiceText& added);
  // What the parser still held back, and with it why the choice has ended.
  void finish_calls(engine::Finish finish, ChoiceText& added);

  std::optional<ChannelParser> channels_;
  std::optional<ThinkingParser> thinking_;
  std::optional<ToolCallParser> parser_;
  ChoiceSyntax how_;
  std::string thoughts_;   // so far, if tools are offered
  bool required_ = false;  // a call
  bool token_ids_, drops_thoughts_;
  ChoiceText all_;
  size_t characters_ = 0;  // of the text that came
};

}  // namespace kvick::server
