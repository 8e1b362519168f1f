#pragma once
// How one API writes its answers: OpenAI's, Anthropic's, Ollama's. One object writes one answer.

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
  uint64_t number = 0;         // drawn for this request: what its ids are made of
  std::string model;           // the id that clients see
  int64_t created = 0;         // Unix time, seconds
  uint64_t prompt_tokens = 0;  // of all prompts
  bool logprobs = false;       // tokens were asked for
  bool include_usage = false;  // an OpenAI stream ends with its counts, other chunks have them null
  // Of each prompt, if token ids were asked for; and how many choices each has.
  std::vector<std::vector<engine::Token>> prompts = {};
  uint32_t choices = 1;
};

// How it ended.
struct AnswerEnd {
  TokenCounts counts;
  // From the request's submission to its first text, and from there to its end.
  double prompt_seconds = 0, answer_seconds = 0;
  std::optional<std::string> given;  // engine::JobOutcome::given
  std::optional<ApiError> error;     // what broke a stream off; a whole answer has none
};

// Calls come from one thread at a time. Either frame() and then choice() for each choice, in order;
// or begin() for each choice, piece() as text comes, and end().
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  // The field of the request that the prompt is made of.
  virtual std::string_view prompt_field() const = 0;
  // The error response to a request, before anything of its answer was sent.
  virtual HttpResponse error(const ApiError& error) const { return error_response(error); }

  // A whole answer is `before`, its choices with commas between them, and `behind`.
  struct Frame {
    std::string before, behind;
  };
  virtual Frame frame(const AnswerEnd& end) = 0;
  virtual std::string choice(const ChoiceText& all) = 0;

  // The bytes of a stream, with the framing of its type; empty: none.
  virtual std::string_view stream_type() const { return kEventStream; }
  virtual std::string begin(uint32_t choice) = 0;
  virtual std::string piece(const ChoiceText& added) = 0;
  virtual std::string end(const AnswerEnd& end) = 0;
};

using MakeFormat = std::function<std::unique_ptr<AnswerFormat>(AnswerHead head)>;

}  // namespace kvick::server
