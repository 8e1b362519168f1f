// Tests rows that are moved to another position while memory runs out: they are computed instead,
// and the store stays as it is.

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

#include "allocations.h"

#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

using test::alone;
using test::Heard;
using test::job_of;
using test::listen;

constexpr uint32_t kBegin = 24, kMiddle = 61, kSeam = 4;

std::vector<Token> text_of(uint32_t tokens, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Token> text(tokens);
  for (Token& token : text) token = static_cast<Token>(3 + random() % 200);
  return text;
}

// Every prompt has the same beginning and, behind other tokens, the same middle.
Job job_for(uint32_t changed, uint32_t seed) {
  std::vector<Token> prompt = text_of(kBegin, 1);
  for (const std::vector<Token>& part :
       {text_of(changed, seed), text_of(kMiddle, 2), text_of(9, seed + 1)})
    prompt.insert(prompt.end(), part.begin(), part.end());
  return job_of(std::move(prompt), 5);
}

class MovesFaults : public testing::Test {
 protected:
  MovesFaults() {
    tools::Spec spec = model::tiny_spec(tools::Arch::kLlama, kernels::DType::kF32);
    spec.context = 512;
    spec.layers = 1;
    engine_ = engine_of(spec);
    options_.kv = parse_kv_options("paged:block=4", "f32").value();
    options_.reuse = {.shift = true, .least = 16, .seam = kSeam};
    scheduler_ = std::move(Scheduler::make(*engine_, options_)).value();
  }

  // fail: called once the job is submitted, before the first step.
  template <typename Fail>
  Heard answer(Job job, const Fail& fail) {
    Heard heard;
    listen(job, heard);
    RunningJobs one = job_list_of(JobId{next_++}, std::move(job));
    fail();
    scheduler_->add(std::move(one));
    for (int steps = 0; scheduler_->step() && steps < 10000; ++steps) continue;
    took_ = faults::allocations();
    faults::fail_nth(0);
    EXPECT_TRUE(heard.outcome.has_value()) << "no end";
    return heard;
  }

  std::unique_ptr<Engine> engine_;
  SchedulerOptions options_;
  std::unique_ptr<Scheduler> scheduler_;
  uint64_t next_ = 1, took_ = 0;  // took_: allocations of the last answer
};

TEST_F(MovesFaults, RowsAreComputedIfThereIsNoMemoryForTheirCopy) {
  const uint64_t token_bytes = engine_->make_store(options_.kv).value()->info().token_bytes();
  answer(job_for(7, 10), [] {});
  const Job job = job_for(12, 30);
  const uint64_t failed = faults::failed_allocations();
  const Heard computed =
      answer(job, [&] { faults::fail_of_bytes((kMiddle - kSeam) * token_bytes); });
  EXPECT_GT(faults::failed_allocations(), failed);
  ASSERT_FALSE(computed.outcome->error.has_value()) << computed.outcome->error->message;
  EXPECT_EQ(computed.outcome->moved_tokens, 0u);
  EXPECT_EQ(computed.tokens.at(0), alone(*engine_, job, 0, options_.kv).tokens);
  // The store still has the rows of the first prompt.
  const Heard moved = answer(job_for(30, 50), [] {});
  ASSERT_FALSE(moved.outcome->error.has_value()) << moved.outcome->error->message;
  EXPECT_EQ(moved.outcome->moved_tokens, kMiddle - kSeam);
  EXPECT_EQ(scheduler_->metrics().kv.sequences, 0u);
}

TEST_F(MovesFaults, NoSequenceStaysOpenWhicheverAllocationFails) {
  answer(job_for(7, 10), [] {});
  answer(job_for(12, 30), [] {});
  answer(job_for(12, 40), [] {});
  const uint64_t took = took_, failed = faults::failed_allocations();
  uint32_t seed = 100, moved = 0;
  for (uint64_t nth = 1; nth <= took; nth += std::max<uint64_t>(1, took / 150)) {
    answer(job_for(12, seed += 2), [&] { faults::fail_nth(nth); });
    const Heard next = answer(job_for(12, seed += 2), [] {});
    ASSERT_FALSE(next.outcome->error.has_value()) << next.outcome->error->message;
    EXPECT_EQ(scheduler_->metrics().kv.sequences, 0u) << "behind a failure of allocation " << nth;
    moved += next.outcome->moved_tokens;
  }
  EXPECT_GT(faults::failed_allocations(), failed + 50);
  EXPECT_GT(moved, 0u);
}

}  // namespace
}  // namespace kvick::engine
