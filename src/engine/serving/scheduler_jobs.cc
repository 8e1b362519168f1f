// Scheduler: how jobs begin and end, and which jobs an exception ends.
//
// An exception ends the jobs that it concerns, with a sentence that says why; the others continue.
// One thrown before the step's commit concerns the jobs of the step, which is rolled back. One
// thrown while a single job was served concerns that job. A store whose own call threw is replaced
// by an empty one, and the jobs that had rows in it compute them again. Functions here must not
// throw: ending a job allocates nothing but its message.

#include <chrono>
#include <thread>

#include "engine/serving/scheduler.h"
#include "engine/sharing/failure_text.h"
#include "engine/speculation/match_drafter.h"

namespace kvick::engine {
namespace {

// An on_end that throws is called up to kMostTries times, kBetweenTries apart.
constexpr uint32_t kMostTries = 1000;
constexpr std::chrono::milliseconds kBetweenTries{1};

}  // namespace

void Scheduler::add(JobId id, Job job) { add(job_list_of(id, std::move(job))); }

void Scheduler::add(RunningJobs one) noexcept {
  RunningJob& running = *one.front();
  running.arrived = options_.clock();
  running.order = order_of(running.job, running.arrived);
  running.outcome.times.submitted = running.arrived;
  move_job(running, one, waiting_);
  try {
    begin(running);
  } catch (...) {
    fail(running, std::current_exception());
  }
}

void Scheduler::begin(RunningJob& running) {
  const Job& job = running.job;
  const auto kind =
      job.kv ? stores_.find(kind_of(job)) : base::Result<StoreKind*>(&stores_.standard());
  if (!kind.ok()) return end(running, Refusal{Refusal::Why::kBusy, kind.error().message, "kv"});
  running.kind = *kind;
  ++running.kind->jobs;
  const uint32_t answers = running.beam_search() ? 1 : job.choices;
  // One index of the prompt for all choices, since it takes 70 bytes a token.
  const auto matches = answers > 1 ? std::make_shared<PromptMatches>(job.prompt.size()) : nullptr;
  for (uint32_t i = 0; i < answers; ++i) {
    AnswerSequence answer = {.choice = i, .seq = {}, .tokens = job.prompt};
    AnswerForm form = form_of(job);
    form.sampling.seed += i;
    if (!running.beam_search() && !job.pooling)
      answer.writer = i == 0
                          ? std::make_unique<AnswerWriter>(engine_.tokenizer(), engine_.kernels(),
                                                           job.prompt, std::move(form))
                          : std::make_unique<AnswerWriter>(*running.answers.front().writer,
                                                           engine_.kernels(), std::move(form));
    answer.speculator = speculator_of(job, matches);
    running.answers.push_back(std::move(answer));
  }
  if (job.pooling)
    running.pool.emplace(states_of(engine_.model().config(), *job.pooling),
                         running.outcome.prompt_tokens, engine_.model().config().dim);
  ask_tiers(running);
}

void Scheduler::cancel(JobId id) noexcept {
  for (auto* jobs : {&waiting_, &running_})
    for (auto& running : *jobs)
      if (running->id == id) {
        ++counts_.cancelled;
        return end(*running, {});
      }
}

void Scheduler::cancel_all() noexcept {
  for (auto* jobs : {&running_, &waiting_})
    while (!jobs->empty()) cancel(jobs->back()->id);
  while (!ended_.empty()) tell_ends();
}

void Scheduler::drop_rows(RunningJob& running) noexcept {
  for (AnswerSequence& answer : running.answers) {
    remember(running, answer);
    close_answer(running, answer);
  }
  if (running.loading != nullptr) tiers_.give_up(*std::exchange(running.loading, nullptr));
}

void Scheduler::end(RunningJob& running, std::optional<Refusal> error) noexcept {
  drop_rows(running);
  if (error) ++counts_.failed;
  running.outcome.error = std::move(error);
  if (running.kind != nullptr) --running.kind->jobs;
  const bool runs = std::any_of(running_.begin(), running_.end(),
                                [&](const auto& one) { return one.get() == &running; });
  move_job(running, runs ? running_ : waiting_, ended_);
  if (tell_end(running))
    std::erase_if(ended_, [&](const auto& one) { return one.get() == &running; });
}

// Ends the jobs whose embedding is complete. Called after a step, when nothing points to its jobs.
void Scheduler::end_pooled() noexcept {
  for (auto next = running_.begin(); next != running_.end();) {
    RunningJob& running = **next++;
    if (running.outcome.embedding.empty()) continue;
    ++counts_.finished;
    end(running, {});
  }
}

// Calls on_end. Returns false if it has to be called again.
bool Scheduler::tell_end(RunningJob& running) noexcept {
  if (!running.job.on_end) return true;
  try {
    running.job.on_end(running.outcome);
    return true;
  } catch (...) {
    return ++running.tries == kMostTries;
  }
}

void Scheduler::tell_ends() noexcept {
  if (ended_.empty()) return;
  std::this_thread::sleep_for(kBetweenTries);
  std::erase_if(ended_, [&](const auto& running) { return tell_end(*running); });
}

void Scheduler::fail(RunningJob& running, std::exception_ptr why) noexcept {
  report(why);
  Refusal refusal = {.why = Refusal::Why::kFailed, .message = {}, .field = {}};
  if (is_lost_rank(why)) refusal.why = Refusal::Why::kBusy;  // another server can answer it
  try {
    refusal.message = "the engine failed on this request: " + failure_text(why);
  } catch (...) {  // the refusal has no message then
  }
  end(running, std::move(refusal));
}

void Scheduler::fail_marked() noexcept {
  for (auto next = running_.begin(); next != running_.end();) {
    RunningJob& running = **next++;
    if (running.failure) fail(running, std::exchange(running.failure, nullptr));
  }
}

// Returns true if the store's jobs advanced, or some of them failed.
bool Scheduler::run_or_fail(StoreKind& kind) noexcept {
  if (kind.broken) return false;
  for (auto& running : running_) running->in_step = false;
  try {
    return run(kind);
  } catch (...) {
    fail_step(kind, std::current_exception());
    return true;
  }
}

// An exception before the step's jobs were known ends all jobs of the store, except those that
// still wait for loaded rows.
void Scheduler::fail_step(StoreKind& kind, const std::exception_ptr& why) noexcept {
  // A step that threw may leave frames pinned, so a tiered store is replaced.
  if (kind.traits.tiered) kind.broken = true;
  const auto is_here = [&](const auto& running) { return running->kind == &kind; };
  const bool known = std::any_of(running_.begin(), running_.end(),
                                 [&](const auto& running) { return running->in_step; });
  for (auto& running : running_)
    if (is_here(running) && (known ? running->in_step : running->loading == nullptr))
      running->failure = why;
  fail_marked();
}

// Replaces stores that broke in the last step.
void Scheduler::renew_stores() noexcept {
  for (StoreKind& kind : stores_.kinds()) {
    if (!kind.broken) continue;
    for (auto next = running_.begin(); next != running_.end();) {
      RunningJob& running = **next++;
      if (running.kind == &kind) evict(running);
    }
    std::exception_ptr why;
    try {
      if (const auto renewed = stores_.renew(kind); renewed.ok())
        continue;
      else
        why = std::make_exception_ptr(std::runtime_error(renewed.error().message));
    } catch (...) {
      why = std::current_exception();
    }
    for (auto next = waiting_.begin(); next != waiting_.end();) {
      RunningJob& running = **next++;
      if (running.kind == &kind) fail(running, why);
    }
  }
}

void Scheduler::report(const std::exception_ptr& why) const noexcept {
  if (!options_.report) return;
  try {
    options_.report("a step of the engine: " + failure_text(why));
  } catch (...) {  // the report is lost
  }
}

}  // namespace kvick::engine
