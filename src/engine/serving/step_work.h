#pragma once
// What the scheduler records of a step while it plans, computes and settles it.

#include <exception>
#include <span>
#include <vector>

#include "engine/answer/answer_writer.h"
#include "engine/serving/running_job.h"
#include "engine/speculation/speculation.h"

namespace kvick::engine {

// What a step does for one sequence.
struct StepWork {
  RunningJob* running;
  size_t answer;
  uint32_t tokens;
  bool logits;              // logits of the last of them are needed: it is the answer's last token
  Drafts drafts = {};       // draft tokens after the last token
  size_t first_logits = 0;  // row of the last token's logits; those of draft tokens follow
  size_t first_state = 0, states = 0;  // rows of states that are pooled or that drafters read
  uint32_t reports = 0;  // logits rows before first_logits, for reports of the next prompt tokens
  std::vector<uint32_t> kept = {};          // with draft tokens: rows to commit
  std::vector<WrittenTokens> written = {};  // with draft tokens: the answer's new tokens
  std::exception_ptr failure = {};          // thrown by its writer
};
// An answer whose next token can be chosen, from the logits after its last token.
struct StepDraw {
  RunningJob* running;
  size_t answer;
  std::span<float> logits;
  std::vector<WrittenTokens> written;
  std::exception_ptr failure = {};  // thrown by its writer
};

// Returns the tokens of the step whose hidden states are pooled or read by drafters, as indices in
// the batch. Sets first_state and states of each work.
std::vector<uint32_t> states_of(std::span<StepWork> work);
// Shows the states that a step has committed to drafters that read states. first: the position of
// the first committed token. Returns what a drafter threw, as Speculator::see.
std::exception_ptr show_states(const StepWork& one, uint32_t first,
                               const model::Executor& executor);
// Adds states to the job's pool; once all have been added, sets the outcome's embedding. states:
// [tokens of states_of][dim].
void pool_states(const StepWork& one, std::span<const float> states, const model::Model& model);

}  // namespace kvick::engine
