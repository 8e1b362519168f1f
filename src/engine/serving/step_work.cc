#include "engine/serving/step_work.h"

#include <algorithm>
#include <numeric>

#include "engine/answer/finite.h"
#include "engine/speculation/verify.h"

namespace kvick::engine {

std::vector<uint32_t> states_of(std::span<StepWork> work) {
  std::vector<uint32_t> tokens;
  uint32_t begin = 0;  // index in the batch of the work's first token
  for (StepWork& one : work) {
    one.first_state = tokens.size();
    if (const std::optional<Pool>& pool = one.running->pool) {
      const uint32_t past = one.running->answers[one.answer].committed;
      const uint32_t end = std::min(past + one.tokens, pool->end());
      for (uint32_t t = std::max(past, pool->next()); t < end; ++t)
        tokens.push_back(begin + t - past);
    }
    const Speculator* const speculator = one.running->answers[one.answer].speculator.get();
    if (speculator != nullptr && speculator->reads_states())
      for (uint32_t i = 0; i < one.tokens + one.drafts.size(); ++i) tokens.push_back(begin + i);
    one.states = tokens.size() - one.first_state;
    begin += one.tokens + one.drafts.size();
  }
  return tokens;
}

std::exception_ptr show_states(const StepWork& one, uint32_t first,
                               const model::Executor& executor) {
  const AnswerSequence& answer = one.running->answers[one.answer];
  if (answer.speculator == nullptr || !answer.speculator->reads_states()) return nullptr;
  std::vector<uint32_t> kept = one.kept;
  if (one.drafts.size() == 0) {
    kept.resize(one.tokens);
    std::iota(kept.begin(), kept.end(), 0U);
  }
  const std::vector<float> states = states_of_rows(executor, kept, one.first_state);
  return answer.speculator->see({.text = std::span(answer.tokens).first(answer.committed),
                                 .first = first,
                                 .states = states.data()});
}

void pool_states(const StepWork& one, std::span<const float> states, const model::Model& model) {
  if (one.states == 0 || !one.running->pool) return;
  Pool& pool = *one.running->pool;
  const size_t width = model.config().dim;
  for (size_t i = 0; i < one.states; ++i) {
    const auto state = states.subspan((one.first_state + i) * width, width);
    require_finite(state);
    pool.add(state);
  }
  if (pool.complete())
    one.running->outcome.embedding = model.head_of(*one.running->job.pooling, pool.vector());
}

}  // namespace kvick::engine
