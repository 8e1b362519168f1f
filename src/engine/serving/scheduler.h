#pragma once
// Runs many jobs at once, step by step. Each step computes one token of every growing answer and a
// share of the waiting prompts, in one forward per store (iteration-level scheduling, Orca; chunked
// prefill, Sarathi). Jobs start in the order of priority and arrival. When memory runs out, a job
// is preempted and continues later. A job's tokens never depend on what else runs. One thread uses
// a scheduler, except where a function says otherwise. Larger than a header should be because it
// declares what eight files define, each below the file's name.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/store_set.h"
#include "engine/prefix/prefix_loader.h"
#include "engine/reuse/known_texts.h"
#include "engine/serving/running_job.h"
#include "engine/serving/scheduler_options.h"
#include "engine/serving/step_work.h"
#include "engine/sharing/pace.h"
#include "engine/sharing/preemption.h"
#include "engine/speculation/speculation.h"
#include "model/core/executor.h"

namespace kvick::engine {

// Returns why rows of this model and store cannot be moved (ReuseOptions::shift), as a clause;
// empty if they can.
std::string why_not_moved(const Engine& engine, kv::Store& store);

class Scheduler {
 public:
  // Errors: what Engine::make_store and Speculation::prepare refuse.
  static base::Result<std::unique_ptr<Scheduler>> make(Engine& engine,
                                                       const SchedulerOptions& options);
  ~Scheduler();

  // Returns why a job can never run here, whatever the load; none if it can. On any thread.
  std::optional<Refusal> refuses(const Job& job) const;
  // Adds a job that refuses() accepts. The second form takes a list of one job and allocates
  // nothing before it can end the job with an error.
  void add(JobId id, Job job);
  void add(RunningJobs one) noexcept;
  void cancel(JobId id) noexcept;
  void cancel_all() noexcept;
  // Evicts all cached rows, including the draft model's.
  void flush() noexcept;
  // Advances all jobs by one step. Returns false if there is no job. An exception, also one of a
  // job's callback, ends only the jobs that it concerns: see scheduler_jobs.cc.
  bool step() noexcept;
  // The two halves of step(): begin_step() admits jobs; finish_step() computes, which takes nearly
  // all of the time.
  void begin_step() noexcept;
  bool finish_step() noexcept;

  uint32_t waiting_jobs() const noexcept;  // jobs that were never admitted
  uint64_t begun_jobs() const noexcept { return counts_.queue.count(); }
  Metrics metrics() const;
  CacheState state() const;
  // Both on any thread.
  TierCounts file_counts() const;
  TierCounts store_counts() const;

 private:
  Scheduler(Engine& engine, const SchedulerOptions& options, StoreSet stores);

  double order_of(const Job& job, double arrived) const;
  KvOptions kind_of(const Job& job) const;
  void admit() noexcept;
  void open(RunningJob& running);
  void open_answer(RunningJob& running, AnswerSequence& answer);
  void count_opened(RunningJob& running);

  // scheduler_rows.cc
  PrefixOwner owner_of(const Job& job) const;
  uint32_t reusable_tokens(const RunningJob& running) const;
  bool waits_for_a_prompt(const RunningJob& running) const;
  void ask_tiers(RunningJob& running);
  void start_loading(RunningJob& running, uint32_t known);
  bool finish_loading(RunningJob& running);
  bool take_loaded() noexcept;
  void keep_rows(const StepWork& one);
  void keep_state(const RunningJob& running, const AnswerSequence& answer) const;
  void keep_rest(RunningJob& running);

  // scheduler_moves.cc
  void plan_moves(RunningJob& running);
  void take_moves(RunningJob& running);
  uint32_t move_run(RunningJob& running, const KnownRun& run);
  void remember(const RunningJob& running, const AnswerSequence& answer) noexcept;

  Candidate candidate_of(const RunningJob& running) const;
  bool make_way(const StoreKind& kind, const kv::Shortage& shortage);
  RunningJob& victim(std::span<RunningJob* const> jobs) const;
  void preempt(RunningJob& running);
  void evict(RunningJob& running) noexcept;
  void close_answer(const RunningJob& running, AnswerSequence& answer) noexcept;

