#pragma once
// Many jobs at once, one step after the other: each step takes one token of every answer that
// grows and a share of the prompts that wait, in one forward per store (iteration-level
// scheduling, Orca; chunked prefill, Sarathi). Jobs start in the order of their priority and
// arrival; when memory runs out one gives way and comes back later. A job's tokens are the same
// whatever happens beside it. For one thread. Larger than a header should be because it
// declares what eight files define, each named before its own.

#include <cstdint>
#include <memory>
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

// Why rows of this model and store cannot be moved (ReuseOptions::shift), as a clause; empty: they
// can.
std::string why_not_moved(const Engine& engine, kv::Store& store);

class Scheduler {
 public:
  // Errors: what Engine::make_store and Speculation::prepare refuse.
  static base::Result<std::unique_ptr<Scheduler>> make(Engine& engine,
                                                       const SchedulerOptions& options);
  ~Scheduler();

  // Why a job cannot be taken; what is the same at any time.
  std::optional<Refusal> refuses(const Job& job) const;
  // Takes a job that refuses() lets through. A list of one: allocates nothing before it can end it.
  void add(JobId id, Job job);
  void add(RunningJobs one) noexcept;
  void cancel(JobId id) noexcept;
  void cancel_all() noexcept;
  // Drops cached rows that no job uses.
  void flush() noexcept;
  // Gets all jobs on by a step. False if there is none. What is thrown meanwhile, by a callback of
  // a job too, ends the jobs that it concerns: see scheduler_jobs.cc.
  bool step() noexcept;
  // Its halves: the first admits jobs, the second computes, and takes nearly all of the time.
  void begin_step() noexcept;
  bool finish_step() noexcept;

  uint32_t waiting_jobs() const noexcept;  // those that have never run
  uint64_t begun_jobs() const noexcept { return counts_.queue.count(); }
  Metrics metrics() const;
  CacheState state() const;
  // On any thread.
  TierCounts file_counts() const;
  TierCounts store_counts() const;

 private:
  Scheduler(Engine& engine, const SchedulerOptions& options, StoreSet stores);

  double order_of(const Job& job, double arrived) const;
  KvOptions kind_of(const Job& job) const;
  void admit() noexcept;
  bool fits(const RunningJob& running);
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
  uint64_t available_bytes(const Rank& rank) const;
  bool others_run_or_want(const Rank& rank) const;
  bool wait_for_others(const RunningJob& running, uint64_t bytes);
  void give_to_others();
  void tell_others();
  // Rows that no sequence uses make room for it, as they do for a step.
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
  MemoryAsk wanted_;  // of others, in this step
  PrefixLoader tiers_;
  KnownTexts texts_;  // of jobs that have ended, with ReuseOptions::shift
  model::Executor executor_;
  Pace pace_;
  base::CrashNotes::Engine noted_;
  Speculation speculation_;
  std::optional<Token> turn_token_;  // of turn_token_of
  RunningJobs waiting_, running_;    // by order
  RunningJobs ended_;                // whose on_end has thrown
  std::vector<float> fork_logits_;   // [answers that are forked in this step][vocab]
  Metrics counts_;
};

}  // namespace kvick::engine
