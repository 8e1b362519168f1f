// Several tiers of one loader, and handovers of prompts.

#include <filesystem>
#include <gtest/gtest.h>
#include <numeric>

#include "engine/prefix/prefix_files.h"
#include "engine/prefix/test_scripted_tier.h"
#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

namespace fs = std::filesystem;
using test::Heard;
using test::job_of;
using test::listen;
using test::run_all;
using test::ScriptedTier;

class PrefixTiersTest : public testing::Test {
 protected:
  PrefixTiersTest()
      : folder_(fs::temp_directory_path() / ("kvick-tiers-" + std::to_string(::getpid()))),
        engine_(tiny_engine(1024)) {
    fs::remove_all(folder_);
    std::iota(prompt_.begin(), prompt_.end(), 3);
  }
  ~PrefixTiersTest() override { fs::remove_all(folder_); }

  void make_scheduler(double seconds = 60, std::shared_ptr<MemoryShare> memory = {}) {
    SchedulerOptions options;
    options.memory = std::move(memory);
    options.kv = parse_kv_options("paged:block=16,prefix=off", "").value();
    options.files = files_;
    options.store = store_;
    options.file_seconds = seconds;
    scheduler_ = std::move(Scheduler::make(*engine_, options)).value();
  }
  Heard answer(std::optional<Handover> handover = {}) {
    if (scheduler_ == nullptr) make_scheduler();
    Heard heard;
    Job job = job_of(prompt_, 10);
    job.handover = std::move(handover);
    listen(job, heard);
    scheduler_->add(JobId{next_++}, std::move(job));
    run_all(*scheduler_);
    if (files_ != nullptr) files_->flush();
    return heard;
  }
  // Answers after a restart: nothing is in memory.
  Heard fresh_answer(std::optional<Handover> handover = {}) {
    scheduler_ = nullptr;
    return answer(std::move(handover));
  }
  static Handover give() { return {.side = Handover::Side::kGive, .arithmetic = {}}; }
  static Handover take(std::string arithmetic) {
    return {.side = Handover::Side::kTake, .arithmetic = std::move(arithmetic)};
  }

  fs::path folder_;
  std::unique_ptr<Engine> engine_;
  std::vector<Token> prompt_ = std::vector<Token>(300);
  std::shared_ptr<PrefixTier> files_;
  std::shared_ptr<ScriptedTier> store_ = std::make_shared<ScriptedTier>();
  std::unique_ptr<Scheduler> scheduler_;
  uint64_t next_ = 1;
};

TEST_F(PrefixTiersTest, TheStoreGivesWhatTheFolderLacksAndEachIsGivenAll) {
  const Heard cold = answer();
  EXPECT_EQ(store_->blocks.size(), 2u);
  files_ = std::move(PrefixFiles::open({.folder = folder_})).value();
  EXPECT_EQ(fresh_answer().outcome->cached_tokens, 256u);
  EXPECT_EQ(store_->reads, 2u);
  EXPECT_EQ(files_->counts().files, 2u) << "what comes from the store goes to the folder";
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder_)) paths.push_back(entry.path());
  for (size_t lost = 0; lost < 2; ++lost) {
    fs::remove(paths[lost]);
    files_ = std::move(PrefixFiles::open({.folder = folder_})).value();
    store_->reads = 0;
    const Heard warm = fresh_answer();
    EXPECT_EQ(warm.outcome->cached_tokens, 256u);
    EXPECT_EQ(warm.tokens, cold.tokens);
    EXPECT_EQ(warm.logprobs, cold.logprobs);
    // Without the first block both are read from the store; without the second, only that one.
    EXPECT_GE(store_->reads, 1u);
    EXPECT_EQ(files_->counts().files, 2u);
  }
}

TEST_F(PrefixTiersTest, ReadsNothingThatWouldComeLaterThanComputing) {
  const Heard cold = answer();  // measures how long computing takes
  EXPECT_EQ(answer().outcome->cached_tokens, 256u);
  EXPECT_EQ(store_->reads, 2u);
  store_->rate = 1e3;
  const Heard slow = answer();
  EXPECT_EQ(slow.outcome->cached_tokens, 0u);
  EXPECT_EQ(slow.tokens, cold.tokens);
  EXPECT_EQ(store_->reads, 2u);
}

TEST_F(PrefixTiersTest, DoesNotWaitForAStoreThatSaysNothing) {
  const Heard cold = answer();
  store_->answers = false;
  scheduler_ = nullptr;
  make_scheduler(0.02);
  const Heard warm = answer();
  EXPECT_EQ(warm.outcome->cached_tokens, 0u);
  EXPECT_EQ(warm.tokens, cold.tokens);
  EXPECT_EQ(store_->reads, 0u);
}

