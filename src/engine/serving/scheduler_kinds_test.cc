// Which jobs a scheduler accepts, and jobs that choose their kind of cache.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <list>
#include <thread>

#include "engine/serving/scheduler.h"
#include "engine/serving/test_jobs.h"
#include "engine/speculation/test_draft_model.h"

namespace kvick::engine {
namespace {

using test::alone;
using test::Heard;
using test::job_of;
using test::listen;
using test::run_all;
using test::scheduler_of;

TEST(Scheduler, SaysWhyItTakesAJobNot) {
  const auto engine = tiny_engine();
  const uint64_t token = engine->make_store({}).value()->shape().token_bytes();
  const auto scheduler = scheduler_of(*engine, "paged:block=4", 48 * token);
  const auto refusal = [&](const Job& job) {
    return scheduler->refuses(job).value_or(Refusal{Refusal::Why::kBusy, "taken", ""});
  };
  EXPECT_EQ(refusal(job_of({1}, 1)).message, "taken");
  EXPECT_EQ(refusal(job_of({}, 1)).field, "prompt");
  EXPECT_EQ(refusal(job_of({-1}, 1)).field, "prompt");
  EXPECT_EQ(refusal(job_of(std::vector<Token>(129, 1), 1)).why, Refusal::Why::kTooLong);
  EXPECT_EQ(refusal(job_of(std::vector<Token>(60, 1), 1)).why, Refusal::Why::kTooLarge);
  Job many = job_of({1}, 1);
  many.choices = 1000;
  EXPECT_EQ(refusal(many).field, "n");
  Job hot = job_of({1}, 1);
  hot.sampling.temperature = -1;
  EXPECT_EQ(refusal(hot).field, "sampling");
  for (const char* kind : {"bounded", "bmc:r=x", "paged:block=0"}) {
    Job other = job_of({1}, 1);
    other.kv = parse_kv_options(kind, "").value();
    EXPECT_EQ(refusal(other).field, "kv") << kind;
  }
  Job measured = job_of({1}, 1);
  measured.kv = parse_kv_options("bmc:r=auto", "").value();
  EXPECT_EQ(refusal(measured).message, "taken");
}

// Reads of the tier take longer than its timeout: a job that needs them ends, the other continues.
TEST(Scheduler, EndsAJobWhoseRowsASlowerTierLosesAndNoOther) {
  const auto engine = tiny_engine();
  const uint64_t token = engine->make_store({}).value()->shape().token_bytes();
  SchedulerOptions options;
  options.kv =
      parse_kv_options(
          "", "",
          fmt::format("ram:latency=300ms,timeout=1ms,size=16MiB,unit=16,fast={}", 112 * token))
          .value();
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  Heard long_one, short_one;
  // With its sixth unit full, the job has more rows than there are frames.
  Job large = job_of(std::vector<Token>(95, 3), 20), small = job_of({1, 2, 3}, 12);
  listen(large, long_one);
  listen(small, short_one);
  const Answer expected = alone(*engine, small, 0, {});
  scheduler->add(JobId{1}, std::move(large));
  scheduler->add(JobId{2}, std::move(small));
  scheduler->step();
  // By then its units are written to the tier.
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  run_all(*scheduler);
  ASSERT_TRUE(long_one.outcome->error.has_value());
  EXPECT_EQ(long_one.outcome->error->why, Refusal::Why::kLost);
  EXPECT_NE(long_one.outcome->error->message.find("rows are lost: "), std::string::npos)
      << long_one.outcome->error->message;
  ASSERT_TRUE(short_one.outcome.has_value());
  EXPECT_FALSE(short_one.outcome->error.has_value());
  EXPECT_EQ(short_one.tokens[0], expected.tokens);
  EXPECT_EQ(scheduler->metrics().failed, 1u);
}

TEST(Scheduler, AnswersTheSameWithRowsInASlowerTier) {
  const auto engine = tiny_engine();
  const uint64_t token = engine->make_store({}).value()->shape().token_bytes();
  SchedulerOptions options;
  options.kv =
      parse_kv_options("", "", fmt::format("ram:size=16MiB,unit=4,fast={}", 110 * token)).value();
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  std::list<Heard> heard;
  std::vector<Answer> expected;
  for (uint32_t i = 1; i <= 3; ++i) {
    Job job = job_of(std::vector<Token>(20 * i, static_cast<Token>(i)), 30);
    expected.push_back(alone(*engine, job, 0, {}));
    listen(job, heard.emplace_back());
    scheduler->add(JobId{i}, std::move(job));
  }
  run_all(*scheduler);
  size_t i = 0;
  for (Heard& one : heard) {
    EXPECT_FALSE(one.outcome->error.has_value()) << one.outcome->error->message;
    EXPECT_EQ(one.tokens[0], expected[i++].tokens);
  }
  EXPECT_GT(scheduler->metrics().kv.slow_read_bytes, 0u);
  EXPECT_LE(scheduler->metrics().kv.allocated_bytes, 110 * token);
}

TEST(Scheduler, HasStoresOfSoManyKindsAtOnceAndNoMore) {
  const auto engine = tiny_engine();
  const auto scheduler = scheduler_of(*engine, "paged");
  std::list<Heard> heard;
  for (size_t i = 1; i <= StoreSet::kMostStores; ++i) {
    Job job = job_of({1, 2}, 4);
    job.kv = parse_kv_options(fmt::format("bmc:r={}", i), "").value();
    listen(job, heard.emplace_back());
    scheduler->add(JobId{i}, std::move(job));
  }
  run_all(*scheduler);
  ASSERT_TRUE(heard.back().outcome->error.has_value());
  EXPECT_EQ(heard.back().outcome->error->why, Refusal::Why::kBusy);
  heard.pop_back();
  for (const Heard& one : heard) EXPECT_FALSE(one.outcome->error.has_value());
}

TEST(Scheduler, GivesUpCachedRowsOfAnotherKindForTheForksOfAJob) {
  const auto engine = tiny_engine();
  const uint64_t token = engine->make_store({}).value()->shape().token_bytes();
  for (const uint32_t beams : {0u, 2u}) {
    Job job = job_of({10, 11, 12, 13, 14}, 20);
    job.choices = 2;
    job.beams = beams;
    job.kv = parse_kv_options("bmc:r=32", "").value();
    std::vector<std::string> texts;
    for (const bool cached : {false, true}) {
      const auto scheduler = scheduler_of(*engine, "paged:block=4", 100 * token);
      if (cached) {
        Heard before;
        Job other = job_of(std::vector<Token>(92, 3), 1);
        listen(other, before);
        scheduler->add(JobId{1}, std::move(other));
        run_all(*scheduler);
        ASSERT_GT(scheduler->metrics().kv.cached_bytes, 80 * token);
      }
      Heard heard;
      Job asked = job;
      listen(asked, heard);
      scheduler->add(JobId{2}, std::move(asked));
      run_all(*scheduler);
      ASSERT_FALSE(heard.outcome->error.has_value()) << heard.outcome->error->message;
      EXPECT_EQ(scheduler->metrics().recomputations, 0u);
      texts.push_back(heard.text[0] + "|" + heard.text[1]);
    }
    EXPECT_EQ(texts[0], texts[1]);
  }
}

JobOutcome run_one(Scheduler& scheduler, uint64_t id, Job job) {
  Heard heard;
  listen(job, heard);
  scheduler.add(JobId{id}, std::move(job));
  run_all(scheduler);
  EXPECT_TRUE(heard.outcome.has_value());
  const JobOutcome outcome = heard.outcome.value_or(JobOutcome());
  EXPECT_FALSE(outcome.error.has_value()) << outcome.error->message;
  return outcome;
}

TEST(Scheduler, KeepsTheTotalsOfAStoreThatItClosesForAnother) {
  const auto engine = tiny_engine();
  const auto scheduler = scheduler_of(*engine, "paged");
  Job job = job_of({1, 2}, 8);
  job.kv = parse_kv_options("bmc:r=1", "").value();
  run_one(*scheduler, 1, job);
  const uint64_t copied = scheduler->metrics().kv.copied_bytes;
  ASSERT_GT(copied, 0u) << "its rows move whenever it grows";
  for (uint64_t i = 2; i <= StoreSet::kMostStores + 1; ++i) {
    job.kv = parse_kv_options(fmt::format("bmc:r={}", 30 + i), "").value();  // never grows
    run_one(*scheduler, i, job);
  }
  for (const StoreState& store : scheduler->state().stores) EXPECT_NE(store.strategy, "bmc:r=1");
  EXPECT_GE(scheduler->metrics().kv.copied_bytes, copied);
}

// Runs `old`, then a job of the standard kind, then a third job of that kind, which takes `tokens`
// and for which there is no room. The rows of the second job must still be cached then.
void expect_oldest_rows_go(Engine& engine, SchedulerOptions options, const Job& old,
                           uint32_t tokens) {
  Job second = job_of(std::vector<Token>(60, 7), 1),
      third = job_of(std::vector<Token>(tokens, 8), 1);
  second.spec = third.spec = SpecOptions();
  const uint64_t token = engine.make_store(options.kv).value()->shape().token_bytes();
  const auto run_two = [&] {
    auto scheduler = std::move(Scheduler::make(engine, options)).value();
    run_one(*scheduler, 1, old);
    run_one(*scheduler, 2, second);
    return scheduler;
  };
  const Metrics both = run_two()->metrics();
  options.kv_bytes = both.kv.allocated_bytes + both.draft_bytes + 12 * token;
  const auto scheduler = run_two();
  EXPECT_EQ(scheduler->metrics().kv.evicted_bytes, 0U);
  run_one(*scheduler, 3, third);
  EXPECT_GE(run_one(*scheduler, 4, second).cached_tokens, 56U);
}

TEST(Scheduler, EvictsOldRowsOfAnotherKindBeforeNewerOnesOfItsOwn) {
  const auto engine = tiny_engine();
  SchedulerOptions options;
  options.kv = parse_kv_options("paged:block=4", "").value();
  Job old = job_of(std::vector<Token>(120, 5), 1);
  old.kv = parse_kv_options("paged:block=8", "").value();
  expect_oldest_rows_go(*engine, options, old, 96);
}

// A store under a policy reports the age of its cached rows.
TEST(Scheduler, EvictsOldRowsUnderAPolicyBeforeNewerOnesOfItsOwn) {
  const auto engine = tiny_engine();
  SchedulerOptions options;
  options.kv = parse_kv_options("paged:block=4", "").value();
  Job old = job_of(std::vector<Token>(120, 5), 1);
  old.kv =
      parse_kv_options("paged:block=8", "", "", "quest:budget=48,page=4,dense_layers=0").value();
  expect_oldest_rows_go(*engine, options, old, 96);
}

TEST(Scheduler, EvictsOldRowsOfTheDraftModelBeforeNewerOnesOfTheModel) {
  const auto engine = tiny_engine(128);
  const test::DraftModelFile draft(128);
  SchedulerOptions options;
  options.kv = parse_kv_options("paged:block=4", "f16").value();
  options.spec = parse_spec_options("draft:gain=off,model=" + draft.path()).value();
  expect_oldest_rows_go(*engine, options, job_of(std::vector<Token>(20, 5), 20), 64);
}

// No token follows the last one of a search, so no answer is forked for it.
TEST(Scheduler, ASearchIsAsLongAsItIsWhereItsForksFindNoRoom) {
  const auto engine = tiny_engine();
  const uint64_t token = engine->make_store({}).value()->shape().token_bytes();
  uint64_t preempted = 0;
  const auto answers = [&](uint64_t bytes, uint32_t most) {
    const auto scheduler = scheduler_of(*engine, "paged:block=4", bytes);
    std::list<Heard> heard;
    for (uint64_t i = 0; i < 3; ++i) {
      Job job = job_of(std::vector<Token>(10 + i, static_cast<Token>(20 + i)), most);
      job.beams = job.choices = 3;
      job.kv = parse_kv_options("bmc:r=8", "").value();
      listen(job, heard.emplace_back());
      scheduler->add(JobId{i}, std::move(job));
    }
    run_all(*scheduler);
    preempted += scheduler->metrics().recomputations;
    std::vector<std::map<uint32_t, std::string>> texts;
    for (const Heard& one : heard) {
      EXPECT_FALSE(one.outcome->error.has_value()) << one.outcome->error->message;
      EXPECT_EQ(one.outcome->generated_tokens, 3 * most);
      texts.push_back(one.text);
    }
    return texts;
  };
  for (uint32_t most = 1; most < 12; ++most)
    EXPECT_EQ(answers(130 * token, most), answers(UINT64_MAX, most)) << most;
  EXPECT_GT(preempted, 0u) << "memory was not scarce";
}

TEST(Scheduler, KeepsItsContextWhateverCacheAJobChooses) {
  const auto engine = tiny_engine();
  SchedulerOptions options;
  options.kv = parse_kv_options("paged", "").value();
  options.kv.max_tokens = 32;
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  Job job = job_of(std::vector<Token>(33, 1), 1);
  job.kv = parse_kv_options("virtual", "").value();
  EXPECT_EQ(scheduler->refuses(job)->field, "prompt");
  job.prompt.resize(32);
  EXPECT_FALSE(scheduler->refuses(job).has_value());
  job.kv = parse_kv_options("paged", "").value();
  scheduler->add(JobId{1}, std::move(job));
  EXPECT_EQ(scheduler->state().stores.size(), 1u) << "the same as the service's own";
  run_all(*scheduler);
}

TEST(Scheduler, AnswersFromStoresOfSeveralKindsAtOnce) {
  const auto engine = tiny_engine();
  const auto scheduler = scheduler_of(*engine, "paged");
  std::list<Heard> heard;
  std::vector<Job> jobs;
  const char* kinds[] = {"bmc:r=4", "virtual", "paged:block=2"};
  uint64_t next = 1;
  for (const char* kind : kinds) {
    Job job = job_of({4, 5, 6, 7}, 12);
    job.kv = parse_kv_options(kind, "f32").value();
    jobs.push_back(job);
    listen(job, heard.emplace_back());
    scheduler->add(JobId{next++}, std::move(job));
  }
  scheduler->step();
  EXPECT_EQ(scheduler->state().stores.size(), 4u);
  EXPECT_EQ(scheduler->state().sequences.size(), 3u);
  run_all(*scheduler);
  for (Heard& one : heard) EXPECT_EQ(one.tokens[0], alone(*engine, jobs[0], 0, *jobs[0].kv).tokens);
}

TEST(Scheduler, GivesAJobTheServicesStrategyOrTypeIfItNamesOnlyTheOther) {
  const auto engine = tiny_engine();
  SchedulerOptions options;
  options.kv = parse_kv_options("paged:block=8", "bf16").value();
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  Job type = job_of({1, 2, 3}, 4), strategy = job_of({1, 2, 3}, 4);
  type.kv = parse_kv_options("", "f32").value();
  strategy.kv = parse_kv_options("virtual", "").value();
  scheduler->add(JobId{1}, std::move(type));
  scheduler->add(JobId{2}, std::move(strategy));
  const CacheState state = scheduler->state();
  ASSERT_EQ(state.stores.size(), 3u);
  EXPECT_EQ(state.stores[1].strategy, "paged:block=8");
  EXPECT_EQ(state.stores[1].type, "f32");
  EXPECT_EQ(state.stores[2].strategy, "virtual");
  EXPECT_EQ(state.stores[2].type, "bf16");
}

// Returns the report of each prompt token after those before it. A job for each of them reports the
// whole vocabulary.
std::vector<TokenReport> reports_one_by_one(Engine& engine, const std::vector<Token>& prompt) {
  std::vector<TokenReport> reports;
  for (size_t i = 1; i < prompt.size(); ++i) {
    const auto scheduler = scheduler_of(engine, "paged:block=4");
    Job job = job_of({prompt.begin(), prompt.begin() + static_cast<ptrdiff_t>(i)}, 1);
    job.logprobs = engine.model().config().vocab;
    job.on_piece = [&](const AnswerPiece& piece) {
      const auto& top = piece.tokens.front().top;
      const auto own = std::find_if(top.begin(), top.end(),
                                    [&](const auto& one) { return one.token == prompt[i]; });
      reports.push_back({.chosen = *own, .top = {top.begin(), top.begin() + 2}});
    };
    scheduler->add(JobId{1}, std::move(job));
    run_all(*scheduler);
  }
  return reports;
}

TEST(Scheduler, ReportsAPromptsTokensToEachChoiceThoughTheyAreCachedOrMadeWay) {
  const auto engine = tiny_engine(256);
  std::vector<Token> prompt;
  for (Token t = 0; t < 150; ++t) prompt.push_back(3 + t * 7 % 400);
  const std::vector<TokenReport> expected = reports_one_by_one(*engine, prompt);
  const uint64_t token = engine->make_store({}).value()->shape().token_bytes();
  const auto scheduler = scheduler_of(*engine, "paged:block=4", 220 * token);
  Heard before, beside;
  Job job = job_of(prompt, 1);
  listen(job, before);
  scheduler->add(JobId{1}, std::move(job));  // so that the prompt is cached
  run_all(*scheduler);
  std::vector<std::vector<TokenReport>> got(2);
  job = job_of(prompt, 20);
  job.choices = 2;
  job.logprobs = 2;
  job.prompt_logprobs = true;
  job.priority = -1;
  job.on_piece = [&](const AnswerPiece& piece) {
    EXPECT_EQ(piece.of_prompt, got[piece.choice].empty());
    got[piece.choice].insert(got[piece.choice].end(), piece.tokens.begin(), piece.tokens.end());
  };
  scheduler->add(JobId{2}, std::move(job));
  scheduler->step();
  job = job_of(std::vector<Token>(60, 9), 100);
  listen(job, beside);
  scheduler->add(JobId{3}, std::move(job));
  run_all(*scheduler);
  EXPECT_GT(scheduler->metrics().recomputations, 0U) << "nothing made way";
  for (const auto& reports : got) {
    ASSERT_EQ(reports.size(), prompt.size() + 20);
    EXPECT_TRUE(std::isnan(reports[0].chosen.logprob));
    EXPECT_EQ(reports[0].chosen.token, prompt[0]);
    for (size_t i = 1; i < prompt.size(); ++i) {
      EXPECT_EQ(reports[i].chosen, expected[i - 1].chosen) << i;
      EXPECT_EQ(reports[i].top, expected[i - 1].top) << i;
    }
  }
  EXPECT_EQ(got[0].back().chosen.token, got[1].back().chosen.token);
}

}  // namespace
}  // namespace kvick::engine
