#pragma once
// Answers in OpenAI's JSON: whole, or as the chunks of a stream.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/serving/service.h"
#include "server/answer/tool_calls.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::server {

struct TokenCounts {
  uint64_t prompt = 0, cached = 0, answer = 0;
};

// Something of one choice: new, or all of it.
struct ChoiceText {
  uint32_t index = 0;  // of the choice in the answer
  std::string content;
  std::string reasoning;  // what the model thought before
  std::vector<ToolCall> calls;
  size_t first_call = 0;  // how many calls the choice had before these
  std::vector<engine::TokenReport> tokens;
  std::vector<engine::Token> token_ids;  // if they were asked for
  size_t offset = 0;                     // characters of the choice's text before these tokens
  std::string finish_reason;             // empty: it goes on
};

struct AnswerHead {
  std::string id, model;       // "chatcmpl-..."
  int64_t created = 0;         // Unix time
  bool logprobs = false;       // tokens were asked for
  bool include_usage = false;  // the stream ends with its counts, and other chunks have them null
  // Of each prompt, if token ids were asked for; and how many choices each has.
  std::vector<std::vector<engine::Token>> prompts = {};
  uint32_t choices = 1;
};

class AnswerFormat {
 public:
  AnswerFormat(AnswerHead head, const text::Tokenizer& tokenizer)
      : head_(std::move(head)), tokenizer_(tokenizer) {}
  virtual ~AnswerFormat() = default;

  Json whole(const std::vector<ChoiceText>& choices, const TokenCounts& counts) const;
  // One of the choices of a whole answer.
  Json one_choice(const ChoiceText& text) const { return whole_choice(text); }
  Json chunk(const ChoiceText& text) const;
  Json usage_chunk(const TokenCounts& counts) const;
  // The request's field that the prompt is made of.
  virtual std::string_view prompt_field() const = 0;
  // What a choice's stream begins with, if with anything.
  virtual std::optional<Json> first_chunk(uint32_t index) const = 0;

 protected:
  // What a chat's answer says of its prompt; nothing for completions, whose choices say it.
  virtual void add_prompt(Json& /*answer*/) const {}
  Json object(std::string_view kind, Json choices) const;
  virtual std::string_view kind() const = 0;
  virtual std::string_view chunk_kind() const = 0;
  virtual Json whole_choice(const ChoiceText& text) const = 0;
  virtual Json chunk_choice(const ChoiceText& text) const = 0;
  bool token_ids() const { return !head_.prompts.empty(); }
  // Of the prompt that a choice answers.
  const std::vector<engine::Token>& prompt_of(uint32_t index) const {
    return head_.prompts[index / head_.choices];
  }

  AnswerHead head_;
  const text::Tokenizer& tokenizer_;
};

std::unique_ptr<AnswerFormat> completion_format(AnswerHead head, const text::Tokenizer& tokenizer);
std::unique_ptr<AnswerFormat> chat_format(AnswerHead head, const text::Tokenizer& tokenizer);

// JSON has no infinity; OpenAI writes it so.
double finite(float logprob);

}  // namespace kvick::server
