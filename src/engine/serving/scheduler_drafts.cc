// Scheduler: draft tokens of answers, which are rows of the same step as the answer's last token.

#include <algorithm>

#include "engine/serving/scheduler.h"
#include "engine/speculation/verify.h"

namespace kvick::engine {

// A text with a salt is never shared: even the time that another answer takes could reveal it.
std::unique_ptr<Speculator> Scheduler::speculator_of(const Job& job,
                                                     std::shared_ptr<PromptMatches> prompt) {
  if (job.beams > 0 || job.pooling) return nullptr;
  return speculation_.begin(job.spec.value_or(options_.spec), job.salt.empty(), std::move(prompt));
}

// Makes draft tokens for every answer. Those of speculators with `gain` are weighed against each
// other, since all are rows of one forward. Steps that read prompts have none of these, since the
// cost of such steps is not measured.
void Scheduler::propose(std::span<StepWork> work) {
  uint32_t prompt_tokens = 0;
  double past = 0;
  for (const StepWork& one : work) {
    if (one.tokens != 1 || !one.logits) prompt_tokens += one.tokens;
    past += one.running->answers[one.answer].committed;
  }
  const bool prompts = prompt_tokens > 0;
  // A draft model reads what the step's prompts leave of its tokens.
  const uint32_t most = options_.most_step_tokens;
  speculation_.begin_step(std::max(most - std::min(most, prompt_tokens), Pace::kFewest));
  const auto answers = static_cast<uint32_t>(work.size());
  const PlainStep alone = plain_step(answers, past / answers);
  PlainStep plain = alone;  // with the draft tokens of speculators without `gain`
  const double stake = speculation_.account.tokens();
  const bool bets = !prompts && may_draft(alone, speculation_.cost, stake);
  std::vector<double> chances;
  for (StepWork& one : work) {
    const Speculator* speculator = one.running->answers[one.answer].speculator.get();
    if (speculator == nullptr) continue;
    const bool by_gain = speculator->options().gain;
    if (by_gain && !bets) continue;
    propose(one, alone);
    if (one.running->kind->broken) return;  // drafting in the store itself (skip) has failed
    if (by_gain)
      chances.insert(chances.end(), one.drafts.chances.begin(), one.drafts.chances.end());
    else
      plain.shape = plain.with(one.drafts.size());
  }
  const double least = least_chance(chances, plain, speculation_.cost, stake);
  for (StepWork& one : work)
    if (one.drafts.size() > 0 && one.running->answers[one.answer].speculator->options().gain)
      one.drafts.keep(least, one.drafts.size());
}

void Scheduler::propose(StepWork& one, const PlainStep& plain) {
  const RunningJob& running = *one.running;
  AnswerSequence& answer = one.running->answers[one.answer];
  if (one.tokens != 1 || !one.logits || running.trunk > 0 || answer.length() <= 1) return;
  if (running.reads_prompt(answer) && running.kind->tells_roles()) return;
  kv::Store& store = *running.kind->store;
  uint32_t room = draft_room(store, *answer.seq, answer.speculator->options().grow);
  if (running.job.max_tokens != 0)
    room = std::min(room, running.job.max_tokens - answer.writer->tokens() - 1);
  const DraftAsk ask = {.text = answer.tokens,
                        .most = room,
                        .depth = room,
                        .store = &store,
                        .seq = *answer.seq,
                        .sampler = &answer.writer->sampler(),
                        .form = answer.writer->constraint(),
                        .adapter = running.job.adapter.weights(),
                        .adapter_scale = running.job.adapter.scale};
  try {
    one.drafts = answer.speculator->propose(ask, plain);
  } catch (...) {  // the answer continues without draft tokens
    if (answer.speculator->options().way == "skip")
      one.running->kind->broken = true;  // its jobs compute their rows again
    else
      speculation_.distrust();
    answer.speculator.reset();
    one.drafts = {};
    report(std::current_exception());
  }
}

void Scheduler::verify_drafts(std::span<StepWork> work) {
  if (std::none_of(work.begin(), work.end(),
                   [](const StepWork& one) { return one.drafts.size() > 0; }))
    return;
  const size_t vocab = engine_.model().config().vocab;
  engine_.pool().parallel_for(work.size(), 1, [&](size_t begin, size_t end, unsigned) {
    for (StepWork& one : work.subspan(begin, end - begin)) {
      if (one.drafts.size() == 0) continue;
      AnswerSequence& answer = one.running->answers[one.answer];
      const auto logits =
          executor_.logits().subspan(one.first_logits * vocab, (one.drafts.size() + 1) * vocab);
      try {
        one.kept = verify(*answer.writer, one.drafts.tree, logits,
                          {.committed = answer.committed, .most = one.running->kind->most_tokens},
                          [&](WrittenTokens&& written) {
                            if (written.token) answer.tokens.push_back(*written.token);
                            one.written.push_back(std::move(written));
                            return true;
                          });
      } catch (...) {
        one.failure = std::current_exception();  // no row is kept
      }
    }
  });
  for (const StepWork& one : work) {
    if (one.drafts.size() == 0 || one.failure) continue;
    const auto accepted = static_cast<uint32_t>(one.kept.size() - 1);
    one.running->outcome.drafted += one.drafts.size();
    one.running->outcome.accepted += accepted;
    counts_.drafted += one.drafts.size();
    counts_.accepted += accepted;
  }
}

}  // namespace kvick::engine
