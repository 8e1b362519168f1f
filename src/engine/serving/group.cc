#include "engine/serving/group.h"

#include <algorithm>

namespace kvick::engine {

uint32_t Group::longest() const {
  uint32_t most = 0;
  for (const Lane& lane : lanes) most = std::max(most, lane.length());
  return most;
}

uint32_t Group::common_tokens() const {
  const std::vector<Token>& first = lanes.front().tokens;
  auto common = static_cast<uint32_t>(first.size());
  uint32_t shortest = common;
  bool equal = true;
  for (const Lane& lane : lanes) {
    const auto differ =
        std::mismatch(first.begin(), first.end(), lane.tokens.begin(), lane.tokens.end());
    common = std::min(common, static_cast<uint32_t>(differ.first - first.begin()));
    shortest = std::min(shortest, lane.length());
    equal = equal && lane.tokens == first;
  }
  return equal ? common : std::min(common, shortest - 1);
}

AnswerForm form_of(const Job& job) {
  return {.sampling = job.sampling,
          .most = job.max_tokens != 0 ? job.max_tokens : UINT32_MAX,
          .stop = job.stop,
          .continues = job.continues,
          .ignore_end = job.ignore_end,
          .logprobs = job.logprobs,
          .constraint = job.constraint};
}

Groups group_of(JobId id, Job job) {
  Groups one;
  one.push_back(std::make_unique<Group>());
  Group& group = *one.front();
  group.id = id;
  group.outcome.prompt_tokens = static_cast<uint32_t>(job.prompt.size());
  group.job = std::move(job);
  return one;
}

void move_group(const Group& group, Groups& from, Groups& to) noexcept {
  const auto at =
      std::find_if(from.begin(), from.end(), [&](const auto& one) { return one.get() == &group; });
  const auto before = std::find_if(
      to.begin(), to.end(), [&](const auto& one) { return group.rank().ahead_of(one->rank()); });
  to.splice(before, from, at);
}

}  // namespace kvick::engine
