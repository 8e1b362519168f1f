#include "engine/serving/scheduler.h"

#include <gtest/gtest.h>
#include <list>
#include <random>

#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

using test::alone;
using test::Heard;
using test::job_of;
using test::listen;
using test::run_all;
using test::scheduler_of;

// Jobs with prompts of many lengths and common prefixes, sampled and greedy, of one or several
// answers.
std::vector<Job> jobs_of(uint32_t count, uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  std::vector<Job> jobs;
  for (uint32_t i = 0; i < count; ++i) {
    std::vector<Token> prompt(1 + below(60));
    for (size_t t = 0; t < prompt.size(); ++t)
      prompt[t] = static_cast<Token>(t < 24 ? 10 + t + 100 * below(1 + i % 2) : 3 + below(200));
    Job job = job_of(prompt, 1 + below(40));
    job.choices = 1 + (i % 3 == 2 ? below(3) : 0);
    job.sampling.temperature = i % 2 == 0 ? 0.0F : 1.0F;
    job.sampling.seed = i;
    // What these samplers remember of the text must survive preemption.
    if (i % 6 == 1) job.sampling.mirostat = {.version = 1 + i % 4 / 2, .tau = 3};
    if (i % 6 == 3) job.sampling.dry.multiplier = 2;
    if (i % 6 == 5) job.sampling.xtc.probability = 0.5F;
    job.priority = static_cast<int32_t>(below(3));
    jobs.push_back(std::move(job));
  }
  return jobs;
}

class EveryStrategy : public testing::TestWithParam<const char*> {
 protected:
  // Runs jobs together and compares each answer with that of a session of its own.
  Metrics compare(uint64_t bytes, uint32_t seed) {
    const auto engine = tiny_engine();
    const std::string kv = GetParam();
    const auto scheduler = scheduler_of(*engine, kv, bytes);
    std::list<Heard> heard;
    std::vector<Job> jobs = jobs_of(14, seed);
    uint64_t next = 1;
    for (const Job& one : jobs) {
      Job job = one;
      listen(job, heard.emplace_back());
      EXPECT_FALSE(scheduler->refuses(job).has_value());
      scheduler->add(JobId{next++}, std::move(job));
      if (next % 3 == 0) scheduler->step();
      EXPECT_LE(scheduler->metrics().kv.allocated_bytes, bytes);
    }
    run_all(*scheduler);
    auto answer = heard.begin();
    for (const Job& job : jobs) {
      EXPECT_TRUE(answer->outcome.has_value());
      EXPECT_FALSE(answer->outcome->error.has_value());
      for (uint32_t i = 0; i < job.choices; ++i) {
        const Answer expected = alone(*engine, job, i, parse_kv_options(kv, "").value());
        EXPECT_EQ(answer->tokens[i], expected.tokens);
        EXPECT_EQ(answer->text[i], expected.text);
        EXPECT_EQ(answer->finish[i], expected.finish);
      }
      ++answer;
    }
    const Metrics metrics = scheduler->metrics();
    EXPECT_EQ(metrics.finished, jobs.size());
    EXPECT_EQ(metrics.kv.used_bytes, 0u);
    EXPECT_EQ(metrics.kv.sequences, 0u);
    return metrics;
  }
};

