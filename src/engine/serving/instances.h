#pragma once
// Several instances of one model on cores of their own, as BMC_MI has them: weights, tokenizer,
// prefix files and the limit on memory are one; threads, scheduler and rows each instance's own. A
// job goes where it is done first: its prompt, but for what is cached there, behind what waits
// there already.

#include "engine/prefix/prompt_index.h"
#include "engine/serving/engine_thread.h"
#include "engine/sharing/memory_share.h"

namespace kvick::engine {

class Instances final : public Service {
 public:
  // One for each team. All limits of the options are on the instances together. Errors: those of
  // EngineThread::make; more teams than PromptIndex::kMostInstances.
  static base::Result<std::unique_ptr<Instances>> make(Engine& engine,
                                                       const EngineThreadOptions& options,
                                                       std::span<const base::Team> teams);
  // Jobs that run are cancelled; each hears of its end.
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

  // Prompt tokens that a job's answer counts as in the load: its length is not known yet.
  static constexpr uint64_t kAnswerTokens = 128;

 private:
  Instances(std::vector<std::unique_ptr<Engine>> engines, std::shared_ptr<MemoryShare> memory);
  // Instances ordered by the tokens to compute before the job's first token, fewest first.
  struct Placement {
    size_t instance = 0;
    uint64_t tokens = 0;  // of the job alone
  };
  std::vector<Placement> choices_for(const Job& job) const;
  base::Result<JobId, Refusal> submit_to(const Placement& choice, const Job& job);
  void begin(const Placement& choice);
  void end(const Placement& choice);

  std::vector<std::unique_ptr<Engine>> engines_;
  std::shared_ptr<MemoryShare> memory_;
  mutable std::mutex mutex_;
  PromptIndex prompts_;
  std::vector<uint64_t> load_, given_;  // by instance: tokens of its jobs, now and ever
  uint64_t refused_ = 0;
  std::vector<std::unique_ptr<EngineThread>> schedulers_;  // ends before what its jobs report to
};

}  // namespace kvick::engine
