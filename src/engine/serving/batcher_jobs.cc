// Batcher: how jobs begin and end, and what becomes of them when something throws.
//
// An exception ends the jobs that it concerns, with a sentence that says why; the others go on.
// What was thrown before the step's commit concerns the jobs of the step, which is rolled back;
// what was thrown while one job was served concerns that job. A store whose own call threw is
// replaced by an empty one, and the jobs that had rows in it compute them again. Nothing here may
// throw: ending a job allocates nothing but what the sentence takes.

#include <chrono>
#include <thread>

#include "engine/serving/batcher.h"
#include "engine/serving/failure_text.h"

namespace kvick::engine {
namespace {

// A job whose on_end throws is told again, so many times a millisecond apart.
constexpr uint32_t kMostTries = 1000;
constexpr std::chrono::milliseconds kBetweenTries{1};

}  // namespace

void Batcher::add(JobId id, Job job) { add(group_of(id, std::move(job))); }

void Batcher::add(Groups one) noexcept {
  Group& group = *one.front();
  group.arrived = options_.clock();
  group.order = order_of(group.job, group.arrived);
  move_group(group, one, waiting_);
  try {
    begin(group);
  } catch (...) {
    fail(group, std::current_exception());
  }
}

void Batcher::begin(Group& group) {
  const Job& job = group.job;
  const auto shelf =
      job.kv ? stores_.find(kind_of(job)) : base::Result<Shelf*>(&stores_.standard());
  if (!shelf.ok()) return end(group, Refusal{Refusal::Why::kBusy, shelf.error().message, "kv"});
  group.shelf = *shelf;
  ++group.shelf->groups;
  const uint32_t lanes = group.beam_search() ? 1 : job.choices;
  for (uint32_t i = 0; i < lanes; ++i) {
    Lane lane = {.choice = i, .seq = {}, .tokens = job.prompt};
    AnswerForm form = form_of(job);
    form.sampling.seed += i;
    if (!group.beam_search())
      lane.writer = std::make_unique<AnswerWriter>(engine_.tokenizer(), engine_.kernels(),
                                                   job.prompt, std::move(form));
    lane.speculator = speculator_of(job);
    group.lanes.push_back(std::move(lane));
  }
}

void Batcher::cancel(JobId id) noexcept {
  for (auto* groups : {&waiting_, &running_})
    for (auto& group : *groups)
      if (group->id == id) {
        ++counts_.cancelled;
        return end(*group, {});
      }
}

void Batcher::cancel_all() noexcept {
  for (auto* groups : {&running_, &waiting_})
    while (!groups->empty()) cancel(groups->back()->id);
  while (!ended_.empty()) tell_ends();
}

void Batcher::drop_rows(Group& group) noexcept {
  for (Lane& lane : group.lanes) close_lane(group, lane);
  if (group.loading != nullptr) files_.give_up(*std::exchange(group.loading, nullptr));
}

void Batcher::end(Group& group, std::optional<Refusal> error) noexcept {
  drop_rows(group);
  if (error) ++counts_.failed;
  group.outcome.error = std::move(error);
  if (group.shelf != nullptr) --group.shelf->groups;
  const bool runs = std::any_of(running_.begin(), running_.end(),
                                [&](const auto& one) { return one.get() == &group; });
  move_group(group, runs ? running_ : waiting_, ended_);
  if (tell_end(group)) std::erase_if(ended_, [&](const auto& one) { return one.get() == &group; });
}

// False: it has to be told again.
bool Batcher::tell_end(Group& group) noexcept {
  if (!group.job.on_end) return true;
  try {
    group.job.on_end(group.outcome);
    return true;
  } catch (...) {
    return ++group.tries == kMostTries;
  }
}

void Batcher::tell_ends() noexcept {
  if (ended_.empty()) return;
  std::this_thread::sleep_for(kBetweenTries);
  std::erase_if(ended_, [&](const auto& group) { return tell_end(*group); });
}

void Batcher::fail(Group& group, std::exception_ptr why) noexcept {
  report(why);
  Refusal refusal = {.why = Refusal::Why::kFailed, .message = {}, .field = {}};
  try {
    refusal.message = "the engine failed on this request: " + failure_text(why);
  } catch (...) {  // without a sentence, then
  }
  end(group, std::move(refusal));
}

void Batcher::fail_marked() noexcept {
  for (auto next = running_.begin(); next != running_.end();) {
    Group& group = **next++;
    if (group.failure) fail(group, std::exchange(group.failure, nullptr));
  }
}

// True if the store's jobs got on, or some have failed.
bool Batcher::run_or_fail(Shelf& shelf) noexcept {
  if (shelf.broken) return false;
  for (auto& group : running_) group->in_step = false;
  try {
    return run(shelf);
  } catch (...) {
    fail_step(shelf, std::current_exception());
    return true;
  }
}

// What was thrown before it was known whose step it is concerns all that wait for it.
void Batcher::fail_step(Shelf& shelf, const std::exception_ptr& why) noexcept {
  // Frames that a step has pinned in part are not given back.
  if (shelf.traits.tiered) shelf.broken = true;
  const auto is_here = [&](const auto& group) { return group->shelf == &shelf; };
  const bool known = std::any_of(running_.begin(), running_.end(),
                                 [&](const auto& group) { return group->in_step; });
  for (auto& group : running_)
    if (is_here(group) && (known ? group->in_step : group->loading == nullptr))
      group->failure = why;
  fail_marked();
}

// Before a step: stores that broke in the last one.
void Batcher::renew_stores() noexcept {
  for (Shelf& shelf : stores_.shelves()) {
    if (!shelf.broken) continue;
    for (auto next = running_.begin(); next != running_.end();) {
      Group& group = **next++;
      if (group.shelf == &shelf) evict(group);
    }
    std::exception_ptr why;
    try {
      if (const auto renewed = stores_.renew(shelf); renewed.ok())
        continue;
      else
        why = std::make_exception_ptr(std::runtime_error(renewed.error().message));
    } catch (...) {
      why = std::current_exception();
    }
    for (auto next = waiting_.begin(); next != waiting_.end();) {
      Group& group = **next++;
      if (group.shelf == &shelf) fail(group, why);
    }
  }
}

void Batcher::report(const std::exception_ptr& why) const noexcept {
  if (!options_.report) return;
  try {
    options_.report("a step of the engine: " + failure_text(why));
  } catch (...) {  // nobody is told
  }
}

}  // namespace kvick::engine
