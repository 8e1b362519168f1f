#include "engine/serving/instances.h"

#include <algorithm>

#include "engine/speculation/model_drafter.h"

namespace kvick::engine {
namespace {

template <typename T>
T share_of(T all, size_t instances) {  // rounded up
  return static_cast<T>(all / instances + (all % instances != 0 ? 1 : 0));
}

// Keeps the refusal with the shorter retry time. An unknown time (0) counts as the longest.
void keep_soonest(std::optional<Refusal>& soonest, Refusal other) {
  const auto sooner = [](const Refusal& a, const Refusal& b) {
    return a.retry_seconds > 0 && (b.retry_seconds == 0 || a.retry_seconds < b.retry_seconds);
  };
  if (!soonest || sooner(other, *soonest)) soonest = std::move(other);
}

}  // namespace

Instances::Instances(std::vector<std::unique_ptr<Engine>> engines,
                     std::shared_ptr<MemoryShare> memory)
    : engines_(std::move(engines)),
      memory_(std::move(memory)),
      prompts_(engines_.size()),
      load_(engines_.size()),
      given_(engines_.size()) {}

Instances::~Instances() = default;

base::Result<std::unique_ptr<Instances>> Instances::make(Engine& engine,
                                                         const EngineThreadOptions& options,
                                                         std::span<const base::Team> teams) {
  const size_t count = teams.size();
  if (count > PromptIndex::kMostInstances)
    return base::fail("{} instances were asked for; there may be {} at most", count,
                      PromptIndex::kMostInstances);
  std::vector<std::unique_ptr<Engine>> engines;
  for (const base::Team& team : teams) engines.push_back(engine.instance(team));
  std::unique_ptr<Instances> all(new Instances(
      std::move(engines), std::make_shared<MemoryShare>(options.batch.kv_bytes, count)));
  EngineThreadOptions own = options;
  own.batch.memory = all->memory_;
  own.batch.max_sequences = share_of(options.batch.max_sequences, count);
  own.most_waiting = share_of(options.most_waiting, count);
  own.job_stride = count;
  if (!own.batch.draft && options.batch.spec.by_model()) {
    KVICK_TRY(own.batch.draft, DraftWeights::load(engine, options.batch.spec));
  }
  for (size_t i = 0; i < count; ++i) {
    own.batch.member = i;
    own.first_job = i + 1;
    KVICK_TRY(auto scheduler, EngineThread::make(*all->engines_[i], own));
    all->schedulers_.push_back(std::move(scheduler));
  }
  return all;
}

std::vector<Instances::Placement> Instances::choices_for(const Job& job) const {
  const std::vector<uint32_t> known = prompts_.known(job.salt + job.adapter.key(), job.prompt);
  const uint64_t answer = job.pooling           ? 0
                          : job.max_tokens != 0 ? std::min<uint64_t>(job.max_tokens, kAnswerTokens)
                                                : kAnswerTokens;
  std::vector<Placement> choices;
  for (size_t i = 0; i < schedulers_.size(); ++i)
    choices.push_back(
        {.instance = i,
         .tokens = job.prompt.size() - known[i] + answer * std::max(job.choices, job.beams)});
  // Ties go to the instance that was given the fewest tokens so far, so that prompts spread over
  // all instances while none has any load.
  const auto key = [&](const Placement& one) {
    return std::pair(load_[one.instance] + one.tokens, given_[one.instance]);
  };
  std::stable_sort(choices.begin(), choices.end(),
                   [&](const Placement& a, const Placement& b) { return key(a) < key(b); });
  return choices;
}

void Instances::begin(const Placement& choice) {
  load_[choice.instance] += choice.tokens;
  given_[choice.instance] += choice.tokens;
}

void Instances::end(const Placement& choice) {
  const std::lock_guard lock(mutex_);
  load_[choice.instance] -= choice.tokens;
}

// Submits a job to the instance to whose load begin() has added it.
base::Result<JobId, Refusal> Instances::submit_to(const Placement& choice, const Job& job) {
  try {
    Job copy = job;  // another instance gets the job if this one refuses it
    // Lowers the load before the client knows of the end, so that the client's next request goes to
    // the instance that has its rows. Does so once, even if on_end throws and is called again.
    copy.on_end = [this, choice, on_end = job.on_end,
                   ended = false](const JobOutcome& outcome) mutable {
      if (!std::exchange(ended, true)) end(choice);
      if (on_end) on_end(outcome);
    };
    auto submitted = schedulers_[choice.instance]->submit(std::move(copy));
    if (!submitted.ok()) end(choice);
    return submitted;
  } catch (...) {
    end(choice);
    throw;
  }
}

base::Result<JobId, Refusal> Instances::submit(Job job) {
  std::optional<Refusal> refusal;
  std::unique_lock lock(mutex_);
  for (const Placement& choice : choices_for(job)) {
    begin(choice);
    lock.unlock();
    auto submitted = submit_to(choice, job);
    lock.lock();
    if (submitted.ok()) {
      try {  // not before: a refused job leaves no rows there
        prompts_.add(job.salt + job.adapter.key(), job.prompt, choice.instance);
      } catch (const std::bad_alloc&) {  // the job runs; only the index lacks its prompt
      }
      return *submitted;
    }
    if (submitted.error().why != Refusal::Why::kBusy) {
      refusal = std::move(submitted).error();
      break;
    }
    keep_soonest(refusal, std::move(submitted).error());
  }
  ++refused_;
  return *std::move(refusal);
}

// Counts one refusal, as submit() does for a job that all instances refuse.
std::optional<Refusal> Instances::refuses_now() {
  std::optional<Refusal> soonest;
  for (const auto& scheduler : schedulers_) {
    std::optional<Refusal> refusal = scheduler->refuses_now();
    if (!refusal) return std::nullopt;
    keep_soonest(soonest, *std::move(refusal));
  }
  const std::lock_guard lock(mutex_);
  ++refused_;
  return soonest;
}

void Instances::cancel(JobId job) {
  const uint64_t id = static_cast<uint64_t>(job);
  if (id > 0) schedulers_[(id - 1) % schedulers_.size()]->cancel(job);
}

void Instances::flush() {
  for (const auto& scheduler : schedulers_) scheduler->flush();
}

std::vector<Metrics> Instances::instances() const {
  std::vector<Metrics> all;
  for (const auto& scheduler : schedulers_) all.push_back(scheduler->metrics());
  return all;
}

Metrics Instances::metrics() const {
  Metrics all;
  for (const Metrics& one : instances()) all.add(one);
  const std::lock_guard lock(mutex_);
  all.refused = refused_;  // once per job, not once per instance that refused it
  return all;
}

CacheState Instances::cache() const {
  CacheState all;
  for (size_t i = 0; i < schedulers_.size(); ++i) {
    CacheState one = schedulers_[i]->cache();
    all.limit_bytes = one.limit_bytes;
    for (SequenceState& sequence : one.sequences) {
      sequence.store += all.stores.size();
      all.sequences.push_back(sequence);
    }
    for (StoreState& store : one.stores) {
      store.instance = i;
      all.stores.push_back(std::move(store));
    }
  }
  return all;
}

void Instances::drain() {
  for (const auto& scheduler : schedulers_) scheduler->drain();
}

// Waits twice. While the first round waits for one instance, that one may ask another instance for
// memory; the other one's metrics show this memory as held until it has given it.
void Instances::wait() {
  for (int i = 0; i < 2; ++i)
    for (const auto& scheduler : schedulers_) scheduler->wait();
}

}  // namespace kvick::engine
