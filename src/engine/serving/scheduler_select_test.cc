// Jobs with a policy that chooses which rows are read.

#include <gtest/gtest.h>
#include <list>

#include "engine/artifacts/predictor_file.h"
#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

using test::alone;
using test::Heard;
using test::job_of;
using test::listen;
using test::run_all;
using test::scheduler_of;

std::vector<Token> prompt_of(uint32_t tokens) {
  std::vector<Token> prompt;
  for (uint32_t i = 0; i < tokens; ++i) prompt.push_back(static_cast<Token>((i * i * 3 + 5) % 400));
  return prompt;
}

const char* const kPolicies[] = {"quest:budget=24,page=4,dense_layers=1",
                                 "sparq:budget=20,recent=4",
                                 "clusters:budget=20,recent=4,cluster=2,block=16",
                                 "streaming:budget=20",
                                 "h2o:budget=20",
                                 "scissorhands:budget=24,drop=6,recent=4",
                                 "none"};

void expect_together_as_alone(std::span<const char* const> policies) {
  const auto engine = tiny_engine(128);
  const auto scheduler = scheduler_of(*engine, "paged:block=4");
  std::list<Heard> heard;
  std::vector<Job> jobs;
  uint64_t next = 1;
  for (const char* policy : policies)
    for (const uint32_t tokens : {40u, 43u}) {
      Job job = job_of(prompt_of(tokens), 30);
      job.kv = parse_kv_options("", "", "", policy).value();
      EXPECT_FALSE(scheduler->refuses(job).has_value()) << policy;
      jobs.push_back(job);
      listen(job, heard.emplace_back());
      scheduler->add(JobId{next++}, std::move(job));
    }
  run_all(*scheduler);
  auto one = heard.begin();
  for (const Job& job : jobs) {
    ASSERT_TRUE(one->outcome.has_value());
    EXPECT_FALSE(one->outcome->error.has_value());
    EXPECT_EQ((one++)->tokens[0], alone(*engine, job, 0, *job.kv).tokens)
        << kv_select_text(*job.kv);
  }
}

TEST(SchedulerSelect, JobsOfEveryPolicyAreAnsweredTogetherAsAlone) {
  expect_together_as_alone(kPolicies);
}

// Apart from the others, because policies that forget depend on how a prompt is divided: all of
// these prompts fit into one step.
TEST(SchedulerSelect, JobsWhoseLastQueriesChooseRowsAreAnsweredTogetherAsAlone) {
  expect_together_as_alone(std::vector{"snapkv:budget=24,drop=4,window=6,heads=ada",
                                       "snapkv:budget=20,drop=1,window=6",
                                       "expected:budget=24,sinks=2,recent=6,drop=4,heads=ada",
                                       "expected:budget=20,sinks=2,recent=6,drop=1", "none"});
}

// A prompt reads all rows, so its own rows do not depend on which job computed them.
TEST(SchedulerSelect, PromptsThatBeginAlikeShareRowsWhereAPolicyLeavesThemInPlace) {
  const auto engine = tiny_engine(128);
  for (const char* policy : {"quest:budget=48,page=4,dense_layers=0", "sparq:budget=44,recent=4",
                             "clusters:budget=44,recent=4,cluster=2,block=16"}) {
    SchedulerOptions options;
    options.kv = parse_kv_options("paged:block=4", "", "", policy).value();
    const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
    const Job job = job_of(prompt_of(42), 50);
    const Answer expected = alone(*engine, job, 0, options.kv);
    for (uint64_t turn = 1; turn < 4; ++turn) {
      Heard heard;
      Job asked = job;
      listen(asked, heard);
      scheduler->add(JobId{turn}, std::move(asked));
      run_all(*scheduler);
      ASSERT_TRUE(heard.outcome.has_value());
      EXPECT_EQ(heard.outcome->cached_tokens, turn == 1 ? 0u : 41u) << policy;
      EXPECT_EQ(heard.tokens[0], expected.tokens) << policy;
    }
  }
}

