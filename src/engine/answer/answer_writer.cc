#include "engine/answer/answer_writer.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "engine/answer/finite.h"
#include "engine/answer/suppress.h"

namespace kvick::engine {

std::string_view finish_name(Finish finish) {
  switch (finish) {
    case Finish::kEnd:
    case Finish::kStop:
    case Finish::kLoop:
      return "stop";
    case Finish::kLength:
      return "length";
    case Finish::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

base::Status<> check(const AnswerForm& form, uint32_t vocab) {
  KVICK_TRY_VOID(check(form.sampling, vocab));
  for (const Token token : form.stop_tokens)
    if (token < 0 || static_cast<uint32_t>(token) >= vocab)
      return base::fail("there is no stop token {}; the vocabulary ends at {}", token, vocab - 1);
  if (form.least > form.most)
    return base::fail(
        "at least {} tokens are asked for, but at most {} are allowed: lower the one or raise the "
        "other",
        form.least, form.most);
  if (form.constraint == nullptr) return base::Done{};
  if (form.ignore_end)
    return base::fail(
        "a constrained answer (schema, grammar, choice or tool call) ends where it is complete; do "
        "not ignore the end");
  if (form.least > 0)
    return base::fail(
        "a constrained answer (schema, grammar, choice or tool call) ends where it is complete; do "
        "not ask for a least length");
  if (!form.sampling.bad_words.empty())
    return base::fail(
        "bad words cannot be combined with a constrained answer (schema, grammar, choice or tool "
        "call); leave one of them out");
  // An infinite bias could forbid every token that the constraint allows, or allow a forbidden one.
  for (const auto& [token, bias] : form.sampling.logit_bias)
    if (std::isinf(bias))
      return base::fail(
          "an infinite logit bias cannot be combined with a constrained answer (schema, grammar, "
          "choice or tool call); use a finite one");
  return base::Done{};
}

AnswerWriter::AnswerWriter(const text::Tokenizer& tokenizer, const kernels::Table& kernels,
                           std::span<const Token> prompt, AnswerForm form)
    : tokenizer_(tokenizer),
      form_(std::move(form)),
      sampler_(form_.sampling, kernels, &tokenizer),
      constraint_(form_.constraint ? form_.constraint->clone() : nullptr),
      decoder_(tokenizer, form_.continues, form_.special_text),
      matcher_(form_.stop, form_.with_stop) {
  if (form_.stop_loops && !form_.ignore_end && form_.constraint == nullptr) loops_.emplace();
  for (const Token token : prompt) {
    if (tokenizer.is_control(token))
      sampler_.accept_break();
    else
      sampler_.accept_prompt(token);
  }
}

AnswerWriter::AnswerWriter(const AnswerWriter& first, const kernels::Table& kernels,
                           AnswerForm form)
    : AnswerWriter(first.tokenizer_, kernels, {}, std::move(form)) {
  KVICK_CHECK_EQ(first.tokens_, 0U);
  sampler_.accept_as(first.sampler_);
}

WrittenTokens AnswerWriter::next(std::span<float> logits, bool room) {
  // Output layers are often padded to a round number of rows; the added rows have no token.
  logits = logits.first(tokenizer_.vocabulary().pieces.size());
  require_finite(logits);
  std::optional<TokenReport> report;
  double mass = 0;
  std::vector<float> own;  // the model's logits, before they are changed below
  if (form_.logprobs) {
    mass = log_mass(logits);
    report = TokenReport{.chosen = {}, .top = likeliest(logits, *form_.logprobs)};
    own.assign(logits.begin(), logits.end());
  }
  if (constraint_ != nullptr) constraint_->mask(logits);
  suppress(tokenizer_.vocabulary(), tokens_ == 0, logits);
  if (tokens_ < form_.least) forbid_ends(logits);
  const Token token = sampler_.choose(logits);
  if (report) report->chosen = {token, static_cast<float>(own[static_cast<size_t>(token)] - mass)};
  WrittenTokens written = take(token, room);
  if (written.token) written.report = std::move(report);
  return written;
}

void AnswerWriter::forbid_ends(std::span<float> logits) const {
  const auto forbid = [&](const std::vector<Token>& tokens) {
    for (const Token token : tokens)
      if (static_cast<size_t>(token) < logits.size())
        logits[static_cast<size_t>(token)] = -INFINITY;
  };
  forbid(form_.stop_tokens);
  if (!form_.ignore_end) forbid(tokenizer_.ends());
}

WrittenTokens AnswerWriter::take(Token token, bool room) {
  WrittenTokens written;
  const bool stops = std::find(form_.stop_tokens.begin(), form_.stop_tokens.end(), token) !=
                     form_.stop_tokens.end();
  if (stops || (!form_.ignore_end && tokenizer_.ends_generation(token))) {
    if (stops && form_.with_stop) written.text = matcher_.push(decoder_.push(token));
    written.text += matcher_.push(decoder_.finish()) + matcher_.finish();
    written.finish = stops ? Finish::kStop : Finish::kEnd;
    return written;
  }
  ++tokens_;
  sampler_.accept(token);
  if (constraint_ != nullptr) constraint_->accept(token);
  written.token = token;
  written.text = decoder_.push(token);
  if (tokens_ > form_.least) written.text = matcher_.push(written.text);
  const bool full = !room || tokens_ >= form_.most;
  const bool loops = loops_ && loops_->add(token) && tokens_ > form_.least;
  if (!matcher_.stopped() && (full || loops)) {
    written.text += matcher_.push(decoder_.finish());
    written.text += matcher_.finish();
    written.finish = loops ? Finish::kLoop : Finish::kLength;
  }
  if (matcher_.stopped()) {
    written.finish = Finish::kStop;
    written.stop = matcher_.matched();
  }
  return written;
}

}  // namespace kvick::engine
