#include "engine/serving/engine_thread.h"

#include <atomic>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

using test::alone;
using test::Heard;
using test::job_of;
using test::listen;

std::unique_ptr<EngineThread> scheduler_of(Engine& engine, uint32_t most_waiting = 1024,
                                           uint64_t bytes = UINT64_MAX) {
  EngineThreadOptions options;
  options.batch.kv = parse_kv_options("paged:block=4", "").value();
  options.batch.kv_bytes = bytes;
  options.batch.headroom_tokens = 2;
  options.most_waiting = most_waiting;
  options.snapshot_seconds = 0;
  return std::move(EngineThread::make(engine, options)).value();
}

TEST(EngineThread, AnswersJobsOfManyThreadsAsIfEachWereAlone) {
  const auto engine = tiny_engine();
  const uint64_t token = engine->make_store({}).value()->shape().token_bytes();
  constexpr int kThreads = 4, kJobs = 8;
  std::vector<Heard> heard(kThreads * kJobs);
  const auto job = [](int i) {
    Job one = job_of({1, 2, static_cast<Token>(3 + i)}, 10 + static_cast<uint32_t>(i) % 20);
    one.sampling.temperature = i % 2 == 0 ? 0.0F : 1.0F;
    return one;
  };
  {
    const auto scheduler = scheduler_of(*engine, 1024, 200 * token);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (int i = t * kJobs; i < (t + 1) * kJobs; ++i) {
          Job one = job(i);
          listen(one, heard[static_cast<size_t>(i)]);
          EXPECT_TRUE(scheduler->submit(std::move(one)).ok());
          EXPECT_LE(scheduler->metrics().kv.allocated_bytes, 200 * token);
        }
      });
    for (std::thread& thread : threads) thread.join();
    scheduler->wait();
    EXPECT_EQ(scheduler->metrics().finished, heard.size());
    EXPECT_EQ(scheduler->metrics().kv.used_bytes, 0u);
  }
  for (int i = 0; i < kThreads * kJobs; ++i)
    EXPECT_EQ(heard[static_cast<size_t>(i)].tokens[0], alone(*engine, job(i), 0, {}).tokens);
}

TEST(EngineThread, FindsNothingOfAPromptAfterAFlushOrWhereItMayNot) {
  const auto engine = tiny_engine();
  const auto scheduler = scheduler_of(*engine);
  const auto cached = [&](bool reuse) {
    Heard heard;
    Job job = job_of({1, 2, 3, 4, 5, 6, 7, 8, 9}, 2);
    job.reuse = reuse;
    listen(job, heard);
    EXPECT_TRUE(scheduler->submit(std::move(job)).ok());
    scheduler->wait();
    return heard.outcome->cached_tokens;
  };
  EXPECT_EQ(cached(true), 0u);
  EXPECT_EQ(cached(true), 8u);
  EXPECT_EQ(cached(false), 0u);
  EXPECT_EQ(cached(true), 8u);
  scheduler->flush();
  EXPECT_EQ(cached(true), 0u);
  EXPECT_EQ(cached(true), 8u);
  // A running job keeps its rows.
  Heard heard;
  Job job = job_of({1, 2, 3, 4, 5, 6, 7, 8, 9}, 60);
  const std::vector<Token> alone_says = alone(*engine, job, 0, {}).tokens;
  listen(job, heard);
  EXPECT_TRUE(scheduler->submit(std::move(job)).ok());
  for (int i = 0; i < 20; ++i) scheduler->flush();
  scheduler->wait();
  EXPECT_EQ(heard.tokens[0], alone_says);
}

TEST(EngineThread, EndsEachJobOnceHoweverManyAreCancelled) {
  const auto engine = tiny_engine();
  const auto scheduler = scheduler_of(*engine);
  std::mt19937 random(1);
  std::vector<Heard> heard(40);
  for (Heard& one : heard) {
    Job job = job_of({1, 2, 3}, 1 + static_cast<uint32_t>(random() % 60));
    listen(job, one);
    const JobId id = scheduler->submit(std::move(job)).value();
    if (random() % 2 == 0) scheduler->cancel(id);
    if (random() % 4 == 0) scheduler->cancel(JobId{1 + random() % 40});
  }
  scheduler->wait();
  for (const Heard& one : heard) EXPECT_TRUE(one.outcome.has_value());
  const Metrics metrics = scheduler->metrics();
  EXPECT_EQ(metrics.finished + metrics.cancelled, heard.size());
  EXPECT_EQ(metrics.kv.used_bytes, 0u);
}

