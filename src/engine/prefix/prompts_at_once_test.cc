// Prompts with a common prefix that arrive at the same moment: the prefix is computed once.

#include <gtest/gtest.h>
#include <list>
#include <random>

#include "engine/prefix/prompt_cuts.h"
#include "engine/prefix/test_conversation.h"
#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

using test::alone;
using test::append;
using test::engine_of_family;
using test::Heard;
using test::job_of;
using test::listen;
using test::message_of;
using test::run_all;
using test::scheduler_of;

constexpr uint32_t kAnswer = 5;  // tokens

// Jobs that arrived before the scheduler's first step, and what they heard.
struct Arrived {
  std::vector<Job> jobs;
  std::list<Heard> heard;
};

class EqualPrompts {
 public:
  EqualPrompts(std::unique_ptr<Engine> engine, const char* kv, uint64_t bytes = UINT64_MAX)
      : engine_(std::move(engine)), kv_(kv), scheduler_(scheduler_of(*engine_, kv, bytes)) {}

  Heard& add(Job job) {
    arrived_.jobs.push_back(job);
    Heard& heard = arrived_.heard.emplace_back();
    listen(job, heard);
    scheduler_->add(JobId{arrived_.jobs.size()}, std::move(job));
    return heard;
  }
  Heard& add(const std::vector<Token>& prompt) { return add(job_of(prompt, kAnswer)); }

  // Runs all jobs. Every answer must be that of a session of its own.
  void run() {
    run_all(*scheduler_);
    auto heard = arrived_.heard.begin();
    for (const Job& job : arrived_.jobs) {
      ASSERT_TRUE(heard->outcome.has_value());
      ASSERT_FALSE(heard->outcome->error.has_value()) << heard->outcome->error->message;
      const Answer expected = alone(*engine_, job, 0, parse_kv_options(kv_, "").value());
      EXPECT_EQ(heard->tokens[0], expected.tokens);
      ++heard;
    }
  }
  // Returns the prompt tokens that were computed.
  uint64_t read() const {
    return scheduler_->metrics().step_tokens - arrived_.jobs.size() * (kAnswer - 1);
  }

  const Arrived& arrived() const { return arrived_; }
  Engine& engine() { return *engine_; }
  Scheduler& scheduler() { return *scheduler_; }

 private:
  std::unique_ptr<Engine> engine_;
  const char* kv_;
  std::unique_ptr<Scheduler> scheduler_;
  Arrived arrived_;
};

std::vector<Token> prompt_of(uint32_t common, uint32_t own, uint32_t seed) {
  std::vector<Token> prompt = message_of(3, common, 1);
  append(prompt, message_of(static_cast<Token>(400 + seed), own, seed));
  return prompt;
}

TEST(PromptsAtOnce, AreReadOnceWhereTheyBeginAlike) {
  EqualPrompts prompts(tiny_engine(512), "paged:block=4");
  for (uint32_t i = 0; i < 6; ++i) prompts.add(prompt_of(160, 10, i));
  prompts.run();
  EXPECT_EQ(prompts.read(), 160 + 6 * 10u);
  for (const Heard& heard : prompts.arrived().heard)
    EXPECT_EQ(heard.outcome->cached_tokens, &heard == &prompts.arrived().heard.front() ? 0u : 160u);
}

TEST(PromptsAtOnce, OfEqualOnesEachReadsItsLastToken) {
  EqualPrompts prompts(tiny_engine(512), "paged:block=8");
  for (uint32_t i = 0; i < 4; ++i) prompts.add(prompt_of(160, 8, 1));
  prompts.run();
  EXPECT_EQ(prompts.read(), 168 + 3u);
}

TEST(PromptsAtOnce, WithoutSharedRowsNobodyWaits) {
  EqualPrompts prompts(tiny_engine(512), "paged:block=4,prefix=off");
  for (uint32_t i = 0; i < 3; ++i) prompts.add(prompt_of(160, 10, i));
  prompts.scheduler().step();
  EXPECT_EQ(prompts.scheduler().metrics().running, 3u);
  prompts.run();
  EXPECT_EQ(prompts.read(), 3 * 170u);
}

TEST(PromptsAtOnce, OfOthersAndOfThoseWhoWantNoneAreReadForThemselves) {
  EqualPrompts prompts(tiny_engine(512), "paged:block=4");
  for (uint32_t i = 0; i < 3; ++i) {
    Job job = job_of(prompt_of(160, 10, 1), kAnswer);
    job.salt = i == 1 ? "another" : "";
    job.reuse = i != 2;
    prompts.add(std::move(job));
  }
  prompts.run();
  EXPECT_EQ(prompts.read(), 3 * 170u);
}

