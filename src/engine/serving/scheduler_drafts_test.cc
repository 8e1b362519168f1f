// Draft tokens do not change the answers of jobs, whatever else runs.

#include <gtest/gtest.h>
#include <list>
#include <random>
#include <stdexcept>

#include "engine/serving/step_work.h"
#include "engine/serving/test_jobs.h"
#include "engine/sharing/failure_text.h"
#include "engine/speculation/test_draft_model.h"

namespace kvick::engine {
namespace {

using test::alone;
using test::DraftModelFile;
using test::Heard;
using test::job_of;
using test::listen;
using test::run_all;

std::unique_ptr<Scheduler> scheduler_of(Engine& engine, const KvOptions& kv,
                                        const std::string& spec, uint64_t bytes = UINT64_MAX) {
  SchedulerOptions options;
  options.kv = kv;
  options.kv_bytes = bytes;
  options.headroom_tokens = 2;
  options.spec = parse_spec_options(spec).value();
  return std::move(Scheduler::make(engine, options)).value();
}

// Jobs with repetitive prompts, greedy and sampled, with one or three choices.
std::vector<Job> jobs_of(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Job> jobs;
  for (uint32_t i = 0; i < 9; ++i) {
    std::vector<Token> prompt;
    const uint32_t period = 2 + random() % 5;
    for (uint32_t t = 0; t < 12 + random() % 20; ++t)
      prompt.push_back(static_cast<Token>(7 + i + t % period));
    Job job = job_of(prompt, 10 + random() % 40);
    job.choices = i % 4 == 3 ? 3 : 1;
    job.sampling.seed = random();
    job.sampling.temperature = i % 2 == 0 ? 0.F : 0.5F;
    job.sampling.top_k = 3;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

struct Outcomes {
  std::list<Heard> heard;
  Metrics metrics;
};

Outcomes run(Scheduler& scheduler, const std::vector<Job>& jobs) {
  Outcomes out;
  uint64_t id = 1;
  for (Job job : jobs) {
    listen(job, out.heard.emplace_back());
    EXPECT_FALSE(scheduler.refuses(job).has_value());
    scheduler.add(JobId{id++}, std::move(job));
    if (id % 3 == 0) scheduler.step();
  }
  run_all(scheduler);
  out.metrics = scheduler.metrics();
  return out;
}

void expect_answers(Engine& engine, const std::vector<Job>& jobs, Outcomes& out,
                    const KvOptions& kv) {
  auto heard = out.heard.begin();
  uint64_t drafted = 0, accepted = 0;
  for (const Job& job : jobs) {
    for (uint32_t c = 0; c < job.choices; ++c) {
      const Answer answer = alone(engine, job, c, kv);
      EXPECT_EQ(heard->tokens[c], answer.tokens) << kv.spec.name;
      EXPECT_EQ(heard->text[c], answer.text) << kv.spec.name;
    }
    drafted += heard->outcome->drafted;
    accepted += heard->outcome->accepted;
    ++heard;
  }
  EXPECT_EQ(drafted, out.metrics.drafted);
  EXPECT_EQ(accepted, out.metrics.accepted);
}

// Under sanitizers this test takes minutes, so they get half of the cases.
#if defined(KVICK_SANITIZED)
constexpr const char* kEverywhere[] = {"lookup:gain=off", "auto"};
#else
constexpr const char* kEverywhere[] = {"lookup:gain=off", "auto", "suffix:most=3,gain=off",
                                       "lookup"};
#endif

TEST(SchedulerDrafts, AnswerAsWithoutThemOnEveryStore) {
  const auto engine = tiny_engine();
  for (const kv::Strategy& strategy : kv::strategies()) {
    if (strategy.traits.slots) continue;
    for (const char* spec : kEverywhere) {
      SCOPED_TRACE(fmt::format("{} {}", strategy.name, spec));
      const auto scheduler = scheduler_of(*engine, kv_of(strategy), spec);
      const std::vector<Job> jobs = jobs_of(4);
      Outcomes out = run(*scheduler, jobs);
      expect_answers(*engine, jobs, out, kv_of(strategy));
      EXPECT_EQ(out.metrics.kv.used_bytes, 0u);
      if (spec == std::string("lookup:gain=off")) {
        EXPECT_GT(out.metrics.drafted, 0u);
      }
    }
  }
}

TEST(SchedulerDrafts, AnswerTheSameWhenMemoryRunsOut) {
  const auto engine = tiny_engine();
  const uint64_t token = engine->make_store({}).value()->shape().token_bytes();
  for (const char* name : {"paged:block=4", "bmc:r=4"}) {
    const KvOptions kv = parse_kv_options(name, "").value();
    const auto scheduler = scheduler_of(*engine, kv, "lookup:gain=off,grow=on", 200 * token);
    const std::vector<Job> jobs = jobs_of(5);
    Outcomes out = run(*scheduler, jobs);
    expect_answers(*engine, jobs, out, kv);
    EXPECT_GT(out.metrics.recomputations, 0u) << name << ": memory was not scarce";
  }
}

TEST(SchedulerDrafts, AreAJobsToChoose) {
  const auto engine = tiny_engine();
  const auto scheduler = scheduler_of(*engine, parse_kv_options("paged", "").value(), "none");
  std::vector<Job> jobs = {job_of(std::vector<Token>(20, 5), 30),
                           job_of(std::vector<Token>(20, 6), 30)};
  jobs[1].spec = parse_spec_options("lookup:gain=off").value();
  Outcomes out = run(*scheduler, jobs);
  EXPECT_EQ(out.heard.front().outcome->drafted, 0u);
  EXPECT_GT(out.heard.back().outcome->drafted, 0u);
  expect_answers(*engine, jobs, out, parse_kv_options("paged", "").value());

  const auto refusal = [&](const char* spec, uint32_t beams) {
    Job job = job_of({1, 2}, 4);
    job.logprobs.reset();
    job.beams = beams;
    job.spec = parse_spec_options(spec).value();
    const auto refused = scheduler->refuses(job);
    return refused ? refused->field : "";
  };
  EXPECT_EQ(refusal("lookup", 2), "spec");
  EXPECT_EQ(refusal("draft:model=/etc/passwd", 0), "spec");
  EXPECT_EQ(refusal("auto:model=/etc/passwd", 0), "spec");
  EXPECT_EQ(refusal("skip:layers=99", 0), "spec");
  EXPECT_EQ(refusal("auto", 0), "");
}

TEST(SchedulerDrafts, SeeNoTextsOfAnotherSalt) {
  const auto engine = tiny_engine();
  const auto scheduler =
      scheduler_of(*engine, parse_kv_options("paged", "").value(), "suffix:gain=off");
  const auto drafted = [&](const std::string& salt) {
    Job job = job_of({9, 8, 7, 6, 5}, 40);
    job.salt = salt;
    return run(*scheduler, {job}).heard.front().outcome->drafted;
  };
  EXPECT_EQ(drafted("mine"), 0u);
  EXPECT_EQ(drafted(""), 0u) << "the salted one's text was shown";
  EXPECT_GT(drafted(""), 0u);
  EXPECT_EQ(drafted("mine"), 0u);
}

TEST(SchedulerDrafts, KnowAPromptOnceHoweverManyAnswersItHas) {
  const auto engine = tiny_engine(512);
  const auto scheduler =
      scheduler_of(*engine, parse_kv_options("paged", "").value(), "suffix:gain=off");
  const auto accepted = [&](const Job& job) {
    return run(*scheduler, {job}).heard.front().outcome->accepted;
  };
  const Job first = job_of({9, 8, 7, 6, 5}, 40);
  accepted(first);
  // Counted with their prompts, these answers have more tokens than the index remembers.
  Job many = job_of(std::vector<Token>(500, 3), 1);
  many.choices = 128;
  for (uint32_t tokens = 0; tokens <= Speculation::kTextTokens; tokens += 500 * many.choices)
    accepted(many);
  EXPECT_GT(accepted(first), 20u);
}

TEST(SchedulerDrafts, RowsOfADraftModelAreUnderTheLimitAndTheFirstToGo) {
  const auto engine = tiny_engine(128);
  const DraftModelFile draft(128);
  const KvOptions kv = parse_kv_options("paged:block=4", "").value();
  const uint64_t token = engine->make_store(kv).value()->shape().token_bytes();
  const std::vector<Job> jobs = jobs_of(3);
  for (const uint64_t limit : {300 * token, 900 * token}) {
    const auto scheduler = scheduler_of(*engine, kv, "draft:model=" + draft.path(), limit);
    std::list<Heard> heard;
    uint64_t id = 1, most_draft_bytes = 0;
    for (Job job : jobs) {
      listen(job, heard.emplace_back());
      scheduler->add(JobId{id++}, std::move(job));
    }
    while (scheduler->step()) {
      const Metrics now = scheduler->metrics();
      most_draft_bytes = std::max(most_draft_bytes, now.draft_bytes);
      ASSERT_LE(now.kv.allocated_bytes + now.draft_bytes, limit);
    }
    if (limit == 900 * token) {
      EXPECT_GT(most_draft_bytes, 0U);
    }
    auto at = heard.begin();
    for (const Job& job : jobs) {
      for (uint32_t c = 0; c < job.choices; ++c)
        EXPECT_EQ(at->tokens[c], alone(*engine, job, c, kv).tokens);
      EXPECT_FALSE(at->outcome->error.has_value());
      ++at;
    }
  }
}

TEST(SchedulerDrafts, OfAModelMakeRoomForAnotherInstanceBeforeAnyJobDoes) {
  const auto engine = tiny_engine(128);
  const DraftModelFile draft(128);
  SchedulerOptions options;
  options.kv = parse_kv_options("paged:block=4", "").value();
  options.spec = parse_spec_options("draft:gain=off,model=" + draft.path()).value();
  options.memory = std::make_shared<MemoryShare>(uint64_t{1} << 30, 2);
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  run(*scheduler, {job_of({9, 8, 7, 6, 5}, 20)});  // leaves cached rows
  Heard heard;
  Job job = job_of({1, 2, 3}, 100);
  const Answer right = alone(*engine, job, 0, options.kv);
  listen(job, heard);
  scheduler->add(JobId{100}, std::move(job));
  for (int step = 0; step < 5; ++step) scheduler->step();
  const Metrics had = scheduler->metrics();
  ASSERT_GT(had.kv.cached_bytes, 0u);
  ASSERT_GT(had.draft_bytes, 0u);
  options.memory->ask(
      1, {.bytes = had.kv.cached_bytes + had.draft_bytes, .rank = Rank{.order = 1e12}});
  scheduler->step();
  EXPECT_EQ(scheduler->metrics().draft_bytes, 0u);
  EXPECT_EQ(scheduler->metrics().recomputations, 0u) << "both were enough";
  run_all(*scheduler);
  EXPECT_EQ(heard.tokens[0], right.tokens);
}

TEST(SchedulerDrafts, TellWhatADrafterThrewThatReadsStates) {
  struct Throws final : Drafter {
    bool reads_states() const override { return true; }
    void see(const SeenRows&) override { throw std::runtime_error("a bug"); }
    void draft(const DraftAsk&, DraftTree&) override {}
  };
  const auto engine = tiny_engine();
  const model::Executor executor = engine->make_executor();
  Speculation speculation(*engine);
  RunningJob running;
  AnswerSequence& answer = running.answers.emplace_back();
  const StepWork work = {.running = &running, .answer = 0, .tokens = 0, .logits = false};
  EXPECT_EQ(show_states(work, 0, executor), nullptr) << "it has no speculator";
  answer.speculator = speculation.begin(parse_spec_options("lookup").value());
  answer.speculator->add(std::make_unique<Throws>());
  const std::exception_ptr failed = show_states(work, 0, executor);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failure_text(failed), "a bug");
  EXPECT_EQ(show_states(work, 0, executor), nullptr) << "it is reported again";
}

// All of the prompts are in the cache, so their answers begin in the same step. The draft model has
// read none of them.
TEST(SchedulerDrafts, OfAModelReadNoMoreTextsAtOnceThanAStepHasTokens) {
  const auto engine = tiny_engine(256);
  const DraftModelFile draft(256);
  SchedulerOptions options;
  options.kv = parse_kv_options("paged:block=4", "f16").value();
  options.most_step_tokens = 110;
  options.spec = parse_spec_options("draft:most=2,depth=1,gain=off,model=" + draft.path()).value();
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  std::list<Heard> heard;
  uint64_t id = 1;
  const auto add_all = [&](bool drafts) {
    for (Token first = 10; first < 14; ++first) {
      std::vector<Token> prompt(100, first);
      for (size_t i = 0; i < prompt.size(); i += 3) prompt[i] = static_cast<Token>(20 + i % 7);
      Job job = job_of(std::move(prompt), drafts ? 30 : 1);
      if (!drafts) job.spec = parse_spec_options("none").value();
      listen(job, heard.emplace_back());
      scheduler->add(JobId{id++}, std::move(job));
    }
  };
  add_all(false);
  run_all(*scheduler);
  ASSERT_EQ(scheduler->metrics().draft_bytes, 0U);
  add_all(true);
  uint64_t before = 0, most_growth = 0;
  while (scheduler->step()) {
    const uint64_t now = scheduler->metrics().draft_bytes;
    most_growth = std::max(most_growth, now - std::min(now, before));
    before = std::max(before, now);
  }
  EXPECT_GT(scheduler->metrics().drafted, 0U);
  EXPECT_GT(most_growth, 0U);
  EXPECT_LE(most_growth, before / 2) << "of four texts, of which a step has tokens for one";
  ASSERT_EQ(heard.size(), 8U);
  for (Heard& one : heard) {
    ASSERT_TRUE(one.outcome.has_value());
    EXPECT_FALSE(one.outcome->error.has_value());
  }
  auto at = std::next(heard.begin(), 4);
  for (Token first = 10; first < 14; ++first, ++at) {
    std::vector<Token> prompt(100, first);
    for (size_t i = 0; i < prompt.size(); i += 3) prompt[i] = static_cast<Token>(20 + i % 7);
    EXPECT_EQ(at->tokens[0], alone(*engine, job_of(std::move(prompt), 30), 0, options.kv).tokens);
  }
}

// A fork that copies its rows finds no room beside the rows of the draft model.
TEST(SchedulerDrafts, OfAModelMakeRoomForAForkBeforeAnyJobDoes) {
  const auto engine = tiny_engine(128);
  const DraftModelFile draft(128);
  SchedulerOptions options;
  options.kv = parse_kv_options("bmc:r=64", "f16").value();
  options.headroom_tokens = 2;
  options.most_step_tokens = 30;
  options.spec = parse_spec_options("draft:most=1,depth=1,gain=off,model=" + draft.path()).value();
  const uint64_t token = engine->make_store(options.kv).value()->shape().token_bytes();
  // Three buckets: of the job that drafts and of the two choices.
  options.kv_bytes = (3 * 64 + 10) * token;
  const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
  std::vector<Job> jobs = {job_of(std::vector<Token>(30, 5), 20),
                           job_of(std::vector<Token>(50, 6), 8)};
  jobs[1].choices = 2;
  jobs[1].spec = parse_spec_options("none").value();
  std::list<Heard> heard;
  uint64_t id = 1, most_draft_bytes = 0;
  for (Job job : jobs) {
    listen(job, heard.emplace_back());
    scheduler->add(JobId{id++}, std::move(job));
  }
  while (scheduler->step())
    most_draft_bytes = std::max(most_draft_bytes, scheduler->metrics().draft_bytes);
  EXPECT_GT(most_draft_bytes, 10 * token) << "the fork had room";
  EXPECT_EQ(scheduler->metrics().recomputations, 0u);
  auto at = heard.begin();
  for (const Job& job : jobs) {
    for (uint32_t c = 0; c < job.choices; ++c)
      EXPECT_EQ(at->tokens[c], alone(*engine, job, c, options.kv).tokens);
    EXPECT_FALSE(at->outcome->error.has_value());
    ++at;
  }
}

}  // namespace
}  // namespace kvick::engine
