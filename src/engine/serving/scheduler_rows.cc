// Scheduler: rows that are read from slower tiers of the prefix cache and offered to them.

#include <algorithm>

#include "engine/serving/scheduler.h"
#include "kv/strategy/facet_calls.h"

namespace kvick::engine {

PrefixOwner Scheduler::owner_of(const Job& job) const {
  PrefixOwner owner = {.salt = job.salt, .arithmetic = {}, .adapter = job.adapter.key()};
  if (!job.handover || job.handover->side != Handover::Side::kTake) return owner;
  owner.handed_over = true;
  if (job.handover->arithmetic != tiers_.arithmetic()) owner.arithmetic = job.handover->arithmetic;
  return owner;
}

// Returns how many leading tokens of the first answer need not be computed if their rows are
// cached.
uint32_t Scheduler::reusable_tokens(const RunningJob& running) const {
  if (!running.job.reuse) return 0;
  // The last token's logits are needed, so it is computed in any case.
  uint32_t known = std::min(
      {running.common_tokens(), running.answers.front().length() - 1, running.prompt_rows()});
  if (running.reports_prompt())  // a token's report needs the logits of the token before it
    known = std::min(known,
                     static_cast<uint32_t>(std::max<size_t>(running.prompt_reports.size(), 1) - 1));
  if (running.pool) known = std::min(known, running.pool->next());
  return known;
}

// Whether a job ahead of this one will soon compute rows that this one, which has none yet, can
// share. Prompts are read in the jobs' order, so waiting for them costs nothing.
bool Scheduler::waits_for_a_prompt(const RunningJob& running) const {
  if (!running.kind->traits.shares_prefix || engine_.model().config().both_ways()) return false;
  const auto prompt =
      std::span<const Token>(running.answers.front().tokens).first(reusable_tokens(running));
  for (const auto& other : running_)
    if (other->kind == running.kind && other->rank().ahead_of(running.rank()) &&
        salt_of(owner_of(other->job)) == salt_of(owner_of(running.job)) &&
        other->will_share(prompt))
      return true;
  return false;
}

void Scheduler::ask_tiers(RunningJob& running) {
  const auto tokens = std::span<const Token>(running.answers.front().tokens);
  running.asked =
      tiers_.ask(*running.kind, owner_of(running.job), tokens.first(reusable_tokens(running)));
}

// Starts to load rows from the tiers, if they have more than the store. known: leading tokens that
// need not be computed.
void Scheduler::start_loading(RunningJob& running, uint32_t known) {
  if (running.asked == nullptr) ask_tiers(running);
  if (running.asked == nullptr) return;
  std::unique_ptr<PrefixLoad> load = std::move(running.asked);
  const uint32_t committed = running.answers.front().committed;
  if (load->tokens > known || committed >= load->tokens) return;
  const double now = options_.clock(), per_token = pace_.seconds_per_prompt_token();
  tiers_.start(*load, committed, per_token, now);
  const bool over = tiers_.advance(*load, committed, per_token, now);
  if (!over || !load->parts.empty()) running.loading = std::move(load);
}

// Appends the rows that have been loaded. Returns true if the job need not wait any longer.
bool Scheduler::finish_loading(RunningJob& running) {
  const double now = options_.clock();
  AnswerSequence& first = running.answers.front();
  const uint32_t before = first.committed;
  if (!tiers_.advance(*running.loading, before, pace_.seconds_per_prompt_token(), now))
    return false;
  const std::unique_ptr<PrefixLoad> load = std::move(running.loading);
  tiers_.give_up(*load);
  const AppendedRows appended = running.kind->change([&](kv::Store&) {
    return tiers_.append(*running.kind, *first.seq, first.tokens, before, *load);
  });
  if (appended.usable) {
    first.committed = appended.committed;
  } else {  // rows came, but the state that belongs to them found no room
    close_answer(running, first);
    open_answer(running, first);
  }
  running.outcome.times.load(load->began, now, std::max(first.committed, before) - before);
  // Leaves a checkpoint, so that later prompts need not ask the tiers.
  if (load->stop && first.committed > before)
    running.kind->change(
        [&](kv::Store& store) { store.facets().checkpoints->keep(*first.seq, first.committed); });
  if (running.admitted) {
    counts_.preemption_seconds += now - load->began;
    counts_.swapped_bytes +=
        (std::max(first.committed, before) - before) * kv::moved_token_bytes(*running.kind->store);
  }
  count_opened(running);
  return true;
}

// Returns true if any job got its rows.
bool Scheduler::take_loaded() noexcept {
  bool came = false;
  for (auto next = running_.begin(); next != running_.end();) {
    RunningJob& running = **next++;
    if (running.loading == nullptr || running.kind->broken) continue;
    try {
      if (!finish_loading(running)) continue;
      came = true;
      if (running.forks_now()) fork_answers(running);
    } catch (...) {
      fail(running, std::current_exception());
    }
  }
  return came;
}

// Offers the tiers what the step has committed. Rows that another process computed with other
// arithmetic are that process's to offer.
void Scheduler::keep_rows(const StepWork& one) {
  RunningJob& running = *one.running;
  AnswerSequence& answer = running.answers[one.answer];
  if (!owner_of(running.job).arithmetic.empty()) return;
  const uint32_t filed = std::min(answer.committed, running.prompt_rows());
  tiers_.keep(*running.kind, *answer.seq, std::span(answer.tokens).first(filed), answer.filed,
              filed == answer.committed);
  if (one.answer == 0 && running.files_state(answer)) keep_state(running, answer);
  if (one.answer == 0) keep_rest(running);
}

// Offers the state after the answer's last committed token; nothing for models without states.
void Scheduler::keep_state(const RunningJob& running, const AnswerSequence& answer) const {
  if (answer.committed == 0 || answer.committed > running.prompt_rows() ||
      !owner_of(running.job).arithmetic.empty())
    return;
  tiers_.keep_state(*running.kind, *answer.seq, std::span(answer.tokens).first(answer.committed),
                    answer.filed);
}

// Offers the whole prompt of a job that is handed over, as soon as it is computed, but for its last
// token: the process that continues computes that one again, for its logits.
void Scheduler::keep_rest(RunningJob& running) {
  const std::optional<Handover>& handover = running.job.handover;
  const AnswerSequence& answer = running.answers.front();
  if (!handover || handover->side != Handover::Side::kGive || running.outcome.given ||
      answer.committed < running.outcome.prompt_tokens || options_.store == nullptr ||
      !tiers_.serves(*running.kind) || !options_.store->counts().connected)
    return;
  const auto prompt = std::span<const Token>(running.job.prompt);
  tiers_.keep_rest(*running.kind, owner_of(running.job), *answer.seq,
                   prompt.first(prompt.size() - 1));
  running.outcome.given = tiers_.arithmetic();
  ++counts_.handovers.given;
}

}  // namespace kvick::engine
