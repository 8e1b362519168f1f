// Tests a scheduler whose memory runs out at any allocation, and whose model has values that are
// not numbers: each job is told of its end exactly once, and the next job is answered as if nothing
// had happened.

#include <gtest/gtest.h>
#include <list>
#include <thread>

#include "allocations.h"
#include "poisoned_model.h"

#include "engine/serving/engine_thread.h"
#include "engine/serving/test_jobs.h"
#include "server/openai/answer_forms.h"

namespace kvick::engine {
namespace {

using test::alone;
using test::Heard;
using test::job_of;
using test::listen;

struct Case {
  const char *name, *kv = "paged:block=4", *select = "", *tier = "", *spec = "";
  uint32_t choices = 1, beams = 0;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

std::unique_ptr<Scheduler> scheduler_of(Engine& engine, const Case& one) {
  SchedulerOptions options;
  options.kv = parse_kv_options(one.kv, "", one.tier, one.select).value();
  if (*one.spec != 0) options.spec = parse_spec_options(one.spec).value();
  options.headroom_tokens = 2;
  return std::move(Scheduler::make(engine, options)).value();
}

Job job_for(const Case& one, Token first) {
  Job job = job_of({first, 2, 3, 4, 5, 6, 2, 3, 4, 5, 6, 2, 3, 4}, 8);
  job.choices = one.choices;
  job.beams = one.beams;
  if (one.beams > 0) job.logprobs.reset();
  return job;
}

class EveryAllocation : public testing::TestWithParam<Case> {};

TEST_P(EveryAllocation, MayFailAndNoJobIsLost) {
  const Case one = GetParam();
  const auto engine = tiny_engine();
  const auto scheduler = scheduler_of(*engine, one);
  uint64_t next = 1;
  const auto run = [&](uint64_t nth) {
    std::list<Heard> heard;
    std::vector<RunningJobs> jobs;
    for (Token first : {1, 9}) {  // submitting allocates the caller's memory
      Job job = job_for(one, first);
      listen(job, heard.emplace_back());
      jobs.push_back(job_list_of(JobId{next++}, std::move(job)));
    }
    faults::fail_nth(nth);
    for (RunningJobs& job : jobs) scheduler->add(std::move(job));
    for (int steps = 0; scheduler->step() && steps < 10000; ++steps) continue;
    const uint64_t took = faults::allocations();
    faults::fail_nth(0);
    for (const Heard& job : heard) {
      EXPECT_TRUE(job.outcome.has_value()) << "no end, allocation " << nth;
      if (!job.outcome || !job.outcome->error) continue;
      EXPECT_EQ(job.outcome->error->why, Refusal::Why::kFailed) << job.outcome->error->message;
    }
    EXPECT_EQ(scheduler->metrics().running + scheduler->metrics().waiting, 0u);
    return std::pair(took, std::move(heard));
  };
  run(0);  // until caches and buffers have reached their size
  const auto [took, right] = run(0);
  ASSERT_GT(took, 50u);
  const uint64_t stride = std::max<uint64_t>(1, took / 150), failed = faults::failed_allocations();
  for (uint64_t nth = 1; nth <= took; nth += stride) {
    run(nth);
    const auto [again, after] = run(0);
    auto expected = right.begin();
    for (const Heard& job : after) {
      ASSERT_FALSE(job.outcome->error.has_value()) << job.outcome->error->message;
      ASSERT_EQ(job.tokens, expected->tokens) << "behind a failure of allocation " << nth;
      ASSERT_EQ(job.text, expected->text) << "behind a failure of allocation " << nth;
      ++expected;
    }
  }
  EXPECT_GT(faults::failed_allocations(), failed + 100);
  const Metrics metrics = scheduler->metrics();
  EXPECT_EQ(metrics.kv.sequences, 0u);
  EXPECT_EQ(metrics.kv.used_bytes, 0u);
  EXPECT_EQ(metrics.finished + metrics.failed, next - 1);
  EXPECT_GT(metrics.failed, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, EveryAllocation,
    testing::Values(Case{"paged"}, Case{"virtual_forks", "virtual", "", "", "", 3},
                    Case{"paged_forks", "paged:block=4", "", "", "", 3}, Case{"bmc", "bmc:r=4"},
                    Case{"iterative", "iterative"}, Case{"window", "sliding"},
                    Case{"tier", "", "", "ram:size=16MiB,fast=64KiB,unit=8"},
                    Case{"quest", "paged:block=4", "quest:budget=4,page=2,sinks=1,recent=2"},
                    Case{"sparq", "virtual", "sparq:budget=4,r=4,sinks=1,recent=2"},
                    Case{"clusters", "paged:block=4",
                         "clusters:budget=4,sinks=1,recent=2,cluster=1,block=8"},
                    Case{"h2o", "", "h2o:budget=6"},
                    Case{"scissorhands", "", "scissorhands:budget=8,drop=2,recent=2"},
                    Case{"snapkv", "", "snapkv:budget=6,drop=2,window=2,heads=ada"},
                    Case{"expected", "", "expected:budget=6,drop=2,sinks=1,recent=2,heads=ada"},
                    Case{"drafts", "paged:block=4", "", "", "lookup"},
                    Case{"beams", "paged:block=4", "", "", "", 2, 3}),
    [](const auto& one) { return one.param.name; });

// Any allocation may fail, even that of the snapshot after a full queue. Once the queue is empty,
// the next job is admitted.
TEST(FullQueue, IsNotRememberedBehindAFailure) {
  const auto engine = tiny_engine();
  EngineThreadOptions options;
  options.batch = {.kv = parse_kv_options("paged:block=4", "").value(), .max_sequences = 1};
  options.most_waiting = 1;
  options.snapshot_seconds = 60;
  const auto scheduler = std::move(EngineThread::make(*engine, options)).value();
  faults::Spared spared;
  const auto is_taken = [&](uint32_t tokens) {
    Job job = job_of({1, 2, 3}, tokens);
    job.on_end = [](const JobOutcome&) {};
    return scheduler->submit(std::move(job)).ok();
  };
  const auto wait_until_taken = [&](uint32_t tokens) {
    for (int i = 0; i < 1'000'000 && !is_taken(tokens); ++i) std::this_thread::yield();
  };
  const auto run = [&](uint64_t nth) {
    wait_until_taken(100);
    wait_until_taken(2);  // while the first job runs
    faults::fail_nth(nth);
    scheduler->wait();
    const uint64_t took = faults::allocations();
    faults::fail_nth(0);
    return took;
  };
  run(0);
  // The last snapshot is taken at the end. The number of allocations before it varies.
  const uint64_t took = run(0), first = took - std::min<uint64_t>(took, 120) + 1;
  for (uint64_t nth = first; nth < took + 40; ++nth) {
    run(nth);
    ASSERT_TRUE(is_taken(2)) << "behind a failure of allocation " << nth;
    scheduler->wait();
  }
}

TEST(Exceptions, OfACallbackEndItsJobAlone) {
  const auto engine = tiny_engine();
  const auto scheduler = scheduler_of(*engine, {"paged"});
  Heard broken, beside;
  Job job = job_of({1, 2, 3}, 20), other = job_of({1, 2, 4}, 20);
  listen(job, broken);
  listen(other, beside);
  const Answer right = alone(*engine, other, 0, {});
  job.on_piece = [n = 0](const AnswerPiece&) mutable {
    if (++n == 3) throw std::runtime_error("the caller broke");
  };
  int told = 0;  // on_end is called until it does not throw
  job.on_end = [&, end = job.on_end](const JobOutcome& outcome) {
    if (++told < 4) throw std::runtime_error("the caller is busy");
    end(outcome);
  };
  scheduler->add(JobId{1}, std::move(job));
  scheduler->add(JobId{2}, std::move(other));
  test::run_all(*scheduler);
  ASSERT_TRUE(broken.outcome && broken.outcome->error);
  EXPECT_EQ(told, 4);
  EXPECT_EQ(broken.outcome->error->why, Refusal::Why::kFailed);
  EXPECT_EQ(broken.outcome->error->message, "the engine failed on this request: the caller broke");
  EXPECT_EQ(beside.tokens[0], right.tokens);
  EXPECT_EQ(scheduler->metrics().failed, 1u);
  EXPECT_EQ(scheduler->metrics().finished, 1u);
}

// A constraint that masks nothing and throws at the third token.
class Breaking final : public text::Constraint {
 public:
  void mask(std::span<float>) override {}
  void accept(int32_t) override {
    if (++tokens_ == 3) throw std::runtime_error("the form broke");
  }
  bool complete() const override { return false; }
  std::unique_ptr<Constraint> clone() const override { return std::make_unique<Breaking>(*this); }

 private:
  int tokens_ = 0;
};

TEST(Exceptions, OfAConstraintEndItsJobAlone) {
  const auto engine = tiny_engine();
  const auto scheduler = scheduler_of(*engine, {"paged"});
  Heard broken, beside;
  Job job = job_of({1, 2, 3}, 20), other = job_of({1, 2, 4}, 20);
  job.ignore_end = false;
  job.constraint = std::make_shared<Breaking>();
  listen(job, broken);
  listen(other, beside);
  const Answer right = alone(*engine, other, 0, {});
  scheduler->add(JobId{1}, std::move(job));
  scheduler->add(JobId{2}, std::move(other));
  test::run_all(*scheduler);
  ASSERT_TRUE(broken.outcome && broken.outcome->error);
  EXPECT_EQ(broken.outcome->error->message, "the engine failed on this request: the form broke");
  EXPECT_EQ(beside.tokens[0], right.tokens);
}

// A constraint that masks nothing. An answer's copy cannot be cloned by a drafter.
class Unique final : public text::Constraint {
 public:
  void mask(std::span<float>) override {}
  void accept(int32_t) override {}
  bool complete() const override { return false; }
  std::unique_ptr<Constraint> clone() const override {
    if (copy_) throw std::runtime_error("the form broke");
    auto copy = std::make_unique<Unique>(*this);
    copy->copy_ = true;
    return copy;
  }

 private:
  bool copy_ = false;  // whether this is an answer's copy
};

TEST(Exceptions, OfADrafterEndNoJob) {
  const auto engine = tiny_engine();
  for (const char* spec : {"none", "lookup:gain=off", "skip:gain=off,layers=0"}) {
    SCOPED_TRACE(spec);
    const auto scheduler = scheduler_of(*engine, {"paged"});
    Heard drafted, beside;
    Job job = job_for({"paged"}, 1), other = job_of({1, 2, 4}, 20);
    job.ignore_end = false;
    job.constraint = std::make_shared<Unique>();
    job.spec = parse_spec_options(spec).value();
    const std::vector<Token> right = alone(*engine, job, 0, {}).tokens;
    ASSERT_GT(right.size(), 2u);
    listen(job, drafted);
    listen(other, beside);
    scheduler->add(JobId{1}, std::move(job));
    scheduler->add(JobId{2}, std::move(other));
    test::run_all(*scheduler);
    ASSERT_TRUE(drafted.outcome && beside.outcome);
    EXPECT_FALSE(drafted.outcome->error.has_value());
    EXPECT_FALSE(beside.outcome->error.has_value());
    EXPECT_EQ(drafted.tokens[0], right);
    EXPECT_EQ(beside.tokens[0], alone(*engine, job_of({1, 2, 4}, 20), 0, {}).tokens);
  }
}

TEST(Exceptions, OfATextThatOthersDraftByEndNoJob) {
  const auto engine = tiny_engine();
  for (uint64_t nth = 1; nth <= 20; ++nth) {
    Speculation speculation(*engine);
    const std::vector<Token> text = {1, 2, 3, 4, 5, 6, 7, 8};
    const uint64_t failed = faults::failed_allocations();
    faults::fail_nth(nth);
    EXPECT_NO_THROW(speculation.add_text(text));
    faults::fail_nth(0);
    EXPECT_EQ(faults::failed_allocations(), failed + 1);
    EXPECT_NO_THROW(speculation.add_text(text));
  }
}

class NotANumbers : public testing::TestWithParam<Case> {};

TEST_P(NotANumbers, FailsItsRequestAndNoOther) {
  const Case one = GetParam();
  const auto engine = faults::poisoned_engine();
  const auto scheduler = scheduler_of(*engine, one);
  Heard poisoned, beside;
  Job job = job_for(one, faults::kPoisoned), other = job_for(one, 9);
  listen(job, poisoned);
  listen(other, beside);
  const auto clean = scheduler_of(*engine, one);
  Heard right;
  Job same = job_for(one, 9);
  listen(same, right);
  clean->add(JobId{1}, std::move(same));
  test::run_all(*clean);
  for (Token i = 0; i < 60; ++i) job.prompt.push_back(100 + i);  // rows for a policy to choose from
  scheduler->add(JobId{1}, std::move(job));
  scheduler->add(JobId{2}, std::move(other));
  test::run_all(*scheduler);
  ASSERT_TRUE(poisoned.outcome && poisoned.outcome->error);
  EXPECT_EQ(poisoned.outcome->error->why, Refusal::Why::kFailed);
  EXPECT_NE(poisoned.outcome->error->message.find("not finite numbers"), std::string::npos);
  ASSERT_TRUE(beside.outcome && !beside.outcome->error);
  EXPECT_EQ(beside.tokens, right.tokens);
  EXPECT_EQ(beside.text, right.text);
}

TEST(NotANumber, OfASearchLeavesOthersTheirRows) {
  const auto engine = faults::poisoned_engine();
  const auto scheduler = scheduler_of(*engine, {"paged"});
  Heard poisoned, beside;
  Job job = job_for({.name = "beams", .beams = 3}, faults::kPoisoned),
      other = job_of({1, 2, 4}, 20);
  listen(job, poisoned);
  listen(other, beside);
  scheduler->add(JobId{1}, std::move(other));
  scheduler->step();
  scheduler->add(JobId{2}, std::move(job));
  test::run_all(*scheduler);
  ASSERT_TRUE(poisoned.outcome && poisoned.outcome->error);
  EXPECT_NE(poisoned.outcome->error->message.find("not finite numbers"), std::string::npos);
  ASSERT_TRUE(beside.outcome && !beside.outcome->error);
  EXPECT_EQ(scheduler->metrics().recomputations, 0u);
}

TEST(NotANumber, FailsAPromptThatIsPooled) {
  const auto engine = faults::poisoned_engine();
  const auto scheduler = scheduler_of(*engine, {"paged"});
  for (const Pooling kind : {Pooling::kLast, Pooling::kMean}) {
    Heard poisoned;
    Job job = job_of({1, faults::kPoisoned, 3}, 0);
    job.pooling = kind;
    listen(job, poisoned);
    scheduler->add(JobId{1}, std::move(job));
    test::run_all(*scheduler);
    ASSERT_TRUE(poisoned.outcome && poisoned.outcome->error);
    EXPECT_NE(poisoned.outcome->error->message.find("not finite numbers"), std::string::npos);
  }
}

TEST(PooledPrompt, IsLostOrWholeWhicheverAllocationFails) {
  const auto engine = tiny_engine();
  SchedulerOptions options;
  options.kv = parse_kv_options("paged:block=4", "").value();
  options.most_step_tokens = 4;
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  std::vector<Token> prompt(40);
  for (size_t t = 0; t < prompt.size(); ++t) prompt[t] = static_cast<Token>(10 + t);
  const auto run = [&](uint64_t nth) {
    Heard heard;
    Job job = job_of(prompt, 0);
    job.pooling = Pooling::kMean;
    listen(job, heard);
    RunningJobs one = job_list_of(JobId{1}, std::move(job));
    faults::fail_nth(nth);
    scheduler->add(std::move(one));
    for (int steps = 0; scheduler->step() && steps < 10000; ++steps) continue;
    const uint64_t took = faults::allocations();
    faults::fail_nth(0);
    EXPECT_TRUE(heard.outcome.has_value()) << "no end, allocation " << nth;
    return std::pair(took, heard.outcome.value_or(JobOutcome{}));
  };
  run(0);  // until buffers have reached their size
  const auto [took, right] = run(0);
  ASSERT_EQ(right.embedding.size(), engine->model().config().dim);
  const uint64_t failed = faults::failed_allocations();
  for (uint64_t nth = 1; nth <= took; nth += std::max<uint64_t>(1, took / 150)) {
    const JobOutcome outcome = run(nth).second;
    if (!outcome.error) {
      EXPECT_EQ(outcome.embedding, right.embedding) << "allocation " << nth;
    }
    EXPECT_EQ(run(0).second.embedding, right.embedding) << "behind allocation " << nth;
  }
  EXPECT_GT(faults::failed_allocations(), failed);
  EXPECT_EQ(scheduler->metrics().kv.sequences, 0u);
}

TEST(NotANumber, FailsAnAnswerThatIsHeldToAForm) {
  const auto engine = faults::poisoned_engine();
  const auto scheduler = scheduler_of(*engine, {"paged"});
  const auto forms = server::answer_forms(engine->tokenizer());
  Heard poisoned;
  Job job = job_of({1, faults::kPoisoned, 3}, 20);
  job.ignore_end = false;
  job.constraint = forms({{"type", "json_object"}}).value();
  listen(job, poisoned);
  scheduler->add(JobId{1}, std::move(job));
  test::run_all(*scheduler);
  ASSERT_TRUE(poisoned.outcome && poisoned.outcome->error);
  EXPECT_NE(poisoned.outcome->error->message.find("not finite numbers"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, NotANumbers,
    testing::Values(Case{"paged"}, Case{"forks", "virtual", "", "", "", 3},
                    Case{"tier", "", "", "ram:size=16MiB,fast=64KiB,unit=8"},
                    Case{"quest", "paged:block=4", "quest:budget=4,page=2,sinks=1,recent=2"},
                    Case{"sparq", "virtual", "sparq:budget=4,r=4,sinks=1,recent=2"},
                    Case{"clusters", "paged:block=4",
                         "clusters:budget=4,sinks=1,recent=2,cluster=1,block=8"},
                    Case{"h2o", "", "h2o:budget=6"},
                    Case{"scissorhands", "", "scissorhands:budget=8,drop=2,recent=2"},
                    Case{"snapkv", "", "snapkv:budget=6,drop=2,window=2,heads=ada"},
                    Case{"expected", "", "expected:budget=6,drop=2,sinks=1,recent=2,heads=ada"},
                    Case{"streaming", "", "streaming:budget=6,sinks=1"},
                    Case{"drafts", "paged:block=4", "", "", "lookup"},
                    Case{"beams", "paged:block=4", "", "", "", 2, 3}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace kvick::engine
