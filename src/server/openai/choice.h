#pragma once
// One choice of an answer as its pieces come.

#include "server/openai/answer_format.h"

namespace kvick::server {

class Choice {
 public:
  // tools: null if none are offered; outlives the choice. token_ids: they are kept.
  Choice(uint32_t index, const Tools* tools, bool token_ids = false);

  // What a piece adds, which may be nothing.
  ChoiceText add(engine::AnswerPiece piece);
  // The beginning that the answer repeats from its prompt.
  ChoiceText echo(std::string prompt);
  // All of it so far.
  const ChoiceText& all() const { return all_; }
  bool finished() const { return !all_.finish_reason.empty(); }

 private:
  ChoiceText keep(ChoiceText added);
  // What the parser still held back, and with it why the choice has ended.
  void finish_calls(engine::Finish finish, ChoiceText& added);

  std::optional<ToolCallParser> parser_;
  bool required_ = false;  // a call
  bool token_ids_;
  ChoiceText all_;
  size_t characters_ = 0;  // of the text that came
};

// False: it has nothing that a client could see.
bool says_something(const ChoiceText& text);

}  // namespace kvick::server