TEST(EngineThread, CountsTheAgeOfBlocksThatAPromptFinds) {
  const auto engine = tiny_engine();
  const auto scheduler = scheduler_of(*engine);
  const auto ask = [&] {
    ASSERT_TRUE(scheduler->submit(job_of(std::vector<Token>(17, 5), 1)).ok());
    scheduler->wait();
  };
  ask();
  EXPECT_EQ(scheduler->metrics().reuse_age.count(), 0u);
  EXPECT_GT(scheduler->metrics().kv.metadata_bytes, 0u);
  ask();
  EXPECT_EQ(scheduler->metrics().reuse_age.count(), 4u);  // blocks of 4
}

TEST(EngineThread, HasCountedAJobBeforeItTellsOfItsEnd) {
  const auto engine = tiny_engine();
  EngineThreadOptions options;
  options.snapshot_seconds = 1e9;
  const auto scheduler = EngineThread::make(*engine, options).value();
  constexpr uint64_t kJobs = 20;
  std::vector<uint64_t> counted;
  for (uint64_t i = 0; i < kJobs; ++i) {
    Job job = job_of({1, 2, 3}, 5);
    job.on_end = [&](const JobOutcome&) { counted.push_back(scheduler->metrics().finished); };
    ASSERT_TRUE(scheduler->submit(std::move(job)).ok());
  }
  scheduler->wait();
  std::vector<uint64_t> right(kJobs);
  std::iota(right.begin(), right.end(), 1);
  EXPECT_EQ(counted, right);
}

TEST(EngineThread, TellsJobsOfItsOwnEnd) {
  const auto engine = tiny_engine(4096);
  std::vector<Heard> heard(5);
  {
    const auto scheduler = scheduler_of(*engine);
    for (Heard& one : heard) {
      Job job = job_of({1, 2, 3}, 0);
      listen(job, one);
      ASSERT_TRUE(scheduler->submit(std::move(job)).ok());
    }
  }
  for (const Heard& one : heard) EXPECT_TRUE(one.outcome.has_value());
}

TEST(EngineThread, RefusesWhatItCannotTakeAndFinishesWhatItHas) {
  const auto engine = tiny_engine();
  const auto scheduler = scheduler_of(*engine, 0);
  EXPECT_EQ(scheduler->submit(job_of({}, 1)).error().why, Refusal::Why::kInvalid);
  EXPECT_EQ(scheduler->submit(job_of({1}, 1)).error().why, Refusal::Why::kBusy);
  EXPECT_EQ(scheduler->metrics().refused, 2u);
  const auto roomy = scheduler_of(*engine);
  Heard heard;
  Job job = job_of({1, 2, 3}, 40);
  listen(job, heard);
  ASSERT_TRUE(roomy->submit(std::move(job)).ok());
  roomy->drain();
  EXPECT_EQ(roomy->submit(job_of({1}, 1)).error().message, "the server is shutting down");
  roomy->wait();
  EXPECT_EQ(heard.tokens[0].size(), 40u);
}

// Asks from inside a step: only jobs that the scheduler has not begun count as waiting.
TEST(EngineThread, CountsJobsThatWaitFromTheStepOnThatTakesThem) {
  const auto engine = tiny_engine(4096);
  EngineThreadOptions options;
  options.batch.kv = parse_kv_options("paged:block=4", "").value();
  options.batch.max_sequences = 1;
  options.most_waiting = 1;
  options.snapshot_seconds = 1e9;
  // Whether one more job was accepted, and how many then waited.
  std::vector<std::pair<bool, uint32_t>> steps;
  std::unique_ptr<EngineThread> scheduler = EngineThread::make(*engine, options).value();
  Job job = job_of({1, 2, 3}, 3);
  job.on_piece = [&](const AnswerPiece&) {
    const bool taken = scheduler->submit(job_of({4, 5, 6}, 1)).ok();
    steps.emplace_back(taken, scheduler->metrics().waiting);
  };
  ASSERT_TRUE(scheduler->submit(std::move(job)).ok());
  scheduler->wait();
  const std::vector<std::pair<bool, uint32_t>> right = {{true, 1}, {false, 1}, {false, 1}};
  EXPECT_EQ(steps, right);
}

