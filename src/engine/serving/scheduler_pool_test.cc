// Jobs with a pooling kind, which turn their prompts into one vector.

#include <gtest/gtest.h>
#include <list>
#include <numeric>

#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

using test::Heard;
using test::job_of;
using test::listen;
using test::run_all;

constexpr Pooling kKinds[] = {Pooling::kLast, Pooling::kMean, Pooling::kCls};

std::vector<Token> prompt_of(uint32_t tokens, uint32_t seed = 0) {
  std::vector<Token> prompt(tokens);
  for (uint32_t t = 0; t < tokens; ++t)
    prompt[t] = static_cast<Token>(5 + (t * 7 + seed * 31) % 400);
  return prompt;
}

Job pooled(std::vector<Token> prompt, Pooling kind) {
  Job job;
  job.prompt = std::move(prompt);
  job.pooling = kind;
  return job;
}

KvOptions kv_of(const std::string& spec) { return parse_kv_options(spec, "").value(); }

// The slow twin: computes all tokens in one step of a store of their own, and averages the pooled
// states.
std::vector<float> in_one_step(Engine& engine, const Job& job, const std::string& spec) {
  const auto store = std::move(engine.make_store(kv_of(spec))).value();
  model::Executor executor = engine.make_executor();
  const model::Slot slot = {.seq = store->open({}).seq,
                            .past = 0,
                            .tokens = job.prompt,
                            .parents = {},
                            .role = engine.prompt_role(kv_of(spec))};
  auto step = executor.begin(*store, {.slots = {&slot, 1}}).value();
  std::vector<uint32_t> every(job.prompt.size());
  std::iota(every.begin(), every.end(), 0U);
  step.want_states(every);
  step.forward({});
  const size_t width = engine.model().config().dim, tokens = every.size();
  const size_t first = *job.pooling == Pooling::kLast ? tokens - 1 : 0;
  const size_t end = *job.pooling == Pooling::kCls ? 1 : tokens;
  std::vector<float> mean;
  for (size_t i = 0; i < width; ++i) {
    double sum = 0;
    for (size_t t = first; t < end; ++t) sum += executor.states()[t * width + i];
    mean.push_back(static_cast<float>(sum / static_cast<double>(end - first)));
  }
  return mean;
}

struct Case {
  const char* spec;
  uint32_t step_tokens;
};

std::unique_ptr<Scheduler> scheduler_with(Engine& engine, const Case& how, uint32_t tokens = 0) {
  SchedulerOptions options;
  options.kv = kv_of(how.spec);
  options.most_step_tokens = how.step_tokens;
  options.headroom_tokens = 2;
  if (tokens != 0)
    options.kv_bytes = tokens * engine.make_store(options.kv).value()->shape().token_bytes();
  return std::move(Scheduler::make(engine, options)).value();
}

class PooledJobs : public testing::TestWithParam<Case> {};