TEST_F(PrefixTiersTest, UsesWhatHasComeWhenTheRestIsLate) {
  const Heard cold = answer();
  store_->most_read = 1;
  scheduler_ = nullptr;
  make_scheduler(0.02);
  const Heard warm = answer();
  EXPECT_EQ(warm.outcome->cached_tokens, 128u);
  EXPECT_EQ(warm.tokens, cold.tokens);
  EXPECT_EQ(warm.logprobs, cold.logprobs);
  EXPECT_EQ(store_->abandoned, 1u);
}

TEST_F(PrefixTiersTest, CountsAJobThatIsPreemptedWhileItWaitsForRowsAsOnceInTheQueue) {
  const Heard cold = answer();
  const auto share = std::make_shared<MemoryShare>(uint64_t{1} << 30, 2);
  make_scheduler(60, share);
  store_->answers = false;
  Heard heard;
  Job job = job_of(prompt_, 10);
  listen(job, heard);
  scheduler_->add(JobId{1}, std::move(job));
  scheduler_->step();
  EXPECT_EQ(scheduler_->metrics().running, 1u);
  // Another scheduler wants all memory for a job that ranks ahead.
  const MemoryAsk all = {.bytes = uint64_t{1} << 30, .rank = Rank{.order = 1e9, .job = 99}};
  share->publish(1, {.runs = true, .cached_bytes = 0, .wanted = all});
  share->ask(1, all);
  scheduler_->step();
  const Metrics paused = scheduler_->metrics();
  EXPECT_EQ(paused.running, 0u);
  EXPECT_EQ(paused.waiting, 0u);
  EXPECT_EQ(paused.preempted, 1u);
  share->publish(1, {});
  store_->answers = true;
  run_all(*scheduler_);
  EXPECT_EQ(heard.outcome->cached_tokens, 256u);
  EXPECT_EQ(heard.tokens, cold.tokens);
  EXPECT_EQ(scheduler_->metrics().queue.count(), 1u);
  EXPECT_EQ(scheduler_->begun_jobs(), 1u);
}

TEST_F(PrefixTiersTest, HandsAWholePromptOverWhateverItsLength) {
  for (const size_t length : {1u, 2u, 100u, 128u, 129u, 255u, 256u, 257u, 300u}) {
    SCOPED_TRACE(length);
    prompt_.resize(length);
    std::iota(prompt_.begin(), prompt_.end(), 3);
    store_ = std::make_shared<ScriptedTier>();
    scheduler_ = nullptr;
    const Heard given = answer(give());
    ASSERT_TRUE(given.outcome->given.has_value());
    store_->rate = 1e9;  // a slow store is no reason not to fetch a handover
    const Heard taken = fresh_answer(take(*given.outcome->given));
    EXPECT_EQ(taken.outcome->cached_tokens, length - 1);
    EXPECT_EQ(taken.tokens, given.tokens);
    EXPECT_EQ(taken.logprobs, given.logprobs);
    EXPECT_FALSE(taken.outcome->given.has_value());
    EXPECT_EQ(scheduler_->metrics().handovers.taken, 1u);
    EXPECT_GT(length == 1 ? 1 : store_->patience, 0) << "it waits for blocks on their way";
  }
}

TEST_F(PrefixTiersTest, ComputesWhatIsNotHandedOver) {
  const Heard given = answer(give());
  store_->blocks.erase(store_->blocks.begin());
  const Heard taken = fresh_answer(take(*given.outcome->given));
  EXPECT_LT(taken.outcome->cached_tokens, 299u);
  EXPECT_EQ(taken.tokens, given.tokens);
  EXPECT_EQ(scheduler_->metrics().handovers.computed, 1u);
  store_->blocks.clear();
  EXPECT_EQ(fresh_answer(take("other")).tokens, given.tokens);
  EXPECT_EQ(scheduler_->metrics().handovers.computed, 1u);
  EXPECT_EQ(store_->blocks.size(), 0u) << "rows of another arithmetic are not passed on";
}

TEST_F(PrefixTiersTest, PromisesNothingWithoutAStore) {
  store_->connected = false;
  EXPECT_FALSE(answer(give()).outcome->given.has_value());
  scheduler_ = nullptr;
  store_ = nullptr;
  files_ = std::move(PrefixFiles::open({.folder = folder_})).value();
  EXPECT_FALSE(answer(give()).outcome->given.has_value());
}

}  // namespace
}  // namespace kvick::engine
