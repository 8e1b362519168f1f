#pragma once
// Answers in OpenAI's JSON: whole, or as the chunks of a stream.

#include <memory>
#include <optional>
#include <string_view>

#include "server/answer/answer_format.h"
#include "server/request/json.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::server {

// What chats and completions have in common.
class OpenAiFormat : public AnswerFormat {
 public:
  // id: what the answer's id begins with, "chatcmpl".
  OpenAiFormat(AnswerHead head, std::string_view id, const text::Tokenizer& tokenizer);

  Frame frame(const AnswerEnd& end) final;
  std::string choice(const ChoiceText& all) final;
  std::string begin(uint32_t choice) final;
  std::string piece(const ChoiceText& added) final;
  std::string end(const AnswerEnd& end) final;

 protected:
  // What a choice's stream begins with, if with anything.
  virtual std::optional<Json> first_chunk(uint32_t index) const = 0;
  // What a chat's answer says of its prompt; nothing for completions, whose choices say it.
  virtual void add_prompt(Json& /*answer*/) const {}
  virtual std::string_view kind() const = 0;
  virtual std::string_view chunk_kind() const = 0;
  virtual Json whole_choice(const ChoiceText& text) const = 0;
  virtual Json chunk_choice(const ChoiceText& text) const = 0;

  Json object(std::string_view kind, Json choices) const;
  Json chunk(const ChoiceText& text) const;
  bool token_ids() const { return !head_.prompts.empty(); }
  // Of the prompt that a choice answers.
  const std::vector<engine::Token>& prompt_of(uint32_t index) const {
    return head_.prompts[index / head_.choices];
  }

  AnswerHead head_;
  std::string id_;
  const text::Tokenizer& tokenizer_;
};

// The tokenizer outlives what they make.
MakeFormat completion_format(const text::Tokenizer& tokenizer);
MakeFormat chat_format(const text::Tokenizer& tokenizer);

// kvick_finish of a choice: why it ended, where finish_reason has no word for that.
void add_own_reason(Json& choice, const ChoiceText& text);

// JSON has no infinity; OpenAI writes it so.
double finite(float logprob);

}  // namespace kvick::server
