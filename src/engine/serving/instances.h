#pragma once
// Several instances of one model, each on its own cores (BMC's BMC_MI; docs/adr/0021-instances.md).
// They share weights, tokenizer, prefix files and the memory limit. Each has its own threads,
// scheduler and rows. A job goes to the instance that will finish it first: the one with the fewest
// tokens to compute for its earlier jobs and for the part of this prompt that it has not cached.

#include "engine/prefix/prompt_index.h"
#include "engine/serving/engine_thread.h"
#include "engine/sharing/memory_share.h"

namespace kvick::engine {

class Instances final : public Service {
 public:
  // Makes one instance for each team. The limits of the options apply to all instances together.
  // Errors: those of EngineThread::make; more teams than PromptIndex::kMostInstances.
  static base::Result<std::unique_ptr<Instances>> make(Engine& engine,
                                                       const EngineThreadOptions& options,
                                                       std::span<const base::Team> teams);
  // Cancels all jobs; on_end of each is called.
  ~Instances() override;

  base::Result<JobId, Refusal> submit(Job job) override;
  std::optional<Refusal> refuses_now() override;
  void cancel(JobId job) override;
  void flush() override;
  Metrics metrics() const override;
  std::vector<Metrics> instances() const override;
  CacheState cache() const override;
  uint32_t context() const override { return schedulers_.front()->context(); }
  void drain();
  // Waits until no job is left.
  void wait();

  // Tokens that an answer counts for in its instance's load, at most: its length is not known in
  // advance.
  static constexpr uint64_t kAnswerTokens = 128;

 private:
  Instances(std::vector<std::unique_ptr<Engine>> engines, std::shared_ptr<MemoryShare> memory);
  // An instance that a job may go to.
  struct Placement {
    size_t instance = 0;
    uint64_t tokens = 0;  // that it would compute for this job
  };
  // Returns all instances, ordered by the tokens of their load and of this job, fewest first.
  std::vector<Placement> choices_for(const Job& job) const;
  base::Result<JobId, Refusal> submit_to(const Placement& choice, const Job& job);
  void begin(const Placement& choice);
  void end(const Placement& choice);

  std::vector<std::unique_ptr<Engine>> engines_;
  std::shared_ptr<MemoryShare> memory_;
  mutable std::mutex mutex_;
  PromptIndex prompts_;
  // By instance: tokens of its current jobs, and of all jobs so far.
  std::vector<uint64_t> load_, given_;
  uint64_t refused_ = 0;
  // Destroyed first, since their jobs call end() of this object.
  std::vector<std::unique_ptr<EngineThread>> schedulers_;
};

}  // namespace kvick::engine