TEST_P(EveryStrategy, AnswersEachJobAsIfItWereAlone) {
  for (const uint32_t seed : {1u, 2u}) EXPECT_EQ(compare(UINT64_MAX, seed).recomputations, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, EveryStrategy,
                         testing::Values("virtual", "iterative", "upfront", "bmc:r=8",
                                         "paged:block=4", "paged:block=16,prefix=off"),
                         [](const auto& one) { return "n" + std::to_string(one.index); });

class Scarce : public EveryStrategy {};

TEST_P(Scarce, AnswersTheSameThoughMemoryRunsOut) {
  const auto engine = tiny_engine();
  const uint64_t token = engine->make_store({}).value()->shape().token_bytes();
  uint64_t preempted = 0;
  for (const uint32_t seed : {3u, 4u, 5u}) preempted += compare(330 * token, seed).recomputations;
  EXPECT_GT(preempted, 0u) << "memory was not scarce";
}

INSTANTIATE_TEST_SUITE_P(All, Scarce,
                         testing::Values("iterative", "bmc:r=8", "paged:block=4",
                                         "paged:block=4,prefix=off"),
                         [](const auto& one) { return "n" + std::to_string(one.index); });

TEST(Scheduler, TakesEveryAnswerOnInEachStepWhileALongPromptIsRead) {
  const auto engine = tiny_engine(1024);
  const auto scheduler = scheduler_of(*engine, "paged");
  Heard talk, read;
  Job job = job_of({1, 2, 3}, 60);
  listen(job, talk);
  scheduler->add(JobId{1}, std::move(job));
  scheduler->step();
  Job second = job_of(std::vector<Token>(900, 5), 2);
  listen(second, read);
  scheduler->add(JobId{2}, std::move(second));
  for (uint32_t written = talk.pieces; read.pieces == 0; ++written) {
    ASSERT_EQ(talk.pieces, written);
    ASSERT_TRUE(scheduler->step());
  }
  EXPECT_GT(talk.pieces, 2u) << "the prompt was read in one step";
}

TEST(Scheduler, ForksTheAnswersOfAPromptAndReadsItOnce) {
  const auto engine = tiny_engine();
  const auto scheduler = scheduler_of(*engine, "paged:block=4");
  Heard heard;
  Job job = job_of(std::vector<Token>(80, 9), 8);
  job.choices = 4;
  job.sampling.temperature = 1;
  listen(job, heard);
  scheduler->add(JobId{1}, std::move(job));
  uint64_t most = 0;
  while (scheduler->step()) most = std::max(most, scheduler->metrics().kv.allocated_bytes);
  EXPECT_EQ(heard.finish.size(), 4u);
  EXPECT_EQ(heard.outcome->prompt_tokens, 80u);
  EXPECT_EQ(heard.outcome->generated_tokens, 32u);
  EXPECT_EQ(scheduler->metrics().step_tokens, 80u + 4 * 7);
  const uint64_t token = engine->make_store({}).value()->shape().token_bytes();
  EXPECT_LE(most, (80 + 4 * 8) * token);
}

TEST(Scheduler, StartsWhatIsMoreImportantFirstAndOfEqualsWhatCameFirst) {
  const auto engine = tiny_engine();
  SchedulerOptions options;
  options.kv = parse_kv_options("paged", "").value();
  options.max_sequences = 1;
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  std::vector<int> ended;
  const int32_t priorities[] = {0, 0, 5, 0, 5};
  for (int i = 0; i < 5; ++i) {
    Job job = job_of({1, 2, 3}, 3);
    job.priority = priorities[i];
    job.on_end = [&ended, i](const JobOutcome&) { ended.push_back(i); };
    scheduler->add(JobId{static_cast<uint64_t>(i)}, std::move(job));
  }
  run_all(*scheduler);
  EXPECT_EQ(ended, (std::vector<int>{2, 4, 0, 1, 3}));
}

double now = 0;

TEST(Scheduler, LetsNobodyWaitForEverBehindTheMoreImportant) {
  const auto engine = tiny_engine();
  SchedulerOptions options;
  options.max_sequences = 1;
  options.seconds_per_priority = 10;
  options.clock = [] { return now; };
  now = 0;
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  std::vector<int> ended;
  for (int i = 0; i < 10; ++i) {
    Job job = job_of({1, 2, 3}, 1);
    job.priority = i == 0 ? 0 : 1;
    job.on_end = [&ended, i](const JobOutcome&) { ended.push_back(i); };
    scheduler->add(JobId{static_cast<uint64_t>(i)}, std::move(job));
    now += 3;
  }
  run_all(*scheduler);
  // Only jobs that came in the 10 s after it are ahead of it.
  EXPECT_EQ(ended, (std::vector<int>{1, 2, 3, 0, 4, 5, 6, 7, 8, 9}));
}

TEST(Scheduler, CountsTheTokensOfRunningAndOfWaitingJobs) {
  const auto engine = tiny_engine();
  SchedulerOptions options;
  options.max_sequences = 1;
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  scheduler->add(JobId{1}, job_of({1, 2, 3, 4}, 10));
  scheduler->add(JobId{2}, job_of({1, 2, 3}, 10));
  EXPECT_EQ(scheduler->metrics().job_tokens, 7u);
  scheduler->step();  // reads the first job's prompt and gives its first token
  EXPECT_EQ(scheduler->metrics().job_tokens, 8u);
  run_all(*scheduler);
  EXPECT_EQ(scheduler->metrics().job_tokens, 0u);
}

TEST(Scheduler, FreesTheRowsOfACancelledJobAtOnce) {
  const auto engine = tiny_engine();
  const auto scheduler = scheduler_of(*engine, "bmc:r=8");
  Heard heard;
  Job job = job_of({1, 2, 3, 4}, 100);
  listen(job, heard);
  scheduler->add(JobId{7}, std::move(job));
  for (int i = 0; i < 5; ++i) scheduler->step();
  EXPECT_GT(scheduler->metrics().kv.allocated_bytes, 0u);
  scheduler->cancel(JobId{7});
  EXPECT_EQ(scheduler->metrics().kv.allocated_bytes, 0u);
  ASSERT_TRUE(heard.outcome.has_value());
  EXPECT_EQ(heard.outcome->generated_tokens, 5u);
  EXPECT_EQ(scheduler->metrics().cancelled, 1u);
  EXPECT_FALSE(scheduler->step());
  scheduler->cancel(JobId{7});  // has ended: nothing happens
}

TEST(Scheduler, AdmitsNoMoreThanWillTakeTheirWholeContextAtOnce) {
  const auto engine = tiny_engine();
  const uint64_t token = engine->make_store({}).value()->shape().token_bytes();
  const uint32_t context = engine->model().config().context;
  const auto scheduler = scheduler_of(*engine, "upfront", 2 * context * token);
  std::vector<Heard> heard(6);
  for (uint32_t i = 0; i < heard.size(); ++i) {
    Job job = job_of(std::vector<Token>(20 + i, 3), 12);
    listen(job, heard[i]);
    scheduler->add(JobId{i}, std::move(job));
  }
  run_all(*scheduler);
  for (const Heard& one : heard) EXPECT_FALSE(one.outcome->error.has_value());
  EXPECT_EQ(scheduler->metrics().recomputations, 0U);
}

TEST(Scheduler, EndsAJobThatOutgrowsAllMemoryAndOnlyThat) {
  const auto engine = tiny_engine();
  const uint64_t token = engine->make_store({}).value()->shape().token_bytes();
  const auto scheduler = scheduler_of(*engine, "paged:block=4", 48 * token);
  Heard large, small;
  Job one = job_of({1, 2, 3, 4}, 100), two = job_of({5, 6}, 20);
  listen(one, large);
  listen(two, small);
  const Job small_job = two;
  scheduler->add(JobId{1}, std::move(one));
  scheduler->add(JobId{2}, std::move(two));
  run_all(*scheduler);
  ASSERT_TRUE(large.outcome->error.has_value());
  EXPECT_EQ(large.outcome->error->why, Refusal::Why::kTooLarge);
  EXPECT_NE(large.outcome->error->message.find("free"), std::string::npos);
  EXPECT_FALSE(small.outcome->error.has_value());
  EXPECT_EQ(small.tokens[0], alone(*engine, small_job, 0, {}).tokens);
}

TEST(Scheduler, RefusesTokensOfRowsThatOnlyPadTheOutputLayer) {
  tools::Spec spec = model::tiny_spec(tools::Arch::kLlama);
  spec.unnamed = 12;  // rows of the output layer without a token, of 512
  const auto engine = engine_of(spec);
  const auto scheduler = scheduler_of(*engine, "virtual");
  Job good = job_of({5, 499}, 4);
  good.sampling.logit_bias[499] = 1;
  EXPECT_FALSE(scheduler->refuses(good).has_value());
  Job prompt = good, biased = good, stopped = good;
  prompt.prompt.push_back(500);
  biased.sampling.logit_bias[500] = 1;
  stopped.stop_tokens = {500};
  for (const Job& one : {prompt, biased, stopped}) {
    const auto refusal = scheduler->refuses(one);
    ASSERT_TRUE(refusal.has_value());
    EXPECT_NE(refusal->message.find("the vocabulary ends at 499"), std::string::npos)
        << refusal->message;
  }
}

// Beam search by its definition: all continuations of all beams, each beam with a forward of its
// own.
struct Naive {
  Engine& engine;
  struct Path {
    std::vector<Token> tokens;
    double score = 0;
  };
  std::vector<float> logits(const std::vector<Token>& tokens) const {
    const auto store = std::move(engine.make_store({})).value();
    const model::Slot slot = {
        .seq = store->open({}).seq, .past = 0, .tokens = tokens, .parents = {}};
    model::Executor executor = engine.make_executor();
    const auto last = static_cast<uint32_t>(tokens.size() - 1);
    EXPECT_TRUE(executor.run(*store, {.slots = {&slot, 1}}, {&last, 1}).ok());
    const auto out = executor.logits().first(engine.tokenizer().vocabulary().pieces.size());
    return {out.begin(), out.end()};
  }
  std::vector<Path> search(const std::vector<Token>& prompt, size_t width, uint32_t most) const {
    std::vector<Path> beams = {{prompt, 0}};
    for (uint32_t i = 0; i < most; ++i) {
      std::vector<Path> all;
      for (const Path& beam : beams) {
        const std::vector<float> row = logits(beam.tokens);
        const double mass = log_mass(row);
        for (size_t t = 0; t < row.size(); ++t) {
          Path next = beam;
          next.tokens.push_back(static_cast<Token>(t));
          next.score += static_cast<float>(row[t] - mass);
          all.push_back(std::move(next));
        }
      }
      std::stable_sort(all.begin(), all.end(),
                       [](const Path& a, const Path& b) { return a.score > b.score; });
      all.resize(width);
      beams = std::move(all);
    }
    return beams;
  }
};

TEST(Scheduler, SearchesBeamsAsDefinedWhateverElseRuns) {
  const auto engine = tiny_engine(128, kernels::DType::kF32, 300);
  const auto scheduler = scheduler_of(*engine, "paged:block=4");
  const std::vector<Token> prompt = {7, 8, 9};
  Heard heard, other;
  Job job = job_of(prompt, 5);
  job.logprobs.reset();
  job.beams = 4;
  job.choices = 3;
  listen(job, heard);
  Job beside = job_of({1, 2}, 30);
  listen(beside, other);
  scheduler->add(JobId{1}, std::move(beside));
  scheduler->step();
  scheduler->add(JobId{2}, std::move(job));
  run_all(*scheduler);
  const auto expected = Naive{*engine}.search(prompt, 4, 5);
  ASSERT_EQ(heard.finish.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    text::StreamDecoder decoder(engine->tokenizer());
    std::string text;
    for (size_t t = prompt.size(); t < expected[i].tokens.size(); ++t)
      text += decoder.push(expected[i].tokens[t]);
    EXPECT_EQ(heard.text[i], text + decoder.finish()) << "choice " << i;
  }
  EXPECT_EQ(heard.outcome->generated_tokens, 15u);
}

TEST(Scheduler, SearchesBeamsTheSameThoughMemoryRunsOut) {
  const auto engine = tiny_engine();
  const uint64_t token = engine->make_store({}).value()->shape().token_bytes();
  const auto answers = [&](uint64_t bytes) {
    const auto scheduler = scheduler_of(*engine, "paged:block=4", bytes);
    const test::Searched searched = test::search_beams(*scheduler, 0);
    EXPECT_EQ(scheduler->metrics().kv.used_bytes, 0u);
    return searched;
  };
  const test::Searched ample = answers(UINT64_MAX), scarce = answers(110 * token);
  EXPECT_EQ(ample.texts, scarce.texts);
  EXPECT_EQ(ample.preempted, 0u);
  EXPECT_GT(scarce.preempted, 0u) << "memory was not scarce";
}

// A prompt that cannot be read soon waits in the queue, unless its job ranks higher.
TEST(Scheduler, BeginsNoMorePromptsThanAFewStepsRead) {
  const auto engine = tiny_engine(128);
  SchedulerOptions options;
  options.kv = parse_kv_options("paged:block=4", "").value();
  options.most_step_tokens = 16;
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  std::list<Heard> heard;
  const auto add = [&](uint64_t id, int32_t priority) {
    Job job = job_of(std::vector<Token>(30, static_cast<Token>(id)), 3);
    job.priority = priority;
    listen(job, heard.emplace_back());
    scheduler->add(JobId{id}, std::move(job));
  };
  for (uint64_t id = 1; id <= 8; ++id) add(id, 0);
  scheduler->step();
  // 30 tokens take less than two steps of 16, 60 take more.
  EXPECT_EQ(scheduler->metrics().running, 2U);
  add(9, 5);
  scheduler->step();
  EXPECT_EQ(scheduler->metrics().running, 3U);
  run_all(*scheduler);
  for (const Heard& one : heard) EXPECT_EQ(one.tokens.at(0).size(), 3U);
}

}  // namespace
}  // namespace kvick::engine
