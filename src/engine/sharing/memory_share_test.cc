#include "engine/sharing/memory_share.h"

#include <deque>
#include <gtest/gtest.h>
#include <random>

#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

using test::alone;
using test::Heard;
using test::job_of;
using test::listen;

TEST(MemoryShare, HandsAnAskToEachOfTheOthersOnce) {
  MemoryShare share(100, 3);
  int woken = 0;
  share.on_ask(1, [&] { ++woken; });
  share.ask(0, {.bytes = 5, .rank = {}});
  share.ask(2, {.bytes = 7, .rank = Rank{.order = 1, .job = 3}});
  share.ask(0, {.bytes = 6, .rank = Rank{.order = 1, .job = 2}});
  EXPECT_EQ(woken, 3);
  const MemoryAsked asked = share.take_ask(1);
  EXPECT_EQ(asked.bytes, 7U);
  ASSERT_TRUE(asked.job.has_value());
  EXPECT_EQ(asked.job->rank->job, 2U) << "the earlier of equal order";
  EXPECT_EQ(asked.job->bytes, 6U) << "jobs are preempted for what that job wants";
  EXPECT_EQ(share.take_ask(1).bytes, 0U);
  EXPECT_EQ(share.take_ask(0).bytes, 7U);
  share.on_ask(1, nullptr);
  share.ask(0, {.bytes = 1, .rank = {}});
  EXPECT_EQ(woken, 3);
}

TEST(MemoryShare, PreemptsNothingForTheBytesOfAnAskForCachedRows) {
  MemoryShare share(200, 3);
  const Rank first = {.order = 2, .job = 1}, second = {.order = 1, .job = 2};
  share.ask(2, {.bytes = 100, .rank = {}});
  EXPECT_FALSE(share.take_ask(1).job.has_value());
  share.ask(2, {.bytes = 100, .rank = {}});
  share.ask(0, {.bytes = 1, .rank = first});
  share.ask(2, {.bytes = 50, .rank = second});
  MemoryAsked asked = share.take_ask(1);
  EXPECT_EQ(asked.bytes, 100U);
  EXPECT_EQ(asked.job->bytes, 1U);
  share.ask(2, {.bytes = 50, .rank = second});
  share.ask(0, {.bytes = 1, .rank = first});
  share.ask(0, {.bytes = 3, .rank = first});
  asked = share.take_ask(1);
  EXPECT_EQ(asked.job->rank->job, first.job);
  EXPECT_EQ(asked.job->bytes, 3U) << "the last ask of the same job";
}

TEST(MemoryShare, SaysWhatOthersHaveAndKeepForThoseAhead) {
  MemoryShare share(100, 3);
  EXPECT_FALSE(share.others(0, {}).run);
  share.publish(1, {.runs = false, .cached_bytes = 4, .wanted = {.bytes = 9, .rank = Rank{2, 1}}});
  share.publish(2, {.runs = false, .cached_bytes = 3, .wanted = {.bytes = 5, .rank = Rank{7, 2}}});
  share.begin_to_run(2);
  const MemoryShare::Others others = share.others(0, {.order = 5, .job = 3});
  EXPECT_TRUE(others.run);
  EXPECT_EQ(others.cached_bytes, 7U);
  EXPECT_EQ(others.wanted_bytes, 5U);
  EXPECT_FALSE(share.others(2, {}).run);
  EXPECT_EQ(share.others(2, {}).cached_bytes, 4U);
}

// Two schedulers of one engine that share memory for `tokens` rows. The test steps them in turn.
class TwoBatchers : public testing::Test {
 protected:
  void make(const std::string& kv, uint32_t tokens, uint32_t sequences = 16) {
    kv_ = parse_kv_options(kv, "").value();
    const uint64_t bytes = tokens * engine_->make_store({}).value()->shape().token_bytes();
    share_ = std::make_shared<MemoryShare>(bytes, 2);
    for (size_t i = 0; i < 2; ++i) {
      SchedulerOptions options;
      options.kv = kv_;
      options.kv_bytes = bytes;
      options.headroom_tokens = 2;
      options.max_sequences = sequences;
      options.memory = share_;
      options.member = i;
      schedulers_.push_back(Scheduler::make(*engine_, options).value());
    }
  }
  void add(size_t scheduler, Job job) {
    jobs_.push_back(job);
    listen(job, heard_.emplace_back());
    schedulers_[scheduler]->add(JobId{jobs_.size()}, std::move(job));
  }
  void run_all() {
    for (int steps = 0;; ++steps) {
      ASSERT_LT(steps, 20000) << "no end in sight";
      const bool first = schedulers_[0]->step(), second = schedulers_[1]->step();
      ASSERT_LE(share_->budget()->used(), share_->budget()->bytes());
      if (!first && !second) return;
    }
  }
  void expect_right() {
    for (size_t i = 0; i < jobs_.size(); ++i) {
      ASSERT_TRUE(heard_[i].outcome.has_value());
      EXPECT_FALSE(heard_[i].outcome->error.has_value()) << heard_[i].outcome->error->message;
      for (uint32_t choice = 0; choice < jobs_[i].choices; ++choice)
        EXPECT_EQ(heard_[i].tokens[choice], alone(*engine_, jobs_[i], choice, kv_).tokens);
    }
    for (const auto& scheduler : schedulers_) EXPECT_EQ(scheduler->metrics().kv.used_bytes, 0U);
  }
  uint64_t preempted(size_t scheduler) const {
    return schedulers_[scheduler]->metrics().recomputations;
  }