TEST_P(PooledJobs, GiveTheVectorOfOneStepHoweverTheirPromptsAreCutAndWhateverRunsBeside) {
  const auto engine = tiny_engine();
  const auto scheduler = scheduler_with(*engine, GetParam());
  std::list<Heard> heard;
  std::vector<Job> jobs;
  uint64_t next = 1;
  for (const uint32_t tokens : {1, 2, 33, 90})
    for (const Pooling kind : kKinds) jobs.push_back(pooled(prompt_of(tokens, tokens), kind));
  for (const Job& one : jobs) {
    Job job = one;
    listen(job, heard.emplace_back());
    EXPECT_FALSE(scheduler->refuses(job).has_value());
    scheduler->add(JobId{next++}, std::move(job));
    if (next % 4 != 0) continue;
    Job answer = job_of(prompt_of(9, 3), 12);
    scheduler->add(JobId{next++}, std::move(answer));
  }
  run_all(*scheduler);
  auto answer = heard.begin();
  for (const Job& job : jobs) {
    ASSERT_TRUE(answer->outcome.has_value());
    EXPECT_FALSE(answer->outcome->error.has_value());
    EXPECT_EQ(answer->outcome->embedding, in_one_step(*engine, job, GetParam().spec));
    EXPECT_EQ(answer->outcome->prompt_tokens, job.prompt.size());
    EXPECT_EQ(answer->outcome->generated_tokens, 0u);
    EXPECT_EQ(answer->pieces, 0u);
    ++answer;
  }
  EXPECT_EQ(scheduler->metrics().kv.sequences, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, PooledJobs,
                         testing::Values(Case{"virtual", 512}, Case{"virtual", 7},
                                         Case{"paged:block=4", 512}, Case{"paged:block=4", 5},
                                         Case{"bmc:r=16", 16}),
                         [](const auto& one) { return "Case" + std::to_string(one.index); });

// Answers of a higher priority take the memory, and the prompt is read again once they have ended.
TEST(PooledJob, GivesTheSameVectorThoughItsRowsWereLost) {
  const auto engine = tiny_engine();
  for (const Pooling kind : {Pooling::kLast, Pooling::kMean}) {
    const Case how = {"paged:block=2", 2};
    const auto scheduler = scheduler_with(*engine, how, 180);
    for (uint32_t i = 1; i <= 4; ++i) scheduler->add(JobId{i}, job_of(prompt_of(10, i), 30));
    Heard heard;
    Job job = pooled(prompt_of(120, 9), kind);
    job.priority = -1;
    const std::vector<float> expected = in_one_step(*engine, job, how.spec);
    listen(job, heard);
    scheduler->add(JobId{5}, std::move(job));
    run_all(*scheduler);
    EXPECT_GT(scheduler->metrics().recomputations, 0u);
    EXPECT_EQ(scheduler->metrics().finished, 5u);
    ASSERT_TRUE(heard.outcome.has_value());
    EXPECT_EQ(heard.outcome->embedding, expected);
  }
}

TEST(PooledJob, TakesCachedRowsWhereTheirStatesAreNotNeeded) {
  const auto engine = tiny_engine();
  const Case how = {"paged:block=4", 512};
  const auto scheduler = scheduler_with(*engine, how);
  const auto run = [&](Pooling kind) {
    Heard heard;
    Job job = pooled(prompt_of(50), kind);
    const std::vector<float> expected = in_one_step(*engine, job, how.spec);
    listen(job, heard);
    scheduler->add(JobId{1}, std::move(job));
    run_all(*scheduler);
    EXPECT_EQ(heard.outcome->embedding, expected);
    return heard.outcome->cached_tokens;
  };
  EXPECT_EQ(run(Pooling::kLast), 0u);
  EXPECT_EQ(run(Pooling::kLast), 49u);  // all but the one whose state is the vector
  EXPECT_EQ(run(Pooling::kMean), 0u);
  EXPECT_EQ(run(Pooling::kCls), 0u);
}

TEST(PooledJob, IsRefusedWhereItCouldNotEndWithAVector) {
  const auto engine = tiny_engine();
  const auto scheduler = scheduler_with(*engine, {"virtual", 512});
  Job job = pooled(prompt_of(5), Pooling::kMean);
  EXPECT_FALSE(scheduler->refuses(job).has_value());
  Job several = job, ranked = job, empty = job;
  several.choices = 2;
  ranked.pooling = Pooling::kRank;
  empty.prompt.clear();
  for (const Job& one : {several, ranked, empty}) {
    const auto refusal = scheduler->refuses(one);
    ASSERT_TRUE(refusal.has_value());
    EXPECT_EQ(refusal->why, Refusal::Why::kInvalid);
  }
  EXPECT_NE(scheduler->refuses(ranked)->message.find("--pooling"), std::string::npos);
}

TEST(PooledJob, IsCancelledAsOthersAre) {
  const auto engine = tiny_engine();
  const auto scheduler = scheduler_with(*engine, {"virtual", 4});
  Heard heard;
  Job job = pooled(prompt_of(60), Pooling::kMean);
  listen(job, heard);
  scheduler->add(JobId{7}, std::move(job));
  scheduler->step();
  scheduler->cancel(JobId{7});
  ASSERT_TRUE(heard.outcome.has_value());
  EXPECT_TRUE(heard.outcome->embedding.empty());
  EXPECT_EQ(scheduler->metrics().kv.sequences, 0u);
}

}  // namespace
}  // namespace kvick::engine