// A prompt attends to all rows, even if only a short piece of it is not cached. Rows of an answer,
// which attended to chosen rows, are not shared with a later prompt that repeats the answer.
TEST(SchedulerSelect, AnswersAreTheSameWhateverIsCached) {
  const auto engine = tiny_engine(256);
  for (const char* policy : {"quest:budget=24,page=4,dense_layers=0", "sparq:budget=20,recent=4",
                             "clusters:budget=20,recent=4,cluster=2,block=16"}) {
    SCOPED_TRACE(policy);
    SchedulerOptions options;
    options.kv = parse_kv_options("paged:block=4", "", "", policy).value();
    const auto answer = [&](Scheduler& scheduler, const Job& job) {
      static uint64_t next = 1;
      Heard heard;
      Job asked = job;
      listen(asked, heard);
      scheduler.add(JobId{next++}, std::move(asked));
      run_all(scheduler);
      return heard;
    };
    const auto warm = std::move(Scheduler::make(*engine, options)).value();
    Job job = job_of(prompt_of(60), 20);
    for (uint32_t turn = 0; turn < 4; ++turn) {
      const auto cold = std::move(Scheduler::make(*engine, options)).value();
      const Heard heard = answer(*warm, job), expected = answer(*cold, job);
      EXPECT_EQ(heard.tokens, expected.tokens) << turn;
      EXPECT_EQ(heard.logprobs, expected.logprobs) << turn;
      EXPECT_EQ(heard.outcome->cached_tokens, turn == 0 ? 0U : 60U + (turn - 1) * 25);
      // The next turn: the answer and a few more tokens.
      const std::vector<Token>& said = heard.tokens.at(0);
      job.prompt.insert(job.prompt.end(), said.begin(), said.end());
      for (Token token = 0; token < 5; ++token) job.prompt.push_back(30 + token);
    }
  }
}

TEST(SchedulerSelect, AnswersAreTheSameThoughMemoryRunsOut) {
  const auto engine = tiny_engine(256);
  for (const char* policy : {"quest:budget=24,page=4,dense_layers=0", "sparq:budget=20,recent=4",
                             "clusters:budget=20,recent=4,cluster=2,block=16"}) {
    SCOPED_TRACE(policy);
    SchedulerOptions options;
    options.kv = parse_kv_options("paged:block=4", "", "", policy).value();
    options.headroom_tokens = 2;
    options.kv_bytes = 220 * engine->make_store({}).value()->shape().token_bytes();
    const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
    std::list<Heard> heard;
    std::vector<Job> jobs;
    for (const uint32_t tokens : {40U, 61U, 33U, 70U}) {
      jobs.push_back(job_of(prompt_of(tokens), 50));
      Job job = jobs.back();
      listen(job, heard.emplace_back());
      scheduler->add(JobId{tokens}, std::move(job));
    }
    run_all(*scheduler);
    EXPECT_GT(scheduler->metrics().recomputations, 0U) << "memory was not scarce";
    auto one = heard.begin();
    for (const Job& job : jobs)
      EXPECT_EQ((one++)->tokens[0], alone(*engine, job, 0, options.kv).tokens);
  }
}

// A policy that forgets keeps a step's rows, and their scores, apart until the step ends.
TEST(SchedulerSelect, APromptIsReadInShorterPiecesWhereALongOneFindsNoRoom) {
  const auto engine = tiny_engine(256);
  for (const char* policy : {"snapkv:budget=24,drop=1,window=8", "h2o:budget=24",
                             "expected:budget=24,sinks=2,recent=8,drop=1"}) {
    SCOPED_TRACE(policy);
    SchedulerOptions options;
    options.kv = parse_kv_options("", "", "", policy).value();
    const auto bytes = [&](uint32_t step) {
      return engine->cost(options.kv, {.tokens = 110, .step = step}).value().fast_bytes;
    };
    options.kv_bytes = bytes(12);
    ASSERT_LT(options.kv_bytes, bytes(25));
    const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
    Heard heard;
    Job job = job_of(prompt_of(100), 10);
    ASSERT_FALSE(scheduler->refuses(job).has_value());
    listen(job, heard);
    scheduler->add(JobId{1}, std::move(job));
    run_all(*scheduler);
    ASSERT_TRUE(heard.outcome.has_value());
    EXPECT_FALSE(heard.outcome->error.has_value());
    EXPECT_EQ(heard.tokens[0].size(), 10U);
  }
}

