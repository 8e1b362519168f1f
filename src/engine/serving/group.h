#pragma once
// A job in the scheduler's hands: the sequences that answer it, run, preempted and ended together.

#include <exception>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "engine/answer/answer_writer.h"
#include "engine/answer/beams.h"
#include "engine/core/store_set.h"
#include "engine/prefix/file_tier.h"
#include "engine/serving/service.h"
#include "engine/sharing/memory_share.h"
#include "engine/speculation/speculation.h"

namespace kvick::engine {

// One answer.
struct Lane {
  uint32_t choice = 0;
  std::optional<kv::SeqId> seq;            // none: it has no rows
  uint32_t committed = 0;                  // tokens that have rows
  std::vector<Token> tokens;               // the prompt's and the answer's
  std::unique_ptr<AnswerWriter> writer;    // null for beams
  std::unique_ptr<Speculator> speculator;  // null: nothing is guessed
  double score = 0;                        // of a beam
  Filed filed;

  uint32_t length() const { return static_cast<uint32_t>(tokens.size()); }
  uint32_t pending() const { return length() - committed; }
};

// A beam that has ended.
struct Hypothesis {
  std::vector<Token> tokens;  // of the answer
  double score = 0;           // normalised by length
  bool ended = false;         // by the model, not for want of room
};

struct Group {
  JobId id{};
  Job job;
  double arrived = 0;
  double order = 0;        // higher goes first: see Batcher::order_of
  Shelf* shelf = nullptr;  // whose store holds its rows
  JobState state = JobState::kWaiting;
  std::vector<Lane> lanes;  // that go on
  std::vector<Hypothesis> hypotheses;
  // Tokens that all lanes begin with. The first lane computes them; then the others are forked from
  // it, and it is 0.
  uint32_t trunk = 0;
  // Of the prompt's tokens, if they are asked for: what is known, all of them or fewer.
  std::vector<TokenReport> prompt_reports;
  uint32_t lost_tokens = 0;          // rows that it had when it was preempted
  std::unique_ptr<Loading> loading;  // rows for its first lane; it waits for them
  bool admitted = false;             // ever
  std::optional<double> last_token;
  bool in_step = false;        // the step that runs computes tokens of it
  std::exception_ptr failure;  // what ends it once the step is over
  uint32_t tries = 0;          // at telling its end
  Outcome outcome;

  Rank rank() const { return {.order = order, .job = static_cast<uint64_t>(id)}; }
  bool beam_search() const { return job.beams > 0; }
  uint32_t sequences() const { return static_cast<uint32_t>(lanes.size()); }
  // Tokens of the prompt whose reports are yet to come; the first needs no row.
  bool reports_prompt() const {
    return job.prompt_logprobs && job.logprobs && prompt_reports.size() < outcome.prompt_tokens;
  }
  // Tokens at the front whose rows are those that a prompt of these tokens would have: all of them,
  // or the prompt's.
  uint32_t prompt_rows() const {
    return shelf->prompt_role == model::Role::kAnswer ? UINT32_MAX : outcome.prompt_tokens;
  }
  // Of the tokens that the lane's next rows are for.
  model::Role role_of(const Lane& lane) const {
    return lane.committed < outcome.prompt_tokens ? shelf->prompt_role : model::Role::kAnswer;
  }
  // Its first lane has computed what the others begin with.
  bool forks_now() const { return trunk > 0 && lanes.front().committed == trunk; }
  uint32_t longest() const;
  // How many tokens the first lane should compute for all: all of them if the lanes are equal, else
  // those that are, leaving each lane one of its own to compute.
  uint32_t common_tokens() const;
};

// A list, so that a job moves between two without allocating: it must be possible to end one that
// has failed for want of memory.
using Groups = std::list<std::unique_ptr<Group>>;

// How each of a job's answers is written.
AnswerForm form_of(const Job& job);
// A list of one, for Batcher::add.
Groups group_of(JobId id, Job job);
// Moves a group to its place in the order of `to`: of equal ones the earlier id goes first.
void move_group(const Group& group, Groups& from, Groups& to) noexcept;

}  // namespace kvick::engine