  // scheduler_jobs.cc
  void begin(RunningJob& running);
  void drop_rows(RunningJob& running) noexcept;
  void end(RunningJob& running, std::optional<Refusal> error) noexcept;
  bool tell_end(RunningJob& running) noexcept;
  void tell_ends() noexcept;
  void end_pooled() noexcept;
  void fail(RunningJob& running, std::exception_ptr why) noexcept;
  void fail_marked() noexcept;
  bool run_or_fail(StoreKind& kind) noexcept;
  void fail_step(StoreKind& kind, const std::exception_ptr& why) noexcept;
  void renew_stores() noexcept;
  void report(const std::exception_ptr& why) const noexcept;

  // scheduler_memory.cc
  uint32_t headroom_of(const RunningJob& one, const AnswerSequence& answer) const;
  uint64_t growth_of(const RunningJob& one) const;
  bool fits(const RunningJob& running, std::optional<uint64_t>& growth);
  uint64_t available_bytes(const Rank& rank) const;
  bool others_run_or_want(const Rank& rank) const;
  bool wait_for_others(const RunningJob& running, uint64_t bytes);
  void make_room(const StoreKind& kind, std::span<const StepWork> work);
  uint64_t shrink_oldest();
  void give_to_others();
  void tell_others();
  // Forks a sequence. Evicts cached rows, then the draft model's, if there is no room.
  base::Result<kv::SeqId, kv::Shortage> fork(StoreKind& kind, kv::SeqId from);
  void preempt_or_end(RunningJob& running, const kv::Shortage& shortage);
  static Refusal refusal_of(const kv::Shortage& shortage);

  // scheduler_step.cc
  bool run(StoreKind& kind);
  std::vector<StepWork> plan(const StoreKind& kind, uint32_t most_prompt) const;
  base::Result<std::vector<RunningJob*>, kv::Shortage> compute_all(StoreKind& kind,
                                                                   std::vector<StepWork>& work);
  void plan_answers(RunningJob& running, std::vector<StepWork>& work) const;
  void plan_prompt(RunningJob& running, uint32_t& left, std::vector<StepWork>& work) const;
  void plan_text(RunningJob& running, uint32_t& left, std::vector<StepWork>& work) const;
  std::vector<uint32_t> wanted_by(std::span<StepWork> work);
  void settle(std::span<StepWork> work, std::span<RunningJob* const> lost);
  std::vector<RunningJob*> lost_jobs(const StoreKind& kind) const;
  void end_lost(std::span<RunningJob* const> lost);
  void take_rows(const StepWork& one);
  void report_prompt(const StepWork& work);
  bool fork_answers(RunningJob& running);
  void draw(std::vector<StepDraw>& draws);
  void take(RunningJob& running, std::span<StepDraw> draws);

  // scheduler_state.cc
  uint64_t waiting_tokens() const;
  uint64_t tokens_ahead_of(const RunningJob& running) const;
  void count_step(std::span<const StepWork> work, double began);

  // scheduler_drafts.cc
  std::unique_ptr<Speculator> speculator_of(const Job& job, std::shared_ptr<PromptMatches> prompt);
  void propose(std::span<StepWork> work);
  void propose(StepWork& one, const PlainStep& plain);
  void verify_drafts(std::span<StepWork> work);

  // scheduler_search.cc
  void search(RunningJob& running, std::span<const StepDraw> draws);
  void go_on_with(RunningJob& running, std::span<const Continuation> live);
  void end_search(RunningJob& running);

  Engine& engine_;
  SchedulerOptions options_;
  StoreSet stores_;
  MemoryAsk wanted_;  // memory wanted from other instances in this step
  PrefixLoader tiers_;
  KnownTexts texts_;  // of sequences that were closed, with ReuseOptions::shift
  model::Executor executor_;
  Pace pace_;
  base::CrashNotes::Engine noted_;
  Speculation speculation_;
  std::optional<Token> turn_token_;  // see turn_token_of
  RunningJobs waiting_, running_;    // ordered by rank
  RunningJobs ended_;                // jobs whose on_end threw
  std::vector<float> fork_logits_;   // [answers that are forked in this step][vocab]
  Metrics counts_;
};

}  // namespace kvick::engine