  std::unique_ptr<Engine> engine_ = tiny_engine();
  KvOptions kv_;
  std::shared_ptr<MemoryShare> share_;
  std::vector<std::unique_ptr<Scheduler>> schedulers_;
  std::vector<Job> jobs_;
  std::deque<Heard> heard_;
};

std::vector<Token> prompt_of(size_t tokens, Token first) {
  std::vector<Token> prompt(tokens, 7);
  prompt.front() = first;
  return prompt;
}

// The estimate of a job is one token too high, so that it seems not to fit. A job that is alone is
// admitted nevertheless, though the other instance keeps cached rows.
TEST_F(TwoBatchers, TryAJobThatIsAloneWhateverItIsEstimatedToTake) {
  make("paged:block=4", 64);
  add(0, job_of(prompt_of(50, 3), 2));
  run_all();
  add(1, job_of(prompt_of(63, 4), 2));
  run_all();
  expect_right();
}

TEST_F(TwoBatchers, TryAJobWithMoreAnswersThanSequencesIfItIsAlone) {
  make("paged:block=4", 128, 2);
  add(0, job_of(prompt_of(20, 3), 2));
  run_all();
  Job job = job_of(prompt_of(10, 4), 2);
  job.choices = 3;
  add(1, std::move(job));
  run_all();
  expect_right();
}

TEST_F(TwoBatchers, GiveAJobAllMemoryThatOthersOnlyKeep) {
  make("paged:block=4", 64);
  add(0, job_of(prompt_of(50, 3), 2));
  run_all();
  EXPECT_GT(schedulers_[0]->metrics().kv.cached_bytes, 0U);
  add(1, job_of(prompt_of(50, 4), 8));
  run_all();
  expect_right();
}

TEST_F(TwoBatchers, PreemptForTheJobThatIsFirstOfAll) {
  // Stores that grow by copying hold a sequence's rows twice while they copy.
  for (const auto& [kv, tokens] : {std::pair("paged:block=4", 100u), std::pair("iterative", 165u),
                                   std::pair("bmc:r=8", 170u)}) {
    SCOPED_TRACE(kv);
    schedulers_.clear(), jobs_.clear(), heard_.clear();
    make(kv, tokens);
    Job late = job_of(prompt_of(20, 3), 50), urgent = job_of(prompt_of(20, 4), 60);
    urgent.priority = 100;
    add(0, late);
    add(1, urgent);
    run_all();
    expect_right();
    EXPECT_GT(preempted(0), 0U);
    EXPECT_EQ(preempted(1), 0U);
  }
}

TEST_F(TwoBatchers, SayThatAJobIsTooLargeOnlyIfItIsForBoth) {
  make("paged:block=4,prefix=off", 64);
  add(0, job_of(prompt_of(40, 3), 10));
  add(1, job_of(prompt_of(60, 4), 30));
  run_all();
  EXPECT_FALSE(heard_[0].outcome->error.has_value());
  ASSERT_TRUE(heard_[1].outcome->error.has_value());
  EXPECT_EQ(heard_[1].outcome->error->why, Refusal::Why::kTooLarge);
}

TEST_F(TwoBatchers, AnswerAsIfEachJobWereAloneThoughMemoryRunsOut) {
  std::random_device device;
  const uint32_t seed = device();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (const char* kv : {"paged:block=4", "bmc:r=8"}) {
    schedulers_.clear(), jobs_.clear(), heard_.clear();
    make(kv, 260);
    for (int i = 0; i < 24; ++i) {
      Job job = job_of(prompt_of(1 + below(60), 10 + static_cast<Token>(below(4))), 1 + below(40));
      job.choices = i % 4 == 3 ? 2 : 1;
      job.sampling.temperature = i % 2 == 0 ? 0.0F : 1.0F;
      job.priority = static_cast<int32_t>(below(3));
      add(below(2), std::move(job));
      if (i % 3 == 0) schedulers_[below(2)]->step();
    }
    run_all();
    expect_right();
  }
}

}  // namespace
}  // namespace kvick::engine
