// Scheduler: beam search.

#include <algorithm>

#include "engine/answer/finite.h"
#include "engine/answer/suppress.h"
#include "engine/serving/scheduler.h"

namespace kvick::engine {
namespace {

void keep_best(std::vector<Hypothesis>& all, size_t count) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  if (all.size() > count) all.resize(count);
}

std::vector<Token> answer_of(const RunningJob& running, const AnswerSequence& answer) {
  return {answer.tokens.begin() + running.outcome.prompt_tokens, answer.tokens.end()};
}

}  // namespace

// Extends the best `beams` answers by one token. Considers twice as many continuations, since up to
// half of them end an answer (Freitag and Al-Onaizan 2017).
void Scheduler::search(RunningJob& running, std::span<const StepDraw> draws) {
  const uint32_t width = running.job.beams;
  const size_t pieces = engine_.tokenizer().vocabulary().pieces.size();
  std::vector<Beam> beams;
  for (const StepDraw& draw : draws) {
    const std::span<float> logits = draw.logits.first(pieces);
    require_finite(logits);
    suppress(engine_.tokenizer().vocabulary(), running.longest() == running.outcome.prompt_tokens,
             logits);
    beams.push_back({.score = running.answers[draw.answer].score,
                     .next = likeliest(logits, size_t{2} * width)});
  }
  const uint32_t length = running.longest() - running.outcome.prompt_tokens + 1;
  const auto normalised = [&](double score) {
    return length_normalised(score, length, running.job.length_penalty);
  };
  std::vector<Continuation> best = best_continuations(beams, size_t{2} * width), live;
  for (size_t i = 0; i < best.size() && live.size() < width; ++i) {
    const Continuation& one = best[i];
    if (running.job.ignore_end || !engine_.tokenizer().ends_generation(one.token))
      live.push_back(one);
    else if (i < width)
      running.hypotheses.push_back(
          {answer_of(running, running.answers[one.beam]), normalised(one.score), true});
  }
  keep_best(running.hypotheses, width);
  counts_.generated_tokens += live.size();
  const bool full = running.outcome.prompt_tokens + length > running.kind->most_tokens ||
                    (running.job.max_tokens != 0 && length >= running.job.max_tokens);
  const bool decided = !live.empty() && running.hypotheses.size() >= width &&
                       running.hypotheses.back().score >= normalised(live.front().score);
  // Checked before any fork, so that a fork without room does not make the search longer.
  if (!full && !decided && !live.empty()) {
    try {
      return go_on_with(running, live);
    } catch (...) {  // some sequences may belong to no answer now
      running.kind->broken = true;
      throw;
    }
  }
  for (const Continuation& one : live) {
    std::vector<Token> tokens = answer_of(running, running.answers[one.beam]);
    tokens.push_back(one.token);
    running.hypotheses.push_back({std::move(tokens), normalised(one.score), false});
  }
  keep_best(running.hypotheses, width);
  end_search(running);
}

// Replaces the answers by their continuations, each with the rows of the answer that it continues.
// If there is no room for a fork, preempts or ends the job.
void Scheduler::go_on_with(RunningJob& running, std::span<const Continuation> live) {
  std::vector<AnswerSequence> before = std::exchange(running.answers, {});
  std::vector<bool> used(before.size());
  std::optional<kv::Shortage> shortage;
  for (uint32_t i = 0; i < live.size(); ++i) {
    const AnswerSequence& from = before[live[i].beam];
    AnswerSequence answer = {.choice = i, .seq = {}, .tokens = from.tokens, .writer = nullptr};
    answer.tokens.push_back(live[i].token);
    answer.score = live[i].score;
    running.answers.push_back(std::move(answer));
  }
  // Forks before it closes anything: a sequence must stay open until its last fork is made.
  for (uint32_t i = 0; i < live.size() && !shortage; ++i) {
    AnswerSequence& from = before[live[i].beam];
    if (!used[live[i].beam]) {
      used[live[i].beam] = true;
      running.answers[i].seq = from.seq;
    } else if (auto seq = fork(*running.kind, *from.seq); seq.ok()) {
      running.answers[i].seq = *seq;
    } else {
      shortage = seq.error();
    }
    running.answers[i].committed = from.committed;
    running.answers[i].filed = from.filed;
  }
  for (size_t i = 0; i < before.size(); ++i)
    if (!used[i]) close_answer(running, before[i]);
  if (shortage) preempt_or_end(running, *shortage);
}

void Scheduler::end_search(RunningJob& running) {
  const size_t count = std::min<size_t>(running.job.choices, running.hypotheses.size());
  for (uint32_t i = 0; i < count; ++i) {
    const Hypothesis& best = running.hypotheses[i];
    AnswerForm form;
    form.stop = running.job.stop;
    form.continues = running.job.continues;
    form.special_text = running.job.special_text;
    form.ignore_end = true;
    AnswerWriter writer(engine_.tokenizer(), engine_.kernels(), {}, std::move(form));
    AnswerPiece piece = {.choice = i, .text = {}, .token = {}, .tokens = {}, .finish = {}};
    for (size_t t = 0; t < best.tokens.size() && !piece.finish; ++t) {
      const WrittenTokens written = writer.take(best.tokens[t], t + 1 < best.tokens.size());
      piece.text += written.text;
      piece.finish = written.finish;
      piece.stop = written.stop;
    }
    if (best.ended && piece.finish != Finish::kStop) piece.finish = Finish::kEnd;
    running.outcome.generated_tokens += static_cast<uint32_t>(best.tokens.size());
    if (running.job.on_piece) running.job.on_piece(std::move(piece));
  }
  ++counts_.finished;
  end(running, {});
}

}  // namespace kvick::engine
