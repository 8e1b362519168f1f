// Prompts and answers are computed with different arithmetic. Which one a token gets must depend on
// its role alone, whatever else runs, is cached or was preempted.

#include <filesystem>
#include <gtest/gtest.h>
#include <list>
#include <random>

#include "engine/prefix/prefix_files.h"
#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

namespace fs = std::filesystem;
using test::Heard;
using test::job_of;
using test::listen;
using test::run_all;

class PromptRole : public testing::Test {
 protected:
  void SetUp() override {
    if (!base::isa_supported(base::Isa::kAmx)) GTEST_SKIP() << "one arithmetic on this processor";
    engine_ = tiny_engine(512, PromptArithmetic::kTiles);
  }

  SchedulerOptions options_of(const std::string& kv, uint64_t tokens = 0) const {
    SchedulerOptions options;
    options.kv = parse_kv_options(kv, "").value();
    if (tokens != 0)
      options.kv_bytes = tokens * engine_->make_store({}).value()->shape().token_bytes();
    options.headroom_tokens = 2;
    return options;
  }
  std::list<Heard> answers(Scheduler& scheduler, std::span<const Job> jobs) const {
    std::list<Heard> heard;
    uint64_t next = 1;
    for (const Job& one : jobs) {
      Job job = one;
      listen(job, heard.emplace_back());
      scheduler.add(JobId{next++}, std::move(job));
      if (next % 3 == 0) scheduler.step();
    }
    run_all(scheduler);
    return heard;
  }
  // Runs each job in a scheduler of its own.
  std::list<Heard> alone(std::span<const Job> jobs) const {
    std::list<Heard> heard;
    for (const Job& job : jobs) {
      const auto scheduler = std::move(Scheduler::make(*engine_, options_of("virtual"))).value();
      heard.splice(heard.end(), answers(*scheduler, {&job, 1}));
    }
    return heard;
  }
  // Jobs with prompts of many lengths and a common prefix.
  static std::vector<Job> jobs_of(uint32_t count, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<Job> jobs;
    for (uint32_t i = 0; i < count; ++i) {
      std::vector<Token> prompt(1 + random() % 90);
      for (size_t t = 0; t < prompt.size(); ++t)
        prompt[t] = static_cast<Token>(t < 40 ? 10 + t : 3 + random() % 200);
      jobs.push_back(job_of(prompt, 1 + random() % 40));
      jobs.back().choices = 1 + i % 3 / 2;
      jobs.back().sampling.temperature = i % 2 == 0 ? 0.0F : 1.0F;
      jobs.back().sampling.seed = i;
    }
    return jobs;
  }
  static void expect_same(const std::list<Heard>& a, const std::list<Heard>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (auto x = a.begin(), y = b.begin(); x != a.end(); ++x, ++y) {
      EXPECT_EQ(x->tokens, y->tokens);
      EXPECT_EQ(x->logprobs, y->logprobs);
    }
  }

  std::unique_ptr<Engine> engine_;
};

TEST_F(PromptRole, AnswersEachJobAsIfItWereAlone) {
  const std::vector<Job> jobs = jobs_of(14, 1);
  const std::list<Heard> expected = alone(jobs);
  for (const char* kv : {"virtual", "bmc:r=8", "iterative", "paged:block=4", "paged:prefix=off"}) {
    SCOPED_TRACE(kv);
    const auto scheduler = std::move(Scheduler::make(*engine_, options_of(kv))).value();
    expect_same(answers(*scheduler, jobs), expected);
  }
}

TEST_F(PromptRole, AnswersTheSameThoughMemoryRunsOut) {
  const std::vector<Job> jobs = jobs_of(14, 2);
  const std::list<Heard> expected = alone(jobs);
  for (const char* kv : {"bmc:r=8", "paged:block=4", "paged:block=4,prefix=off"}) {
    SCOPED_TRACE(kv);
    const auto scheduler = std::move(Scheduler::make(*engine_, options_of(kv, 260))).value();
    expect_same(answers(*scheduler, jobs), expected);
    EXPECT_GT(scheduler->metrics().recomputations, 0u) << "memory was not scarce";
  }
}

// Two turns of a conversation: the first answer is part of the second prompt.
TEST_F(PromptRole, TakesRowsOfPromptsButNotOfAnswersForALaterPrompt) {
  std::vector<Token> prompt(40);
  for (size_t t = 0; t < prompt.size(); ++t) prompt[t] = static_cast<Token>(7 + t);
  const Job first = job_of(prompt, 30);
  const auto scheduler = std::move(Scheduler::make(*engine_, options_of("paged:block=16"))).value();
  const std::list<Heard> answer = answers(*scheduler, {&first, 1});
  const std::vector<Token>& said = answer.front().tokens.at(0);
  prompt.insert(prompt.end(), said.begin(), said.end());
  prompt.insert(prompt.end(), {5, 6, 7});
  const Job second = job_of(prompt, 20);
  const std::list<Heard> warm = answers(*scheduler, {&second, 1}), cold = alone({&second, 1});
  EXPECT_EQ(warm.front().outcome->cached_tokens, 40u);
  expect_same(warm, cold);
  // This time all of it was read as a prompt, so all of its rows can be shared.
  const std::list<Heard> again = answers(*scheduler, {&second, 1});
  EXPECT_GE(again.front().outcome->cached_tokens, 68u);
  expect_same(again, cold);
}

