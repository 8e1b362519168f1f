#pragma once
// What the scheduler notes down of a step while it plans, computes and settles it.

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
  bool logits;                         // the last of them is the answer's last
  Drafts drafts = {};                  // behind it
  size_t first_logits = 0;             // row of the last token's; those of draft tokens follow
  size_t first_state = 0, states = 0;  // of the tokens whose states are pooled or drafted by
  uint32_t reports = 0;  // rows before that one, for the reports of the prompt's next tokens
  std::vector<uint32_t> kept = {};          // with draft tokens: of the last token and them
  std::vector<WrittenTokens> written = {};  // with draft tokens: what came of them
  std::exception_ptr failure = {};          // thrown by its writer
};
// An answer that knows the logits behind its last token.
struct StepDraw {
  RunningJob* running;
  size_t answer;
  std::span<float> logits;
  std::vector<WrittenTokens> written;
  std::exception_ptr failure = {};  // thrown by its writer
};

// Of all tokens of a step, those whose states jobs pool or draft by; notes where each one's will
// be.
std::vector<uint32_t> states_of(std::span<StepWork> work);
// To drafters that read states, what a step of the executor has committed from that token on.
void show_states(const StepWork& one, uint32_t first, const model::Executor& executor);
// states: [tokens of states_of][dim]. The job's outcome has its embedding once all have come.
void pool_states(const StepWork& one, std::span<const float> states, const model::Model& model);

}  // namespace kvick::engine
