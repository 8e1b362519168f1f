#pragma once
// How one API writes its answers: OpenAI's, Anthropic's, Ollama's. One object writes the answer to
// one request.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/answer/choice_text.h"
#include "server/request/error.h"

namespace kvick::server {

// What is known of an answer before it begins.
struct AnswerHead {
  uint64_t number = 0;             // drawn for this request; its ids are made from it
  std::string model;               // the model's id for clients
  int64_t created = 0;             // Unix time, seconds
  uint64_t prompt_tokens = 0;      // sum over all prompts
  bool logprobs = false;           // the client asked for log probabilities of tokens
  uint32_t most_top = UINT32_MAX;  // most likeliest tokens with each of them
  // The same number for tokens of the prompt, reported apart; none: the client did not ask.
  std::optional<uint32_t> prompt_logprobs = {};
  bool echo = false;  // answers begin with their prompts, and so do `logprobs`
  // An OpenAI stream ends with token counts; they are null in its other chunks.
  bool include_usage = false;
  // prompts: the token ids of each prompt, if the client asked for them. choices: per prompt.
  std::vector<std::vector<engine::Token>> prompts = {};
  uint32_t choices = 1;
};

// What is known when the answer has ended.
struct AnswerEnd {
  TokenCounts counts;
  // Seconds from the request's submission to its first text, and from there to its end.
  double prompt_seconds = 0, answer_seconds = 0;
  std::optional<std::string> given;   // engine::JobOutcome::given
  const ChoiceText* first = nullptr;  // the first choice of a whole answer
  std::optional<ApiError> error;      // the error that broke off a stream; whole answers have none
};

// Calls come from one thread at a time. A whole answer takes frame(), then choice() for each choice
// in order. A stream takes begin() for each choice, piece() as text arrives, and end().
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  // Returns the name of the request's field that holds the prompt.
  virtual std::string_view prompt_field() const = 0;
  // Returns the response for an error before any part of the answer was sent.
  virtual HttpResponse error(const ApiError& error) const { return error_response(error); }

  // A whole answer is `before`, the choices separated by commas, and `behind`.
  struct Frame {
    std::string before, behind;
  };
  virtual Frame frame(const AnswerEnd& end) = 0;
  virtual std::string choice(const ChoiceText& all) = 0;

  // The following calls return bytes of a stream, framed for its type; empty: nothing to send.
  virtual std::string_view stream_type() const { return kEventStream; }
  virtual std::string begin(uint32_t choice) = 0;
  virtual std::string piece(const ChoiceText& added) = 0;
  virtual std::string end(const AnswerEnd& end) = 0;
};

using MakeFormat = std::function<std::unique_ptr<AnswerFormat>(AnswerHead head)>;

}  // namespace kvick::server
