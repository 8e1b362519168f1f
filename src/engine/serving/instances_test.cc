#include "engine/serving/instances.h"

#include <atomic>
#include <condition_variable>
#include <gtest/gtest.h>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

using test::alone;
using test::Heard;
using test::job_of;
using test::listen;

// Not pinned to processors: the machine of the test may have only one.
const std::vector<base::Team> kTwo = {{.threads = 1, .processors = {}},
                                      {.threads = 2, .processors = {}}};

EngineThreadOptions options_of(uint64_t bytes = UINT64_MAX) {
  EngineThreadOptions options;
  options.batch.kv = parse_kv_options("paged:block=4", "").value();
  options.batch.kv_bytes = bytes;
  options.batch.headroom_tokens = 2;
  options.snapshot_seconds = 0;
  return options;
}

std::unique_ptr<Instances> instances_of(Engine& engine, const EngineThreadOptions& options) {
  return Instances::make(engine, options, kTwo).value();
}

std::vector<Token> prompt_of(size_t tokens, Token first) {
  std::vector<Token> prompt(tokens, 7);
  prompt.front() = first;
  return prompt;
}

uint64_t finished_by(const Instances& instances, size_t instance) {
  return instances.instances()[instance].finished;
}

TEST(Instances, AnswerJobsOfManyThreadsAsIfEachWereAloneInMemoryThatRunsOut) {
  const auto engine = tiny_engine();
  const uint64_t bytes = 200 * engine->make_store({}).value()->shape().token_bytes();
  constexpr int kThreads = 4, kJobs = 10;
  std::vector<Heard> heard(kThreads * kJobs);
  const auto job = [](int i) {
    Job one = job_of(prompt_of(3 + static_cast<size_t>(i), 1 + i % 5),
                     10 + static_cast<uint32_t>(i) % 20);
    one.sampling.temperature = i % 2 == 0 ? 0.0F : 1.0F;
    one.choices = i % 5 == 0 ? 2 : 1;
    return one;
  };
  const auto instances = instances_of(*engine, options_of(bytes));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = t * kJobs; i < (t + 1) * kJobs; ++i) {
        Job one = job(i);
        listen(one, heard[static_cast<size_t>(i)]);
        EXPECT_TRUE(instances->submit(std::move(one)).ok());
        (void)instances->cache();
      }
    });
  for (std::thread& thread : threads) thread.join();
  instances->wait();
  const Metrics metrics = instances->metrics();
  EXPECT_EQ(metrics.finished, heard.size());
  EXPECT_EQ(metrics.kv.used_bytes, 0U);
  EXPECT_LE(metrics.kv.allocated_bytes, bytes);
  EXPECT_EQ(metrics.kv_limit_bytes, bytes);
  for (size_t i = 0; i < 2; ++i) EXPECT_GT(finished_by(*instances, i), 0U);
  for (int i = 0; i < kThreads * kJobs; ++i)
    for (uint32_t choice = 0; choice < job(i).choices; ++choice)
      EXPECT_EQ(heard[static_cast<size_t>(i)].tokens[choice],
                alone(*engine, job(i), choice, {}).tokens);
}

TEST(Instances, TakeAPromptWhereItIsCachedAndOthersInTurn) {
  const auto engine = tiny_engine();
  const auto instances = instances_of(*engine, options_of());
  std::vector<Heard> heard(8);
  const auto ask = [&](size_t i, Token first) {
    Job job = job_of(prompt_of(100, first), 2);
    listen(job, heard[i]);
    ASSERT_TRUE(instances->submit(std::move(job)).ok());
    instances->wait();
  };
  ask(0, 1);
  ask(1, 2);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(finished_by(*instances, i), 1U);
  for (size_t i = 2; i < 8; ++i) {
    ask(i, 1);
    EXPECT_EQ(heard[i].outcome->cached_tokens, 99U);
  }
  EXPECT_EQ(finished_by(*instances, 0), 7U);
}

