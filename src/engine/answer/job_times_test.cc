// What a scheduler records of its jobs for logs, traces and crash reports.

#include <gtest/gtest.h>

#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

using test::Heard;
using test::job_of;
using test::listen;
using test::run_all;
using test::scheduler_of;

TEST(JobTimes, FollowAJobFromItsComingToItsFirstToken) {
  const auto engine = tiny_engine();
  SchedulerOptions options;
  options.most_step_tokens = 4;
  options.max_sequences = 1;
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  std::vector<Token> prompt(30, 1);
  Heard first, second;
  for (Heard* heard : {&first, &second}) {
    Job job = job_of(prompt, 3);
    job.reuse = false;
    listen(job, *heard);
    scheduler->add(JobId{heard == &first ? 1U : 2U}, std::move(job));
  }
  run_all(*scheduler);
  for (const Heard* heard : {&first, &second}) {
    const JobTimes& times = heard->outcome->times;
    ASSERT_TRUE(times.submitted && times.started && times.first_token);
    EXPECT_LE(*times.submitted, *times.started);
    ASSERT_GT(times.pieces, 1U);
    uint32_t tokens = 0;
    double before = *times.started;
    for (size_t i = 0; i < times.pieces; ++i) {
      EXPECT_LE(before, times.prompt[i].began);
      EXPECT_LE(times.prompt[i].began, times.prompt[i].ended);
      before = times.prompt[i].ended;
      tokens += times.prompt[i].tokens;
    }
    EXPECT_EQ(tokens, prompt.size());
    EXPECT_LE(before, *times.first_token);
    EXPECT_EQ(times.preemptions, 0U);
  }
  EXPECT_GE(*second.outcome->times.started, *first.outcome->times.first_token);
}

TEST(JobTimes, CountPreemptionsAndKeepTheFirstStart) {
  const auto engine = tiny_engine();
  const uint64_t token = scheduler_of(*engine, "bmc:r=8")->metrics().token_bytes;
  const auto scheduler = scheduler_of(*engine, "bmc:r=8", 48 * token);
  Heard heard[3];
  for (uint64_t i = 0; i < 3; ++i) {
    Job job = job_of({1, 2, 3}, 20);
    listen(job, heard[i]);
    scheduler->add(JobId{i}, std::move(job));
  }
  run_all(*scheduler);
  uint64_t preemptions = 0;
  for (const Heard& one : heard) preemptions += one.outcome->times.preemptions;
  const Metrics metrics = scheduler->metrics();
  EXPECT_GT(preemptions, 0U);
  EXPECT_EQ(preemptions, metrics.swaps + metrics.recomputations);
}

TEST(JobTimes, StateSaysHowLongJobsWaitAndWhatTheyHaveAnswered) {
  const auto engine = tiny_engine();
  SchedulerOptions options;
  options.max_sequences = 1;
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  for (const uint64_t id : {1, 2}) scheduler->add(JobId{id}, job_of({1, 2, 3}, 5));
  for (int i = 0; i < 2; ++i) scheduler->step();
  const CacheState state = scheduler->state();
  ASSERT_EQ(state.sequences.size(), 2U);
  EXPECT_EQ(state.sequences[0].answer_tokens, 2U);
  EXPECT_EQ(state.sequences[1].answer_tokens, 0U);
  EXPECT_GT(state.sequences[1].queue_seconds, state.sequences[0].queue_seconds);
}

base::CrashNotes notes;
std::string seen;

// A clock that each step reads while its requests are noted. Records what a crash report would say
// at that time.
double looking() {
  for (size_t i = 0; i < notes.lanes[0].count; ++i)
    seen += std::string(notes.lanes[0].requests[i]) + " ";
  return base::steady_seconds();
}

TEST(JobTimes, AStepNotesItsRequestsForACrashReportAndForgetsThem) {
  const auto engine = tiny_engine();
  SchedulerOptions options;
  options.clock = looking;
  options.crash_notes = &notes;
  {
    const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
    for (const uint64_t id : {1, 2}) {
      Job job = job_of({1, 2, 3}, 1);
      job.request = "r" + std::to_string(id);
      scheduler->add(JobId{id}, std::move(job));
    }
    scheduler->step();
    EXPECT_TRUE(seen.starts_with("r1 r2 ")) << seen;
    EXPECT_EQ(notes.lanes[0].count, 0U);
    EXPECT_TRUE(notes.lanes[0].taken);
  }
  EXPECT_FALSE(notes.lanes[0].taken);
}

}  // namespace
}  // namespace kvick::engine
