// Which arithmetic float weights get; answers do not depend on what else runs.

#include <filesystem>
#include <gtest/gtest.h>
#include <list>
#include <numeric>
#include <unistd.h>

#include "engine/prefix/prefix_files.h"
#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

using test::Heard;
using test::job_of;

std::unique_ptr<Engine> bf16_engine(FloatActivations activations) {
  tools::Spec spec = model::tiny_spec(tools::Arch::kLlama, kernels::DType::kBF16);
  spec.context = 512;
  base::ThreadPool pool(1);
  const std::string path = model::write_model(spec, pool, false);
  auto engine = Engine::open(
      {.model_path = path, .threads = 2, .fingerprint = true, .float_activations = activations});
  std::filesystem::remove(path);
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
  return std::move(engine).value();
}

TEST(ChooseTable, RoundsIfAskedToAndNotByDefault) {
  const kernels::Table* rounding = kernels::rounding_table(base::best_isa());
  EXPECT_EQ(choose_table(base::best_isa(), FloatActivations::kF32).value(),
            &kernels::table(base::best_isa()));
  EXPECT_EQ(EngineOptions().float_activations, FloatActivations::kF32);
  if (rounding != nullptr) {
    EXPECT_EQ(choose_table(base::best_isa(), FloatActivations::kBf16).value(), rounding);
  }
}

TEST(ChooseTable, SaysWhatProductsOfBf16Need) {
  const auto refused = choose_table(base::Isa::kScalar, FloatActivations::kBf16);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "activations of bf16 need AVX-512 BF16, but this runs on scalar: ask for auto");
  EXPECT_EQ(choose_table(base::Isa::kScalar, FloatActivations::kAuto).value(),
            &kernels::table(base::Isa::kScalar));
}

class RoundedAnswers : public testing::Test {
 protected:
  void SetUp() override {
    if (kernels::rounding_table(base::best_isa()) == nullptr)
      GTEST_SKIP() << "no products of bfloat16 on this processor";
  }
};

TEST_F(RoundedAnswers, AreTheSameAloneAndInABatch) {
  const auto engine = bf16_engine(FloatActivations::kBf16);
  const auto scheduler = std::move(Scheduler::make(*engine, {})).value();
  std::vector<Job> jobs;
  for (uint32_t i = 0; i < 12; ++i) {
    std::vector<Token> prompt(1 + 7 * i);
    for (size_t t = 0; t < prompt.size(); ++t)
      prompt[t] = static_cast<Token>(t < 20 ? 10 + t : 3 + (t * i + 5) % 200);
    jobs.push_back(job_of(prompt, 5 + 3 * i));
  }
  std::list<Heard> heard;
  uint64_t next = 1;
  for (Job job : jobs) {
    test::listen(job, heard.emplace_back());
    scheduler->add(JobId{next++}, std::move(job));
    if (next % 3 == 0) scheduler->step();
  }
  test::run_all(*scheduler);
  auto one = heard.begin();
  for (const Job& job : jobs)
    EXPECT_EQ((one++)->tokens.at(0), test::alone(*engine, job, 0, {}).tokens);
}

TEST_F(RoundedAnswers, DoNotTakeRowsThatTheOtherArithmeticHasFiled) {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::temp_directory_path() / ("kvick-activations-" + std::to_string(::getpid()));
  fs::remove_all(folder);
  std::vector<Token> prompt(300);
  std::iota(prompt.begin(), prompt.end(), 3);
  const auto cached = [&](FloatActivations activations) {
    const auto engine = bf16_engine(activations);
    SchedulerOptions options;
    options.files = std::move(PrefixFiles::open({.folder = folder})).value();
    const auto scheduler = std::move(Scheduler::make(*engine, options)).value();
    Heard heard;
    Job job = job_of(prompt, 2);
    test::listen(job, heard);
    scheduler->add(JobId{1}, std::move(job));
    test::run_all(*scheduler);
    options.files->flush();
    return heard.outcome->cached_tokens;
  };
  EXPECT_EQ(cached(FloatActivations::kF32), 0U);
  EXPECT_EQ(cached(FloatActivations::kBf16), 0U);
  EXPECT_EQ(cached(FloatActivations::kBf16), 256U);
  EXPECT_EQ(cached(FloatActivations::kF32), 256U);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace kvick::engine