// The rows of a prompt that is being read have their room already, however many tokens are left.
TEST(SchedulerSelect, APromptThatIsBeingReadLeavesRoomForOthersBehindItsBudget) {
  const auto engine = tiny_engine(256);
  SchedulerOptions options;
  options.kv = parse_kv_options("", "", "", "h2o:budget=24").value();
  options.most_step_tokens = 60;
  options.kv_bytes =
      2 * engine->cost(options.kv, {.tokens = 110, .sequences = 1, .step = 60}).value().fast_bytes;
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  std::list<Heard> heard;
  for (const uint64_t id : {1U, 2U}) {
    Job job = job_of(prompt_of(100), 10);
    listen(job, heard.emplace_back());
    scheduler->add(JobId{id}, std::move(job));
    scheduler->step();
    EXPECT_EQ(scheduler->metrics().running, id);
  }
  run_all(*scheduler);
  for (const Heard& one : heard) {
    ASSERT_TRUE(one.outcome.has_value());
    EXPECT_FALSE(one.outcome->error.has_value());
    EXPECT_EQ(one.tokens.at(0).size(), 10U);
  }
  EXPECT_EQ(scheduler->metrics().recomputations, 0U);
}

// Each sequence's budget follows from its own checks.
TEST(SchedulerSelect, JobsHeldToALossAreAnsweredTogetherAsAloneAndCounted) {
  const auto engine = tiny_engine(512);
  const char* const held = "auto:loss=0.0001,budget=0.125,least=8,page=4,dense_layers=0,recent=8";
  const auto scheduler = scheduler_of(*engine, "paged:block=4");
  std::list<Heard> heard;
  std::vector<Job> jobs;
  for (const uint32_t tokens : {100u, 131u}) {
    Job job = job_of(prompt_of(tokens), 300);
    job.ignore_end = true;
    job.kv = parse_kv_options("", "", "", held).value();
    jobs.push_back(job);
    listen(job, heard.emplace_back());
    scheduler->add(JobId{tokens}, std::move(job));
  }
  run_all(*scheduler);
  auto one = heard.begin();
  for (const Job& job : jobs) EXPECT_EQ((one++)->tokens[0], alone(*engine, job, 0, *job.kv).tokens);
  const Metrics metrics = scheduler->metrics();
  ASSERT_TRUE(metrics.checks.contains("quest"));
  EXPECT_GT(metrics.checks.at("quest").count, 2u * 60);
  EXPECT_GT(metrics.checks.at("quest").lost_mass, 0);
  EXPECT_LT(metrics.checks.at("quest").lost_mass, metrics.checks.at("quest").count);
}

TEST(SchedulerSelect, AJobMayChooseAsTheServiceDoesFromAFileThatTheServiceNames) {
  const auto engine = tiny_engine(128);
  SchedulerOptions options;
  options.kv = parse_kv_options("", "", "", "maple:file=/no/such.kvp").value();
  EXPECT_FALSE(Scheduler::make(*engine, options).ok());
  options.kv = parse_kv_options("", "", "", "none").value();
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  Job job = job_of({1, 2, 3}, 4);
  job.kv = parse_kv_options("", "", "", "maple:budget=0.5").value();
  const std::optional<Refusal> refusal = scheduler->refuses(job);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->message,
            "maple needs a predictor file: start with --kv-select maple:file=NAME.kvp");
}

// A burst counts what each running job will take once; one by one, each time anew.
TEST(SchedulerSelect, AdmitsOfABurstAsManyJobsAsOneByOne) {
  const auto engine = tiny_engine();
  for (const char* select : {"", "h2o:budget=6", "quest:budget=4,page=2,sinks=1,recent=2"}) {
    SCOPED_TRACE(select);
    SchedulerOptions options;
    const std::string store = std::string_view(select).starts_with("h2o") ? "" : "paged:block=4";
    options.kv = parse_kv_options(store, "", "", select).value();
    options.headroom_tokens = 2;
    const kv::Load load = {.tokens = 12, .sequences = 1, .step = 12};
    options.kv_bytes = 7 * engine->cost(options.kv, load)->fast_bytes / 2;
    const auto burst = std::move(Scheduler::make(*engine, options)).value();
    const auto apart = std::move(Scheduler::make(*engine, options)).value();
    constexpr uint32_t kJobs = 12;
    for (uint32_t i = 0; i < kJobs; ++i) {
      const Job job = job_of(std::vector<Token>(10, static_cast<Token>(3 + i)), 8);
      burst->add(JobId{i}, job);
      apart->add(JobId{i}, job);
      apart->begin_step();
    }
    burst->begin_step();
    EXPECT_EQ(burst->metrics().running, apart->metrics().running);
    EXPECT_GT(burst->metrics().running, 1u);
    EXPECT_LT(burst->metrics().running, kJobs);
    run_all(*burst);
    run_all(*apart);
  }
}

}  // namespace
}  // namespace kvick::engine