TEST(PromptsAtOnce, WhoWaitsHoldsNobodyUp) {
  EqualPrompts prompts(tiny_engine(1024), "paged:block=4");
  prompts.add(prompt_of(900, 4, 1));
  prompts.add(prompt_of(900, 4, 2));
  prompts.add({9, 8, 7});
  prompts.scheduler().step();
  EXPECT_EQ(prompts.scheduler().metrics().running, 2u);
  EXPECT_EQ(prompts.scheduler().metrics().waiting, 1u);
  prompts.run();
  EXPECT_EQ(prompts.read(), 900 + 2 * 4 + 3u);
}

TEST(PromptsAtOnce, WhoWaitsReadsForItselfWhenTheOtherGoes) {
  EqualPrompts prompts(tiny_engine(1024), "paged:block=4");
  Heard gone, stays;
  Job job = job_of(prompt_of(900, 4, 1), kAnswer);
  listen(job, gone);
  prompts.scheduler().add(JobId{100}, std::move(job));
  Heard& heard = prompts.add(prompt_of(900, 4, 2));
  prompts.scheduler().step();
  EXPECT_EQ(prompts.scheduler().metrics().running, 1u);
  prompts.scheduler().cancel(JobId{100});
  prompts.run();
  EXPECT_LT(heard.outcome->cached_tokens, 900u);
}

TEST(PromptsAtOnce, TheMoreImportantOneDoesNotWait) {
  EqualPrompts prompts(tiny_engine(1024), "paged:block=4");
  prompts.add(prompt_of(900, 4, 1));
  prompts.scheduler().step();
  Job job = job_of(prompt_of(900, 4, 2), kAnswer);
  job.priority = 5;
  const Heard& heard = prompts.add(std::move(job));
  prompts.scheduler().step();
  EXPECT_EQ(prompts.scheduler().metrics().running, 2u);
  prompts.run();
  EXPECT_LT(heard.outcome->cached_tokens, 900u);
}

TEST(PromptsAtOnce, AnswerTheSameThoughMemoryRunsOut) {
  const uint64_t token = tiny_engine()->make_store({}).value()->shape().token_bytes();
  uint64_t preempted = 0;
  for (const uint32_t seed : {1u, 2u, 3u}) {
    EqualPrompts prompts(tiny_engine(256), "paged:block=4", 420 * token);
    std::mt19937 random(seed);
    for (uint32_t i = 0; i < 12; ++i) {
      Job job = job_of(prompt_of(8 + 36 * (random() % 4), 1 + random() % 50, random() % 3), 20);
      job.priority = static_cast<int32_t>(random() % 3);
      prompts.add(std::move(job));
      if (random() % 2 == 0) prompts.scheduler().step();
    }
    prompts.run();
    preempted += prompts.scheduler().metrics().recomputations;
    EXPECT_EQ(prompts.scheduler().metrics().kv.used_bytes, 0u);
  }
  EXPECT_GT(preempted, 0u) << "memory was not scarce";
}

// Models whose states and windows can be resumed at checkpoints only.
class PromptsOfStatesAtOnce : public testing::TestWithParam<const char*> {
 protected:
  EqualPrompts prompts_{engine_of_family(GetParam(), 512), "paged:block=8"};
  const Token turn_ = turn_token_of(prompts_.engine()).value_or(1);
};
INSTANTIATE_TEST_SUITE_P(Families, PromptsOfStatesAtOnce,
                         testing::ValuesIn(test::families_with_states()));

TEST_P(PromptsOfStatesAtOnce, ShareTheirMessages) {
  for (uint32_t i = 0; i < 4; ++i) {
    std::vector<Token> prompt = message_of(turn_, 90, 1);
    append(prompt, message_of(turn_, 25, 10 + i));
    append(prompt, std::vector<Token>{turn_, 7, 8});
    prompts_.add(prompt);
  }
  prompts_.run();
  EXPECT_EQ(prompts_.read(), 90 + 4 * 28u);
}

TEST_P(PromptsOfStatesAtOnce, ShareAMessageUpToWhereTheyPart) {
  for (uint32_t i = 0; i < 4; ++i) {
    std::vector<Token> prompt = message_of(turn_, 90, 1);
    prompt.push_back(static_cast<Token>(400 + i));
    append(prompt, message_of(5, 25, 10 + i));
    append(prompt, std::vector<Token>{turn_, 7, 8});
    prompts_.add(prompt);
  }
  prompts_.run();
  EXPECT_EQ(prompts_.read(), 90 + 4 * 29u);
}

}  // namespace
}  // namespace kvick::engine
