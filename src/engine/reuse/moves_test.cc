// Reuses rows of earlier prompts for tokens at other positions. In a model of one layer a row
// depends only on its token and position, so its answers are the same, apart from rounding.

#include <gtest/gtest.h>
#include <numeric>
#include <random>

#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

using test::Heard;
using test::job_of;
using test::listen;
using test::run_all;

constexpr uint32_t kBegin = 24, kMiddle = 60, kSeam = 4;

std::unique_ptr<Engine> engine_of_layers(uint32_t layers) {
  tools::Spec spec = model::tiny_spec(tools::Arch::kLlama, kernels::DType::kF32);
  spec.context = 512;
  spec.layers = layers;
  return engine_of(spec);
}

std::vector<Token> text_of(uint32_t tokens, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Token> text(tokens);
  for (Token& token : text) token = static_cast<Token>(3 + random() % 200);
  return text;
}

// Every prompt has the same beginning, new tokens, the same middle, and new tokens.
std::vector<Token> prompt_of(uint32_t changed, uint32_t seed) {
  std::vector<Token> prompt = text_of(kBegin, 1);
  for (const std::vector<Token>& part :
       {text_of(changed, seed), text_of(kMiddle, 2), text_of(9, seed + 1)})
    prompt.insert(prompt.end(), part.begin(), part.end());
  return prompt;
}

SchedulerOptions options_of(const std::string& kv, bool shift) {
  SchedulerOptions options;
  options.kv = parse_kv_options(kv, "f32").value();
  options.reuse = {.shift = shift, .least = 16, .seam = kSeam};
  return options;
}

Heard answer(Scheduler& scheduler, Job job) {
  static uint64_t next = 1;
  Heard heard;
  listen(job, heard);
  scheduler.add(JobId{next++}, std::move(job));
  run_all(scheduler);
  EXPECT_TRUE(heard.outcome && !heard.outcome->error);
  return heard;
}

std::unique_ptr<Scheduler> scheduler_of(Engine& engine, const std::string& kv, bool shift = true) {
  return std::move(Scheduler::make(engine, options_of(kv, shift))).value();
}

void expect_near(const Heard& a, const Heard& b) {
  ASSERT_EQ(a.tokens, b.tokens);
  for (const auto& [choice, logprobs] : a.logprobs)
    for (size_t i = 0; i < logprobs.size(); ++i)
      EXPECT_NEAR(logprobs[i], b.logprobs.at(choice)[i], 1e-4);
}

TEST(SchedulerMoves, AnAnswerOfOneLayerIsTheSame) {
  const auto engine = engine_of_layers(1);
  for (const char* kv : {"paged:block=4", "paged"}) {
    SCOPED_TRACE(kv);
    const auto scheduler = scheduler_of(*engine, kv);
    answer(*scheduler, job_of(prompt_of(7, 10), 5));
    for (const uint32_t changed : {3U, 7U, 30U}) {
      Job job = job_of(prompt_of(changed, 20 + changed), 12);
      job.choices = changed == 7 ? 2 : 1;
      const Heard moved = answer(*scheduler, job);
      EXPECT_EQ(moved.outcome->moved_tokens, kMiddle - kSeam);
      EXPECT_EQ(moved.outcome->cached_tokens, kBegin + kMiddle - kSeam);
      expect_near(moved, answer(*scheduler_of(*engine, "virtual", false), job));
    }
    EXPECT_EQ(scheduler->metrics().moved_tokens, 3U * (kMiddle - kSeam));
  }
}

TEST(SchedulerMoves, WhatWasMovedIsThereForTheNextTurn) {
  const auto engine = engine_of_layers(2);
  const auto scheduler = scheduler_of(*engine, "paged:block=4");
  answer(*scheduler, job_of(prompt_of(7, 10), 5));
  Job job = job_of(prompt_of(12, 30), 5);
  const auto had = static_cast<uint32_t>(job.prompt.size());
  EXPECT_EQ(answer(*scheduler, job).outcome->moved_tokens, kMiddle - kSeam);
  job.prompt.insert(job.prompt.end(), {5, 6, 7, 8});
  const Heard next = answer(*scheduler, job);
  EXPECT_EQ(next.outcome->moved_tokens, 0U);
  EXPECT_GE(next.outcome->cached_tokens, had);
}