TEST(Instances, ShareAPromptOutWhereItsCacheIsBusy) {
  const auto engine = tiny_engine();
  const auto instances = instances_of(*engine, options_of());
  std::vector<Heard> heard(9);
  for (Heard& one : heard) {
    Job job = job_of(prompt_of(40, 1), 80);
    listen(job, one);
    ASSERT_TRUE(instances->submit(std::move(job)).ok());
  }
  instances->wait();
  for (size_t i = 0; i < 2; ++i) EXPECT_GE(finished_by(*instances, i), 2U);
}

TEST(Instances, EndEachJobOnceHoweverManyAreCancelledAndShowWhereTheyAre) {
  const auto engine = tiny_engine(4096);
  const auto instances = instances_of(*engine, options_of());
  std::mt19937 random(1);
  std::vector<Heard> heard(40);
  std::set<JobId> ids;
  for (Heard& one : heard) {
    Job job = job_of({1, 2, 3}, 1 + static_cast<uint32_t>(random() % 60));
    listen(job, one);
    const JobId id = instances->submit(std::move(job)).value();
    EXPECT_TRUE(ids.insert(id).second);
    if (random() % 2 == 0) instances->cancel(id);
    for (const SequenceState& sequence : instances->cache().sequences) {
      EXPECT_TRUE(ids.contains(JobId{sequence.job}));
      EXPECT_EQ(instances->cache().stores.at(sequence.store).instance, (sequence.job - 1) % 2);
    }
  }
  instances->cancel(JobId{0});
  instances->wait();
  for (const Heard& one : heard) EXPECT_TRUE(one.outcome.has_value());
  const Metrics metrics = instances->metrics();
  EXPECT_EQ(metrics.finished + metrics.cancelled, heard.size());
  EXPECT_EQ(metrics.kv.used_bytes, 0U);
}

TEST(Instances, RefuseWhatNoneCanTakeAndFinishWhatTheyHave) {
  const auto engine = tiny_engine();
  EngineThreadOptions options = options_of();
  options.most_waiting = 0;
  const auto full = instances_of(*engine, options);
  EXPECT_EQ(full->submit(job_of({}, 1)).error().why, Refusal::Why::kInvalid);
  EXPECT_EQ(full->submit(job_of({1}, 1)).error().why, Refusal::Why::kBusy);
  EXPECT_EQ(full->refuses_now()->why, Refusal::Why::kBusy);
  EXPECT_EQ(full->metrics().refused, 3U);
  const auto roomy = instances_of(*engine, options_of());
  std::vector<Heard> heard(4);
  for (Heard& one : heard) {
    Job job = job_of({1, 2, 3}, 40);
    listen(job, one);
    ASSERT_TRUE(roomy->submit(std::move(job)).ok());
  }
  EXPECT_FALSE(roomy->refuses_now().has_value());
  roomy->drain();
  EXPECT_EQ(roomy->submit(job_of({1}, 1)).error().message, "the server is shutting down");
  roomy->wait();
  for (Heard& one : heard) EXPECT_EQ(one.tokens[0].size(), 40U);
}

std::atomic<double> g_seconds = 0;
double set_seconds() { return g_seconds; }

// Holds a job's instance in each step until the test releases it.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_ || arrived_ <= allowed_; });
  }
  void wait_until_held() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ > allowed_; });
  }
  void go_on_by_a_step() {
    {
      const std::lock_guard lock(mutex_);
      ++allowed_;
      changed_.notify_all();
    }
    wait_until_held();
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0, allowed_ = 0;
  bool open_ = false;
};

struct Opener {  // opens all gates at the end, or the instances would never end
  std::span<Gate> gates;
  ~Opener() {
    for (Gate& gate : gates) gate.open();
  }
};