// Another prompt contains the text of the answer. Its rows must not be used for the answer.
TEST_F(PromptRole, ReadsAnAnswerAgainAsAnAnswerThoughItIsKnownAsAPrompt) {
  const Job job = job_of({10, 11, 12, 13, 14}, 60);
  const std::list<Heard> expected = alone({&job, 1});
  std::vector<Token> spelt = job.prompt;
  const std::vector<Token>& said = expected.front().tokens.at(0);
  spelt.insert(spelt.end(), said.begin(), said.end());
  // A job of higher priority holds those rows, and grows until the other is preempted.
  std::vector<Job> jobs = {job_of(spelt, 30), job};
  jobs[0].priority = 1;
  const auto scheduler =
      std::move(Scheduler::make(*engine_, options_of("paged:block=4", 100))).value();
  const std::list<Heard> heard = answers(*scheduler, jobs);
  EXPECT_GT(scheduler->metrics().recomputations, 0u) << "memory was not scarce";
  EXPECT_EQ(heard.back().logprobs, expected.front().logprobs);
}

TEST_F(PromptRole, BringsOnlyPromptsBackFromFiles) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("kvick-role-{}", ::getpid());
  fs::remove_all(folder);
  std::vector<Token> prompt(150);
  for (size_t t = 0; t < prompt.size(); ++t) prompt[t] = static_cast<Token>(3 + t);
  const Job job = job_of(prompt, 150);
  const std::list<Heard> expected = alone({&job, 1});
  const auto answered = [&](Engine& engine) {
    SchedulerOptions options = options_of("paged:block=16");
    options.files = std::move(PrefixFiles::open({.folder = folder})).value();
    const auto scheduler = std::move(Scheduler::make(engine, options)).value();
    std::list<Heard> heard = answers(*scheduler, {&job, 1});
    options.files->flush();
    return heard;
  };
  EXPECT_EQ(answered(*engine_).front().outcome->cached_tokens, 0u);
  const auto files = std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  EXPECT_EQ(files, 1);  // a block of 128 prompt tokens; rows of the answer are not kept
  const std::list<Heard> warm = answered(*engine_);
  EXPECT_EQ(warm.front().outcome->cached_tokens, 128u);
  expect_same(warm, expected);
  // With other arithmetic the files belong to another model.
  const auto exact = tiny_engine(512);
  EXPECT_EQ(answered(*exact).front().outcome->cached_tokens, 0u);
  fs::remove_all(folder);
}

TEST_F(PromptRole, DraftsAndBeamsAnswerTheSame) {
  std::vector<Job> jobs = jobs_of(6, 3);
  for (Job& job : jobs) job.choices = 1;
  const std::list<Heard> expected = alone(jobs);
  SchedulerOptions options = options_of("paged:block=4");
  options.spec = parse_spec_options("lookup").value();
  const auto drafting = std::move(Scheduler::make(*engine_, options)).value();
  const std::list<Heard> drafted = answers(*drafting, jobs);
  auto plain = expected.begin();
  for (const Heard& one : drafted) EXPECT_EQ(one.tokens, (plain++)->tokens);
  for (Job& job : jobs) {
    job.logprobs.reset();
    job.beams = 3;
  }
  const std::list<Heard> beams = alone(jobs);
  const auto scarce =
      std::move(Scheduler::make(*engine_, options_of("paged:block=4", 200))).value();
  auto ample = beams.begin();
  for (const Heard& one : answers(*scarce, jobs)) EXPECT_EQ(one.text, (ample++)->text);
}

TEST_F(PromptRole, ASessionAnswersAsABatcherDoes) {
  const std::vector<Job> jobs = jobs_of(4, 4);
  for (const Job& job : jobs) {
    const std::list<Heard> expected = alone({&job, 1});
    EXPECT_EQ(test::alone(*engine_, job, 0, {}).tokens, expected.front().tokens.at(0));
  }
}

TEST_F(PromptRole, IsThatOfLayersAloneWhereRowsHaveNoTiles) {
  const auto role = [](std::string_view select, std::string_view type, const Engine& engine) {
    return engine.prompt_role(parse_kv_options("", type, "", select).value());
  };
  const auto automatic = tiny_engine(512, PromptArithmetic::kAuto), exact = tiny_engine(512);
  for (const std::string_view type : {"f16", "bf16", "f32", "k=f16,v=bf16"})
    EXPECT_EQ(role("", type, *automatic), model::Role::kPrompt) << type;
  for (const std::string_view type : {"q8", "k=f16,v=q8", "mixed", "kivi4"})
    EXPECT_EQ(role("", type, *automatic), model::Role::kPromptLayers) << type;
  EXPECT_EQ(role("streaming", "", *automatic), model::Role::kPromptLayers);
  EXPECT_EQ(role("", "", *exact), model::Role::kAnswer);
}

}  // namespace
}  // namespace kvick::engine
