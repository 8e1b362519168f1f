// Jobs of models with layers of different kinds are answered as in a session of their own, whatever
// else runs.

#include <gtest/gtest.h>
#include <list>
#include <random>

#include "engine/core/test_mixed.h"
#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

using test::alone;
using test::Heard;
using test::job_of;
using test::listen;
using test::run_all;

class SchedulerOfMixedLayers : public testing::TestWithParam<MixedCase> {
 protected:
  std::unique_ptr<Scheduler> scheduler_of(const std::string& kv, uint64_t bytes = UINT64_MAX,
                                          const std::string& spec = "none") {
    SchedulerOptions options;
    options.kv = parse_kv_options(kv, "").value();
    options.kv_bytes = bytes;
    options.headroom_tokens = 2;  // so that memory runs out
    options.spec = parse_spec_options(spec).value();
    return std::move(Scheduler::make(*engine_, options)).value();
  }

  // Jobs with greedy and sampled answers, one or several, to prompts with a common prefix.
  static std::vector<Job> jobs() {
    std::mt19937 random(7);
    std::vector<Job> jobs;
    for (uint32_t i = 0; i < 10; ++i) {
      std::vector<Token> prompt(5 + random() % 50);
      for (size_t t = 0; t < prompt.size(); ++t)
        prompt[t] = static_cast<Token>(t < 24 ? 10 + t : 3 + random() % 200);
      Job job = job_of(prompt, 5 + random() % 40);
      job.choices = i % 3 == 2 ? 3 : 1;
      job.sampling.temperature = i % 2 == 0 ? 0.0F : 1.0F;
      job.sampling.seed = i;
      jobs.push_back(std::move(job));
    }
    return jobs;
  }

  Metrics expect_as_alone(const std::string& kv, uint64_t bytes = UINT64_MAX,
                          const std::string& spec = "none") {
    const auto scheduler = scheduler_of(kv, bytes, spec);
    std::list<Heard> heard;
    uint64_t next = 1;
    for (Job job : jobs()) {
      listen(job, heard.emplace_back());
      EXPECT_FALSE(scheduler->refuses(job).has_value());
      scheduler->add(JobId{next++}, std::move(job));
      if (next % 3 == 0) scheduler->step();
      EXPECT_LE(scheduler->metrics().kv.allocated_bytes, bytes);
    }
    run_all(*scheduler);
    auto answer = heard.begin();
    for (const Job& job : jobs()) {
      EXPECT_FALSE(answer->outcome->error.has_value()) << answer->outcome->error->message;
      for (uint32_t i = 0; i < job.choices; ++i)
        EXPECT_EQ(answer->tokens[i], alone(*engine_, job, i, {}).tokens) << kv << ' ' << spec;
      ++answer;
    }
    EXPECT_EQ(scheduler->metrics().kv.used_bytes, 0u);
    return scheduler->metrics();
  }

  // Returns about the bytes that the largest job takes alone: three answers of up to 100 tokens.
  // Forks share about half of them if blocks are shared and no window drops any.
  uint64_t scarce_bytes(const std::string& kv) const {
    const bool shares = !GetParam().windows && kv.starts_with("paged");
    const kv::Load load = {.tokens = 88, .sequences = shares ? 2U : 4U};
    return engine_->cost(parse_kv_options(kv, "").value(), load).value().fast_bytes;
  }
  uint64_t token_bytes() const { return engine_->store_info({}).token_bytes(); }

  const std::unique_ptr<Engine> engine_ = mixed_engine(GetParam().features);
};
INSTANTIATE_TEST_SUITE_P(All, SchedulerOfMixedLayers, testing::ValuesIn(mixed_cases()),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(SchedulerOfMixedLayers, AnswersEachJobAsIfItWereAlone) {
  for (const char* kv : {"virtual", "bmc:r=8", "paged:block=4", "paged:block=16,prefix=off"})
    EXPECT_EQ(expect_as_alone(kv).recomputations, 0u) << kv;
}

TEST_P(SchedulerOfMixedLayers, AnswersTheSameThoughMemoryRunsOut) {
  for (const char* kv : {"bmc:r=8", "paged:block=4", "paged:block=4,prefix=off"}) {
    const Metrics metrics = expect_as_alone(kv, scarce_bytes(kv));
    EXPECT_GT(metrics.recomputations, 0u) << kv << ": memory was not scarce";
    EXPECT_EQ(metrics.swaps, 0u) << "there are no files";
  }
}

TEST_P(SchedulerOfMixedLayers, AnswersTheSameWithDrafts) {
  for (const char* spec : {"lookup:gain=off,grow=on", "auto"}) {
    expect_as_alone("paged:block=4", UINT64_MAX, spec);
    expect_as_alone("bmc:r=8", UINT64_MAX, spec);
  }
  expect_as_alone("paged:block=4", scarce_bytes("paged:block=4"), "lookup:gain=off,grow=on");
}

TEST_P(SchedulerOfMixedLayers, FindsThePromptThatItHasReadBefore) {
  const auto scheduler = scheduler_of("paged:block=4");
  std::vector<Token> prompt;
  for (Token t = 0; t < 60; ++t) prompt.push_back(3 + t * 7 % 90);
  const Answer expected = alone(*engine_, job_of(prompt, 20), 0, {});
  for (uint64_t i = 1; i <= 3; ++i) {
    Heard heard;
    Job job = job_of(prompt, 20);
    listen(job, heard);
    scheduler->add(JobId{i}, std::move(job));
    run_all(*scheduler);
    EXPECT_EQ(heard.tokens[0], expected.tokens);
    EXPECT_EQ(heard.outcome->cached_tokens, i == 1 ? 0u : 59u) << "job " << i;
  }
}

TEST_P(SchedulerOfMixedLayers, SearchesBeamsTheSameThoughMemoryRunsOut) {
  const auto answers = [&](uint64_t bytes) {
    return test::search_beams(*scheduler_of("paged:block=4", bytes), 1);
  };
  const test::Searched ample = answers(UINT64_MAX), scarce = answers(80 * token_bytes());
  EXPECT_EQ(ample.texts, scarce.texts);
  EXPECT_EQ(ample.preempted, 0u);
  EXPECT_GT(scarce.preempted, 0u) << "memory was not scarce";
  // A single beam is the greedy answer.
  for (uint64_t i = 1; i < 6; i += 2)
    EXPECT_EQ(ample.texts[i].at(0), alone(*engine_, test::beam_job(i), 0, {}).text);
}

TEST_P(SchedulerOfMixedLayers, ShowsItsMemoryPieceByPiece) {
  const auto scheduler = scheduler_of("paged:block=4");
  scheduler->add(JobId{5}, job_of(std::vector<Token>(40, 9), 8));
  scheduler->step();
  const CacheState state = scheduler->state();
  ASSERT_EQ(state.sequences.size(), 1u);
  EXPECT_EQ(state.sequences[0].bytes,
            engine_->store_info({}).used_bytes(state.sequences[0].tokens));
  uint64_t bytes = 0;
  for (const auto& piece : state.stores[0].pieces) {
    bytes += piece.bytes;
    EXPECT_TRUE(piece.users == 0 || piece.job == 5u);
  }
  EXPECT_EQ(bytes, state.stores[0].usage.allocated_bytes);
  run_all(*scheduler);
}

}  // namespace
}  // namespace kvick::engine
