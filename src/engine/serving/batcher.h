#pragma once
// Many jobs at once, one step after the other: each step takes one token of every answer that
// grows and a share of the prompts that wait, in one forward per store (iteration-level
// scheduling, Orca; chunked prefill, Sarathi). Jobs start in the order of their priority and
// arrival; when memory runs out one gives way and comes back later. A job's tokens are the same
// whatever happens beside it. For one thread.

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/core/store_set.h"
#include "engine/prefix/file_tier.h"
#include "engine/serving/batcher_options.h"
#include "engine/serving/group.h"
#include "engine/sharing/pace.h"
#include "engine/sharing/preemption.h"
#include "engine/speculation/speculation.h"
#include "model/core/executor.h"

namespace kvick::engine {

class Batcher {
 public:
  // Errors: what Engine::make_store and Speculation::prepare refuse.
  static base::Result<std::unique_ptr<Batcher>> make(Engine& engine, const BatcherOptions& options);
  ~Batcher();

  // Why a job cannot be taken; what is the same at any time.
  std::optional<Refusal> refuses(const Job& job) const;
  // Takes a job that refuses() lets through. A list of one: allocates nothing before it can end it.
  void add(JobId id, Job job);
  void add(Groups one) noexcept;
  void cancel(JobId id) noexcept;
  void cancel_all() noexcept;
  // Gets all jobs on by a step. False if there is none. What is thrown meanwhile, by a callback of
  // a job too, ends the jobs that it concerns: see batcher_jobs.cc.
  bool step() noexcept;

  uint32_t waiting_jobs() const noexcept;  // those that have never run
  Metrics metrics() const;
  CacheState state() const;
  FileCounts file_counts() const { return files_.counts(); }  // on any thread

 private:
  Batcher(Engine& engine, const BatcherOptions& options, StoreSet stores);

  // What a step does for one sequence.
  struct Work {
    Group* group;
    size_t lane;
    uint32_t tokens;
    bool logits;              // the last of them is the lane's last
    Guesses guesses = {};     // behind it
    size_t first_logits = 0;  // row of the last token's; those of guesses follow
    uint32_t reports = 0;     // rows before that one, for the reports of the prompt's next tokens
    std::vector<uint32_t> kept = {};    // with guesses: of the last token and them
    std::vector<Written> written = {};  // with guesses: what came of them
    std::exception_ptr failure = {};    // thrown by its writer
  };
  // A lane that knows the logits behind its last token.
  struct Draw {
    Group* group;
    size_t lane;
    std::span<float> logits;
    std::vector<Written> written;
    std::exception_ptr failure = {};  // thrown by its writer
  };

  double order_of(const Job& job, double arrived) const;
  KvOptions kind_of(const Job& job) const;
  void admit() noexcept;
  bool fits(const Group& group);
  void open(Group& group);
  void count_opened(Group& group);
  bool finish_loading(Group& group);
  bool take_loaded() noexcept;
  Candidate candidate_of(const Group& group) const;
  bool make_way(const Shelf& shelf, const kv::Shortage& shortage);
  Group& victim(std::span<Group* const> groups) const;
  void preempt(Group& group);
  void evict(Group& group) noexcept;
  void close_lane(const Group& group, Lane& lane) noexcept;

  // batcher_jobs.cc
  void begin(Group& group);
  void drop_rows(Group& group) noexcept;
  void end(Group& group, std::optional<Refusal> error) noexcept;
  bool tell_end(Group& group) noexcept;
  void tell_ends() noexcept;
  void fail(Group& group, std::exception_ptr why) noexcept;
  void fail_marked() noexcept;
  bool run_or_fail(Shelf& shelf) noexcept;
  void fail_step(Shelf& shelf, const std::exception_ptr& why) noexcept;
  void renew_stores() noexcept;
  void report(const std::exception_ptr& why) const noexcept;

  // batcher_memory.cc
  uint64_t available_bytes(const Rank& rank) const;
  bool others_have_any() const;
  bool wait_for_others(const Group& group, uint64_t bytes);
  void give_to_others();
  void tell_others();
  void preempt_or_end(Group& group, const kv::Shortage& shortage);

  // batcher_step.cc
  bool run(Shelf& shelf);
  uint64_t waiting_tokens() const;
  std::vector<Work> plan(const Shelf& shelf, uint32_t most_prompt) const;
  base::Result<std::vector<Group*>, kv::Shortage> compute_all(Shelf& shelf,
                                                              std::vector<Work>& work);
  void plan_answers(Group& group, std::vector<Work>& work) const;
  void plan_prompt(Group& group, uint32_t& left, std::vector<Work>& work) const;
  std::vector<uint32_t> wanted_by(std::span<Work> work);
  void count_step(std::span<const Work> work, double seconds);
  void settle(std::span<Work> work, std::span<Group* const> lost);
  std::vector<Group*> lost_groups(const Shelf& shelf) const;
  void end_lost(std::span<Group* const> lost);
  void take_rows(const Work& one);
  void report_prompt(const Work& work);
  bool fork_lanes(Group& group);
  void draw(std::vector<Draw>& draws);
  void take(Group& group, std::span<Draw> draws);

  // batcher_guesses.cc
  std::unique_ptr<Speculator> speculator_of(const Job& job);
  void guess(std::span<Work> work);
  void guess(Work& one, const PlainStep& plain);
  void verify_guesses(std::span<Work> work);

  // batcher_search.cc
  void search(Group& group, std::span<const Draw> draws);
  bool go_on_with(Group& group, std::span<const Continuation> live);
  void end_search(Group& group);

  Engine& engine_;
  BatcherOptions options_;
  StoreSet stores_;
  MemoryAsk wanted_;  // of others, in this step
  FileTier files_;
  model::Executor executor_;
  Pace pace_;
  Speculation speculation_;
  Groups waiting_, running_;        // by order
  Groups ended_;                    // whose on_end has thrown
  std::vector<float> fork_logits_;  // [lanes that are forked in this step][vocab]
  Metrics counts_;
};

}  // namespace kvick::engine
