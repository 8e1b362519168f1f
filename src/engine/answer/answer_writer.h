#pragma once
// One answer as it grows: from the logits behind its last token to the next one, and to text.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/answer/loop_watch.h"
#include "engine/answer/stop_matcher.h"
#include "engine/answer/token_report.h"
#include "engine/sampling/sampler.h"
#include "text/grammar/constraint.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::engine {

// kLoop: the answer repeats itself (loop_watch.h).
enum class Finish { kEnd, kStop, kLength, kCancelled, kLoop };
// "stop" (the first two, and kLoop), "length", "cancelled".
std::string_view finish_name(Finish finish);

struct AnswerForm {
  Sampling sampling;
  uint32_t most = UINT32_MAX;      // tokens of the answer
  uint32_t least = 0;              // tokens before which nothing but the context ends it
  std::vector<std::string> stop;   // text that ends it; not part of it
  std::vector<Token> stop_tokens;  // each ends it as the model's own end does
  bool with_stop = false;          // the stop text, or the stop token's, is part of it
  bool special_text = false;       // control tokens give their names
  bool continues = false;          // it goes on the prompt's text: its leading space is kept
  bool ignore_end = false;         // go on past the model's end tokens
  // A loop ends it (loop_watch.h), except with ignore_end or a constraint.
  bool stop_loops = false;
  std::optional<uint32_t> logprobs;  // report tokens, each with this many of the likeliest
  // What it has to be, or null: any text. Cloned; not together with ignore_end.
  std::shared_ptr<const text::Constraint> constraint;
};

// Errors: those of its sampling; what does not go together with a constraint.
base::Status<> check(const AnswerForm& form, uint32_t vocab);

// What one more token did.
struct WrittenTokens {
  std::optional<Token> token;  // none: the model has ended the answer
  std::string text;            // what became certain: whole UTF-8 characters, before any stop text
  std::optional<TokenReport> report;
  std::optional<Finish> finish;  // nothing may follow
  std::string stop;              // the stop text that ended the answer, if one did
};

class AnswerWriter {
 public:
  // Both outlive it. prompt: its control tokens are not penalised, or a chat, in which one ends
  // every turn, would stop ending.
  AnswerWriter(const text::Tokenizer& tokenizer, const kernels::Table& kernels,
               std::span<const Token> prompt, AnswerForm form);
  // For another choice of the same prompt. `first` must not have written anything yet; the forms
  // may differ only in the seed.
  AnswerWriter(const AnswerWriter& first, const kernels::Table& kernels, AnswerForm form);

  // Chooses the next token and takes it. logits: [at least the vocabulary], those behind the last
  // token; they are changed. room: whether the sequence may grow by this token's row. Throws
  // NotFinite.
  WrittenTokens next(std::span<float> logits, bool room);
  // The same with a token that somebody else chose.
  WrittenTokens take(Token token, bool room);
  uint32_t tokens() const { return tokens_; }  // taken so far
  const Sampler& sampler() const { return sampler_; }
  const text::Constraint* constraint() const { return constraint_.get(); }  // as it is now; or null

 private:
  void forbid_ends(std::span<float> logits) const;

  const text::Tokenizer& tokenizer_;
  AnswerForm form_;
  Sampler sampler_;
  std::unique_ptr<text::Constraint> constraint_;
  text::StreamDecoder decoder_;
  StopMatcher matcher_;
  std::optional<LoopWatch> loops_;  // if a loop ends it
  uint32_t tokens_ = 0;
};

}  // namespace kvick::engine
