#include "engine/answer/answer_writer.h"

#include <cmath>

#include "engine/answer/finite.h"

namespace kvick::engine {

std::string_view finish_name(Finish finish) {
  switch (finish) {
    case Finish::kEnd:
    case Finish::kStop:
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
  if (form.constraint == nullptr) return base::Done{};
  if (form.ignore_end)
    return base::fail(
        "an answer that is held to a form ends where it is whole; do not ignore the end");
  // It could forbid all that the form leaves, or bring back what that has forbidden.
  for (const auto& [token, bias] : form.sampling.logit_bias)
    if (std::isinf(bias))
      return base::fail(
          "a logit bias without bounds cannot go with an answer that is held to a form");
  return base::Done{};
}

AnswerWriter::AnswerWriter(const text::Tokenizer& tokenizer, const kernels::Table& kernels,
                           std::span<const Token> prompt, AnswerForm form)
    : tokenizer_(tokenizer),
      form_(std::move(form)),
      sampler_(form_.sampling, kernels),
      constraint_(form_.constraint ? form_.constraint->clone() : nullptr),
      decoder_(tokenizer, form_.continues),
      matcher_(form_.stop) {
  for (const Token token : prompt)
    if (!tokenizer.is_control(token)) sampler_.accept_prompt(token);
}

WrittenTokens AnswerWriter::next(std::span<float> logits, bool room) {
  // Output layers are often padded to a round number of rows; those have no token.
  logits = logits.first(tokenizer_.vocabulary().pieces.size());
  require_finite(logits);
  std::optional<TokenReport> report;
  double mass = 0;
  std::vector<float> own;  // the model's, before anybody changes them
  if (form_.logprobs) {
    mass = log_mass(logits);
    report = TokenReport{.chosen = {}, .top = likeliest(logits, *form_.logprobs)};
    own.assign(logits.begin(), logits.end());
  }
  if (constraint_ != nullptr) constraint_->mask(logits);
  const Token token = sampler_.choose(logits);
  if (report) report->chosen = {token, static_cast<float>(own[static_cast<size_t>(token)] - mass)};
  WrittenTokens written = take(token, room);
  if (written.token) written.report = std::move(report);
  return written;
}

WrittenTokens AnswerWriter::take(Token token, bool room) {
  WrittenTokens written;
  if (!form_.ignore_end && tokenizer_.ends_generation(token)) {
    written.text = matcher_.push(decoder_.finish()) + matcher_.finish();
    written.finish = Finish::kEnd;
    return written;
  }
  ++tokens_;
  sampler_.accept(token);
  if (constraint_ != nullptr) constraint_->accept(token);
  written.token = token;
  written.text = matcher_.push(decoder_.push(token));
  if (!matcher_.stopped() && (!room || tokens_ >= form_.most)) {
    written.text += matcher_.push(decoder_.finish());
    written.text += matcher_.finish();
    written.finish = Finish::kLength;
  }
  if (matcher_.stopped()) written.finish = Finish::kStop;
  return written;
}

}  // namespace kvick::engine