TEST(Instances, SayWhenTheFirstOfThemMayTakeAJobThatNoneTakesNow) {
  const auto engine = tiny_engine(4096);
  EngineThreadOptions options = options_of();
  options.batch.max_sequences = 2;
  options.batch.clock = set_seconds;
  options.most_wait_seconds = 50;
  Gate gates[2];
  const auto instances = instances_of(*engine, options);
  const Opener opener{gates};
  for (Gate& gate : gates) {  // one job per instance
    Job job = job_of({static_cast<Token>(1 + (&gate - gates)), 2, 3}, 4000);
    job.on_piece = [&gate](const AnswerPiece&) { gate.pass(); };
    ASSERT_TRUE(instances->submit(std::move(job)).ok());
  }
  for (Gate& gate : gates) gate.wait_until_held();
  // Two jobs wait for the first instance and one for the second.
  for (const Token first : {3, 4, 5})
    ASSERT_TRUE(instances->submit(job_of({first, 2, 3}, 200)).ok());
  for (const double now : {0, 0, 100})
    for (Gate& gate : gates) {
      g_seconds = now;
      gate.go_on_by_a_step();
    }
  // The job would wait 100 s or 200 s; the shorter wait counts, less the 50 s that a job may wait.
  // The second instance is asked first, since its load is lower.
  const auto refused = instances->submit(job_of({6, 2, 3}, 200));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().why, Refusal::Why::kBusy);
  EXPECT_EQ(refused.error().retry_seconds, 50);
  EXPECT_EQ(instances->refuses_now()->retry_seconds, 50);
}

TEST(Instances, KnowNoPromptThatTheyHaveRefused) {
  const auto engine = tiny_engine(512);
  EngineThreadOptions options = options_of();
  options.batch.max_sequences = options.most_waiting = 2;  // one job per instance
  Gate gates[4];
  const auto instances = instances_of(*engine, options);
  const Opener opener{gates};
  const auto instance_of = [](JobId id) { return (static_cast<uint64_t>(id) - 1) % 2; };
  const auto held = [&](std::vector<Token> prompt, Gate& gate) {
    Job job = job_of(std::move(prompt), 20);
    job.on_piece = [&gate](const AnswerPiece&) { gate.pass(); };
    return instance_of(instances->submit(std::move(job)).value());
  };
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(held({static_cast<Token>(1 + i), 2, 3}, gates[i]), i);
  for (size_t i = 0; i < 2; ++i) gates[i].wait_until_held();
  for (const Token first : {3, 4}) ASSERT_TRUE(instances->submit(job_of({first, 2, 3}, 20)).ok());
  EXPECT_FALSE(instances->submit(job_of(prompt_of(200, 5), 20)).ok());
  for (size_t i = 0; i < 2; ++i) gates[i].open();
  instances->wait();
  // Nothing of the long prompt is cached, so its instance has the higher load, and the next two
  // jobs go to the other one.
  EXPECT_EQ(held(prompt_of(200, 5), gates[2]), 0U);
  EXPECT_EQ(held(prompt_of(100, 6), gates[3]), 1U);
  gates[3].wait_until_held();
  EXPECT_EQ(instance_of(instances->submit(job_of({1, 2}, 20)).value()), 1U);
}

TEST(Instances, TellJobsOfTheirOwnEnd) {
  const auto engine = tiny_engine(4096);
  std::vector<Heard> heard(6);
  {
    const auto instances = instances_of(*engine, options_of());
    for (Heard& one : heard) {
      Job job = job_of({1, 2, 3}, 0);
      listen(job, one);
      ASSERT_TRUE(instances->submit(std::move(job)).ok());
    }
  }
  for (const Heard& one : heard) EXPECT_TRUE(one.outcome.has_value());
}

TEST(Instances, ShareTheirWeights) {
  const auto engine = tiny_engine();
  const auto other = engine->instance({.threads = 1, .processors = {}});
  EXPECT_EQ(&engine->model(), &other->model());
  EXPECT_EQ(&engine->tokenizer(), &other->tokenizer());
  EXPECT_NE(&engine->pool(), &other->pool());
  const Job job = job_of({1, 2, 3}, 20);
  EXPECT_EQ(alone(*engine, job, 0, {}).tokens, alone(*other, job, 0, {}).tokens);
}

TEST(Instances, AreNoMoreThanTheirIndexHasRoomFor) {
  const auto engine = tiny_engine();
  const std::vector<base::Team> teams(PromptIndex::kMostInstances + 1);
  EXPECT_EQ(Instances::make(*engine, options_of(), teams).error().message,
            "65 instances were asked for; there may be 64 at most");
}

}  // namespace
}  // namespace kvick::engine