// A clock that advances by one second per call.
double fast_seconds() {
  static std::atomic<int> seconds = 0;
  return seconds++;
}

// By this clock a map of the cache takes longer than all steps between two maps together.
TEST(EngineThread, MapsTheCacheOftenOnlyWhereThatIsFastAndAnewWhenNoJobRuns) {
  const auto engine = tiny_engine();
  const base::Clock still = [] { return 0.0; };
  for (const bool slow : {false, true}) {
    SCOPED_TRACE(slow);
    EngineThreadOptions options;
    options.batch.kv = parse_kv_options("paged:block=4", "").value();
    options.batch.clock = slow ? &fast_seconds : still;
    options.snapshot_seconds = 1e9;
    const auto scheduler = EngineThread::make(*engine, options).value();
    const auto seen_by = [&](Token first) {
      std::vector<uint64_t> jobs;  // those in the map while the answer's first token is given
      Job job = job_of(std::vector<Token>(9, first), 1);
      job.on_piece = [&](const AnswerPiece&) {
        for (const SequenceState& one : scheduler->cache().sequences) jobs.push_back(one.job);
      };
      EXPECT_TRUE(scheduler->submit(std::move(job)).ok());
      scheduler->wait();
      return jobs;
    };
    const auto pieces = [&] { return scheduler->cache().stores.at(0).pieces.size(); };
    const std::vector<uint64_t> none;
    EXPECT_EQ(pieces(), 0U);
    EXPECT_EQ(seen_by(5), slow ? none : std::vector<uint64_t>{1});
    const size_t of_one = pieces();
    EXPECT_GT(of_one, 0U);
    EXPECT_EQ(seen_by(6), slow ? none : std::vector<uint64_t>{2});
    EXPECT_GT(pieces(), of_one);
    EXPECT_TRUE(scheduler->cache().sequences.empty());
  }
}

TEST(EngineThread, RefusesWhatWouldWaitTooLongAndSaysWhenToComeAgain) {
  const auto engine = tiny_engine(4096);
  EngineThreadOptions options;
  options.batch.kv = parse_kv_options("paged:block=4", "").value();
  options.batch.max_sequences = 1;
  options.batch.clock = fast_seconds;
  options.most_wait_seconds = 50;
  const auto scheduler = EngineThread::make(*engine, options).value();
  EXPECT_FALSE(scheduler->refuses_now().has_value());
  std::atomic<bool> over = false;
  Job slow = job_of({1, 2, 3}, 4000);
  slow.on_piece = [&](const AnswerPiece&) {
    if (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const JobId first = scheduler->submit(std::move(slow)).value();
  Heard heard;
  Job second = job_of({4, 5, 6}, 3);
  listen(second, heard);
  ASSERT_TRUE(scheduler->submit(std::move(second)).ok());
  std::optional<Refusal> refusal;
  while (!(refusal = scheduler->refuses_now())) std::this_thread::yield();
  EXPECT_EQ(refusal->why, Refusal::Why::kBusy);
  EXPECT_GT(refusal->retry_seconds, 0);
  EXPECT_EQ(scheduler->submit(job_of({1}, 1)).error().why, Refusal::Why::kBusy);
  EXPECT_EQ(scheduler->metrics().refused, 2u);
  over = true;
  scheduler->cancel(first);
  scheduler->wait();
  EXPECT_EQ(heard.tokens[0].size(), 3u);
  EXPECT_TRUE(scheduler->submit(job_of({1}, 1)).ok());
  scheduler->wait();
}

}  // namespace
}  // namespace kvick::engine
