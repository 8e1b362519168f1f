#include "engine/serving/running_job.h"

#include <algorithm>

namespace kvick::engine {

uint32_t RunningJob::longest() const {
  uint32_t most = 0;
  for (const AnswerSequence& answer : answers) most = std::max(most, answer.length());
  return most;
}

uint32_t RunningJob::common_tokens() const {
  const std::vector<Token>& first = answers.front().tokens;
  auto common = static_cast<uint32_t>(first.size());
  uint32_t shortest = common;
  bool equal = true;
  for (const AnswerSequence& answer : answers) {
    const auto differ =
        std::mismatch(first.begin(), first.end(), answer.tokens.begin(), answer.tokens.end());
    common = std::min(common, static_cast<uint32_t>(differ.first - first.begin()));
    shortest = std::min(shortest, answer.length());
    equal = equal && answer.tokens == first;
  }
  return equal ? common : std::min(common, shortest - 1);
}

AnswerForm form_of(const Job& job) {
  return {.sampling = job.sampling,
          .most = job.max_tokens != 0 ? job.max_tokens : UINT32_MAX,
          .least = job.min_tokens,
          .stop = job.stop,
          .stop_tokens = job.stop_tokens,
          .with_stop = job.with_stop,
          .special_text = job.special_text,
          .continues = job.continues,
          .ignore_end = job.ignore_end,
          .logprobs = job.logprobs,
          .constraint = job.constraint};
}

RunningJobs job_list_of(JobId id, Job job) {
  RunningJobs one;
  one.push_back(std::make_unique<RunningJob>());
  RunningJob& running = *one.front();
  running.id = id;
  running.outcome.prompt_tokens = static_cast<uint32_t>(job.prompt.size());
  running.job = std::move(job);
  return one;
}

void move_job(const RunningJob& running, RunningJobs& from, RunningJobs& to) noexcept {
  const auto at = std::find_if(from.begin(), from.end(),
                               [&](const auto& one) { return one.get() == &running; });
  const auto before = std::find_if(
      to.begin(), to.end(), [&](const auto& one) { return running.rank().ahead_of(one->rank()); });
  to.splice(before, from, at);
}

}  // namespace kvick::engine
