#pragma once
// Writes answers in OpenAI's JSON, whole or as the chunks of a stream.

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "server/answer/answer_format.h"
#include "server/request/json.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::server {

// The part that chats and completions share.
class OpenAiFormat : public AnswerFormat {
 public:
  // id: the prefix of the answer's id, "chatcmpl".
  OpenAiFormat(AnswerHead head, std::string_view id, const text::Tokenizer& tokenizer);

  Frame frame(const AnswerEnd& end) final;
  std::string choice(const ChoiceText& all) final;
  std::string begin(uint32_t choice) final;
  std::string piece(const ChoiceText& added) final;
  std::string end(const AnswerEnd& end) final;

 protected:
  // Returns the first chunk of a choice's stream, if it has one.
  virtual std::optional<Json> first_chunk(uint32_t index) const = 0;
  // Adds the prompt's tokens to a chat's answer. Completions have them in their choices.
  virtual void add_prompt(Json& /*answer*/) const {}
  // The same for prompt_logprobs, which every choice of a chat has got.
  virtual void add_prompt_logprobs(Json& /*answer*/, const ChoiceText& /*first*/) const {}
  virtual std::string_view kind() const = 0;
  virtual std::string_view chunk_kind() const = 0;
  virtual Json whole_choice(const ChoiceText& text) const = 0;
  virtual Json chunk_choice(const ChoiceText& text) const = 0;

  Json object(std::string_view kind, Json choices) const;
  Json chunk(const ChoiceText& text) const;
  // Returns the reports that `logprobs` shows.
  std::span<const engine::TokenReport> reports(const ChoiceText& text) const;
  std::span<const engine::TokenChance> top_of(const engine::TokenReport& report) const;
  // Returns vLLM's prompt_logprobs: for each token of the prompt an object of token ids. A token
  // that is not among the likeliest has no rank.
  Json prompt_logprobs(const ChoiceText& text) const;
  bool token_ids() const { return !head_.prompts.empty(); }
  // Returns the tokens of the prompt that a choice answers.
  const std::vector<engine::Token>& prompt_of(uint32_t index) const {
    return head_.prompts[index / head_.choices];
  }

  AnswerHead head_;
  std::string id_;
  const text::Tokenizer& tokenizer_;
};

// The tokenizer must outlive the formats.
MakeFormat completion_format(const text::Tokenizer& tokenizer);
MakeFormat chat_format(const text::Tokenizer& tokenizer);

// Adds kvick_finish to a choice whose end has no name in finish_reason.
void add_own_reason(Json& choice, const ChoiceText& text);

// Returns -9999 for infinite values, as OpenAI does, because JSON has no infinity.
double finite(float logprob);

}  // namespace kvick::server
