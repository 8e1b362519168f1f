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
#include "engine/prefix/prefix_loader.h"
#include "engine/reuse/known_texts.h"
#include "engine/serving/service.h"
#include "engine/sharing/memory_share.h"
#include "engine/speculation/speculation.h"

namespace kvick::engine {

// One answer.
struct AnswerSequence {
  uint32_t choice = 0;
  std::optional<kv::SeqId> seq;            // none: it has no rows
  uint32_t committed = 0;                  // tokens that have rows
  std::vector<Token> tokens;               // the prompt's and the answer's
  std::unique_ptr<AnswerWriter> writer;    // null for beams, and for prompts that are pooled
  std::unique_ptr<Speculator> speculator;  // null: nothing is drafted
  double score = 0;                        // of a beam
  FiledPrefix filed;

  uint32_t length() const { return static_cast<uint32_t>(tokens.size()); }
  uint32_t pending() const { return length() - committed; }
};

// A beam that has ended.
struct Hypothesis {
  std::vector<Token> tokens;  // of the answer
  double score = 0;           // normalised by length
  bool ended = false;         // by the model, not for want of room
};

struct RunningJob {
  JobId id{};
  Job job;
  double arrived = 0;
  double order = 0;           // higher goes first: see Scheduler::order_of
  StoreKind* kind = nullptr;  // whose store holds its rows
  JobState state = JobState::kWaiting;
  std::vector<AnswerSequence> answers;  // that go on
  std::vector<Hypothesis> hypotheses;
  std::optional<Pool> pool;  // of a job that ends with one vector; it outlives the job's rows
  // Tokens that all answers begin with. The first answer computes them; then the others are forked
  // from it, and it is 0.
  uint32_t trunk = 0;
  // Reports of the prompt's tokens, if requested: those known so far.
  std::vector<TokenReport> prompt_reports;
  uint32_t seen = 0;                    // kv::Opened, of its first answer
  std::vector<uint32_t> cuts;           // tokens behind which its prompt leaves checkpoints
  std::vector<KnownRun> moves;          // rows that its first answer will take of earlier texts
  uint32_t lost_tokens = 0;             // rows that it had when it was preempted
  std::unique_ptr<PrefixLoad> asked;    // what tiers have for it; it waits for its turn
  std::unique_ptr<PrefixLoad> loading;  // rows for its first answer; it waits for them
  bool admitted = false;                // ever
  std::optional<double> last_token;
  bool in_step = false;        // the step that runs computes tokens of it
  std::exception_ptr failure;  // what ends it once the step is over
  uint32_t tries = 0;          // at telling its end
  JobOutcome outcome;

  Rank rank() const { return {.order = order, .job = static_cast<uint64_t>(id)}; }
  bool beam_search() const { return job.beams > 0; }
  uint32_t sequences() const { return static_cast<uint32_t>(answers.size()); }
  // Of an answer.
  uint32_t most_tokens() const {
    return job.pooling ? 0 : job.max_tokens != 0 ? job.max_tokens : UINT32_MAX;
  }
  // Whether reports (logprobs) of prompt tokens are still to come.
  bool reports_prompt() const {
    return job.prompt_logprobs && job.logprobs && prompt_reports.size() < outcome.prompt_tokens;
  }
  // Leading tokens whose rows may be shared through the prefix cache: only the prompt's if rows
  // depend on the role, else all.
  uint32_t prompt_rows() const { return kind->tells_roles() ? outcome.prompt_tokens : UINT32_MAX; }
  // Whether the answer's next rows are for tokens of the prompt.
  bool reads_prompt(const AnswerSequence& answer) const {
    return answer.committed < outcome.prompt_tokens;
  }
  // Its first answer has computed what the others begin with.
  bool forks_now() const { return trunk > 0 && answers.front().committed == trunk; }
  // Chooses where its prompt leaves checkpoints, behind what its first answer need not read.
  void cut_prompt(std::optional<Token> turn_token, const text::Tokenizer& tokenizer);
  // Tokens of an answer up to where its prompt leaves the next checkpoint, if a step has to end
  // there for it.
  uint32_t until_cut(const AnswerSequence& answer) const;
  // The same up to where rows of earlier texts come next.
  uint32_t until_move(const AnswerSequence& answer) const;
  // Whether it is about to compute enough rows that a prompt with these tokens can share for that
  // prompt to wait. With stores that resume only at checkpoints it will leave one where the two
  // prompts diverge.
  bool will_share(std::span<const Token> prompt);
  // Leaves those between `before` and what is committed of an answer.
  void keep_checkpoints(const AnswerSequence& answer, uint32_t before) const;
  // Whether the committed tokens of an answer end where its state should be written to files: after
  // a shared prompt prefix, and where the next turn of a conversation or another process continues
  // it.
  bool files_state(const AnswerSequence& answer) const;
  uint32_t longest() const;
  // How many tokens the first answer should compute for all: all of them if the answers are equal,
  // else those that are, leaving each answer one of its own to compute.
  uint32_t common_tokens() const;
};

// A list, so that a job moves between two without allocating: it must be possible to end one that
// has failed for want of memory.
using RunningJobs = std::list<std::unique_ptr<RunningJob>>;

// How each of a job's answers is written.
AnswerForm form_of(const Job& job);
// A list of one, for Scheduler::add.
RunningJobs job_list_of(JobId id, Job job);
// Moves a job to its place in the order of `to`: of equal ones the earlier id goes first.
void move_job(const RunningJob& running, RunningJobs& from, RunningJobs& to) noexcept;

}  // namespace kvick::engine
