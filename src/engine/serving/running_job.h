#pragma once
// A job in the scheduler: its sequences, which run, are preempted and end together.

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

// One answer and its sequence.
struct AnswerSequence {
  uint32_t choice = 0;
  std::optional<kv::SeqId> seq;            // none: it has no rows
  uint32_t committed = 0;                  // leading tokens that have rows
  std::vector<Token> tokens;               // the prompt's and the answer's
  std::unique_ptr<AnswerWriter> writer;    // null for beams, and for prompts that are pooled
  std::unique_ptr<Speculator> speculator;  // null: no draft tokens
  double score = 0;                        // of a beam: the sum of its logprobs
  FiledPrefix filed;

  uint32_t length() const { return static_cast<uint32_t>(tokens.size()); }
  uint32_t pending() const { return length() - committed; }
};

// A beam that has ended.
struct Hypothesis {
  std::vector<Token> tokens;  // of the answer
  double score = 0;           // normalised by length
  bool ended = false;         // by the model, not by a length limit
};

struct RunningJob {
  JobId id{};
  Job job;
  double arrived = 0;
  double order = 0;           // higher goes first: see Scheduler::order_of
  StoreKind* kind = nullptr;  // the store of its rows
  JobState state = JobState::kWaiting;
  std::vector<AnswerSequence> answers;  // those that have not ended
  std::vector<Hypothesis> hypotheses;
  std::optional<Pool> pool;  // with Job::pooling; kept when the job's rows are dropped
  // Leading tokens that all answers share and that only the first answer computes. The others are
  // then forked from it, which sets this to 0.
  uint32_t trunk = 0;
  // Reports of the prompt tokens so far (Job::prompt_logprobs).
  std::vector<TokenReport> prompt_reports;
  uint32_t seen = 0;            // kv::Opened::seen of its first answer
  std::vector<uint32_t> cuts;   // positions at which its prompt leaves checkpoints, ascending
  std::vector<KnownRun> moves;  // rows of earlier texts that its first answer will take
  uint32_t lost_tokens = 0;     // rows that it had when it was preempted
  // What the tiers have of its prompt; asked for while the job waits in the queue.
  std::unique_ptr<PrefixLoad> asked;
  std::unique_ptr<PrefixLoad> loading;  // rows that its first answer waits for
  bool admitted = false;                // at least once
  std::optional<double> last_token;
  bool in_step = false;        // the current step computes tokens of this job
  std::exception_ptr failure;  // exception that ends the job after the step
  uint32_t tries = 0;          // calls of on_end that threw
  JobOutcome outcome;

  Rank rank() const { return {.order = order, .job = static_cast<uint64_t>(id)}; }
  bool beam_search() const { return job.beams > 0; }
  uint32_t sequences() const { return static_cast<uint32_t>(answers.size()); }
  // Limit on the tokens of one answer.
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
  // Whether the answer's next row is that of a prompt token.
  bool reads_prompt(const AnswerSequence& answer) const {
    return answer.committed < outcome.prompt_tokens;
  }
  // Whether the first answer has computed the shared tokens, so that the others can be forked now.
  bool forks_now() const { return trunk > 0 && answers.front().committed == trunk; }
  // Chooses where the prompt leaves checkpoints, after the tokens that are cached.
  void cut_prompt(std::optional<Token> turn_token, const text::Tokenizer& tokenizer);
  // Returns the tokens of an answer up to the next checkpoint, if a step must end there; else
  // UINT32_MAX.
  uint32_t until_cut(const AnswerSequence& answer) const;
  // Returns the tokens of an answer up to the next rows of earlier texts; UINT32_MAX if there are
  // none.
  uint32_t until_move(const AnswerSequence& answer) const;
  // Whether this job will soon compute rows that `prompt` can share, enough of them for that prompt
  // to wait. With stores that resume only at checkpoints, adds a checkpoint where the two prompts
  // diverge.
  bool will_share(std::span<const Token> prompt);
  // Keeps the checkpoints after `before`, up to the answer's committed tokens.
  void keep_checkpoints(const AnswerSequence& answer, uint32_t before) const;
  // Whether an answer's state should be written to files now: after a shared prompt prefix, and
  // where the next turn of a conversation or another process will continue.
  bool files_state(const AnswerSequence& answer) const;
  uint32_t longest() const;
  // Returns how many tokens the first answer should compute for all answers: all of its tokens if
  // the answers are equal, else their common prefix, but leaving each answer at least one token to
  // compute.
  uint32_t common_tokens() const;
};

// A list, so that moving a job from one list to another allocates nothing: it must be possible to
// end a job when memory has run out.
using RunningJobs = std::list<std::unique_ptr<RunningJob>>;

// Returns how each of the job's answers is written.
AnswerForm form_of(const Job& job);
// Makes a list of one job, for Scheduler::add.
RunningJobs job_list_of(JobId id, Job job);
// Moves a job to its place in `to`, which is ordered by rank (ties: the earlier id first).
void move_job(const RunningJob& running, RunningJobs& from, RunningJobs& to) noexcept;

}  // namespace kvick::engine
