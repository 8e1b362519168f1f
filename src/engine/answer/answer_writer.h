#pragma once
// Writes one answer: chooses each next token from the logits after the last one, and turns tokens
// into text.

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
  uint32_t most = UINT32_MAX;      // limit on the answer's tokens
  uint32_t least = 0;              // least tokens; before them only a full context ends the answer
  std::vector<std::string> stop;   // texts that end the answer and are not part of it
  std::vector<Token> stop_tokens;  // each ends the answer as the model's own end does
  bool with_stop = false;          // the stop text, or the stop token's, is part of the answer
  bool special_text = false;       // control tokens appear in the text by their names
  bool continues = false;   // continues the prompt's text: the answer's leading space is kept
  bool ignore_end = false;  // continue past the model's end tokens
  // A loop ends the answer (loop_watch.h), except with ignore_end or a constraint.
  bool stop_loops = false;
  std::optional<uint32_t> logprobs;  // report each token with this many of the likeliest
  // The form of the answer's text; null: any text. It is cloned. Not together with ignore_end.
  std::shared_ptr<const text::Constraint> constraint;
};

// Errors: those of the sampling; a stop token outside the vocabulary; `least` above `most`; what
// cannot be combined with a constraint.
base::Status<> check(const AnswerForm& form, uint32_t vocab);

// What one more token adds to an answer.
struct WrittenTokens {
  std::optional<Token> token;  // none: the model has ended the answer
  std::string text;  // text that is certain now: whole UTF-8 characters, before any stop text
  std::optional<TokenReport> report;
  std::optional<Finish> finish;  // why the answer has ended, after which nothing may follow
  std::string stop;              // the stop text that ended the answer, if one did
};

class AnswerWriter {
 public:
  // Tokenizer and kernels must outlive the writer. prompt: penalties count its tokens, except
  // control tokens: one of those ends every turn of a chat, and answers would no longer end if it
  // were penalised.
  AnswerWriter(const text::Tokenizer& tokenizer, const kernels::Table& kernels,
               std::span<const Token> prompt, AnswerForm form);
  // For another choice of the same prompt. `first` must not have written anything yet; the forms
  // may differ only in the seed.
  AnswerWriter(const AnswerWriter& first, const kernels::Table& kernels, AnswerForm form);

  // Chooses the next token and takes it. logits: [at least the vocabulary], those after the last
  // token; overwritten. room: whether the sequence may grow by this token's row. Throws NotFinite.
  WrittenTokens next(std::span<float> logits, bool room);
  // Takes a token that the caller has chosen.
  WrittenTokens take(Token token, bool room);
  uint32_t tokens() const { return tokens_; }  // taken so far
  const Sampler& sampler() const { return sampler_; }
  // In its current state; or null.
  const text::Constraint* constraint() const { return constraint_.get(); }

 private:
  void forbid_ends(std::span<float> logits) const;

  const text::Tokenizer& tokenizer_;
  AnswerForm form_;
  Sampler sampler_;
  std::unique_ptr<text::Constraint> constraint_;
  text::StreamDecoder decoder_;
  StopMatcher matcher_;
  std::optional<LoopWatch> loops_;  // none: loops do not end the answer
  uint32_t tokens_ = 0;
};

}  // namespace kvick::engine