TEST(SchedulerMoves, NothingIsTakenUnlessItWasAskedForAndIsOnesOwnAndThere) {
  const auto engine = engine_of_layers(2);
  const Job first = job_of(prompt_of(7, 10), 5), second = job_of(prompt_of(12, 30), 9);
  const Heard expected = answer(*scheduler_of(*engine, "virtual", false), second);
  const auto expect_exact = [&](Scheduler& scheduler, const Job& job) {
    const Heard heard = answer(scheduler, job);
    EXPECT_EQ(heard.outcome->moved_tokens, 0U);
    EXPECT_EQ(heard.tokens, expected.tokens);
    EXPECT_EQ(heard.logprobs, expected.logprobs);
  };
  for (const bool shift : {false, true}) {
    const auto scheduler = scheduler_of(*engine, "paged:block=4", shift);
    answer(*scheduler, first);
    Job job = second;
    if (shift) job.salt = "another's";
    expect_exact(*scheduler, job);
    if (!shift) continue;
    scheduler->flush();
    expect_exact(*scheduler, second);
    job = second;
    job.reuse = false;
    expect_exact(*scheduler, job);
  }
}

// More concurrent jobs than fit into memory: rows are evicted while other jobs want to move them.
TEST(SchedulerMoves, AnswersOfOneLayerAreTheSameWhereMemoryIsShort) {
  const auto engine = engine_of_layers(1);
  SchedulerOptions options = options_of("paged:block=4", true);
  options.kv_bytes = 300 * engine->make_store(options.kv).value()->shape().token_bytes();
  options.headroom_tokens = 2;
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  std::map<uint64_t, Heard> heard;
  std::vector<Job> jobs;
  for (uint64_t i = 0; i < 12; ++i) {
    jobs.push_back(
        job_of(prompt_of(2 + static_cast<uint32_t>(i), 40 + static_cast<uint32_t>(i)), 20));
    Job job = jobs.back();
    listen(job, heard[i]);
    scheduler->add(JobId{1000 + i}, std::move(job));
    for (int steps = 0; steps < 9; ++steps) scheduler->step();
  }
  run_all(*scheduler);
  EXPECT_GT(scheduler->metrics().moved_tokens, 0U);
  for (uint64_t i = 0; i < jobs.size(); ++i)
    expect_near(heard[i], answer(*scheduler_of(*engine, "virtual", false), jobs[i]));
}

TEST(SchedulerMoves, AreOfTextsThatASearchHasNotPushedOut) {
  const auto engine = engine_of_layers(2);
  SchedulerOptions options = options_of("paged:block=4", true);
  options.reuse.most_known = 600;
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  answer(*scheduler, job_of(prompt_of(7, 10), 5));
  // The search ends with 260 tokens; it drops the best beam about ten times on the way.
  std::vector<Token> prompt(60);
  std::iota(prompt.begin(), prompt.end(), 3);
  Job search = job_of(prompt, 200);
  search.beams = 2;
  search.logprobs.reset();
  answer(*scheduler, std::move(search));
  const Heard moved = answer(*scheduler, job_of(prompt_of(30, 50), 5));
  EXPECT_EQ(moved.outcome->moved_tokens, kMiddle - kSeam);
}

TEST(SchedulerMoves, AreRefusedWhereRowsCannotMove) {
  tools::Spec spec = model::tiny_spec(tools::Arch::kLlama, kernels::DType::kF32);
  spec.features.window = 16;
  const auto engine = engine_of(spec);
  SchedulerOptions options = options_of("paged:block=4", true);
  const auto scheduler = Scheduler::make(*engine, options);
  ASSERT_FALSE(scheduler.ok());
  EXPECT_EQ(scheduler.error().message,
            "--reuse shift: the model forgets rows that fell out of a window; leave it out");
}

}  // namespace
}  // namespace kvick::engine
