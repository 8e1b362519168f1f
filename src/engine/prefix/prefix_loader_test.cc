#include "engine/prefix/prefix_loader.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <list>
#include <numeric>
#include <set>

#include "engine/core/test_mixed.h"
#include "engine/prefix/prefix_files.h"
#include "engine/serving/test_jobs.h"

namespace kvick::engine {
namespace {

namespace fs = std::filesystem;
using test::alone;
using test::Heard;
using test::job_of;
using test::listen;
using test::run_all;

class PrefixLoaderTest : public testing::Test {
 protected:
  PrefixLoaderTest()
      : folder_(fs::temp_directory_path() / ("kvick-tier-" + std::to_string(::getpid()))),
        engine_(tiny_engine(1024)) {
    fs::remove_all(folder_);
    std::iota(prompt_.begin(), prompt_.end(), 3);
  }
  ~PrefixLoaderTest() override { fs::remove_all(folder_); }

  std::shared_ptr<PrefixTier> files() const {
    return std::move(PrefixFiles::open({.folder = folder_})).value();
  }
  Heard answer(const std::shared_ptr<PrefixTier>& files, const std::string& kv = "paged:block=16",
               const std::string& type = "", const std::string& salt = "", uint32_t choices = 1) {
    SchedulerOptions options;
    options.kv = parse_kv_options(kv, type).value();
    options.files = files;
    const auto scheduler = std::move(Scheduler::make(*engine_, options)).value();
    Heard heard;
    Job job = job_of(prompt_, 10);
    job.salt = salt;
    job.choices = choices;
    listen(job, heard);
    scheduler->add(JobId{1}, std::move(job));
    run_all(*scheduler);
    files->flush();
    metrics_ = scheduler->metrics();
    return heard;
  }

  fs::path folder_;
  std::unique_ptr<Engine> engine_;
  std::vector<Token> prompt_ = std::vector<Token>(300);
  Metrics metrics_;
};

// Moved rows depend on the options `least` and `seam`, so other options must not find them.
TEST_F(PrefixLoaderTest, TellsRowsApartThatWereMovedOtherwise) {
  const auto tier = files();
  const auto arithmetic = [&](const char* reuse) {
    return PrefixLoader(*engine_, {tier}, 1, parse_reuse_options(reuse).value()).arithmetic();
  };
  const std::set<std::string> all = {arithmetic("exact"), arithmetic("shift"),
                                     arithmetic("shift:least=100"), arithmetic("shift:seam=0")};
  EXPECT_EQ(all.size(), 4u);
  EXPECT_EQ(arithmetic("shift"), arithmetic("shift:least=64,seam=16"));
}

TEST_F(PrefixLoaderTest, AnswersTheSameWithRowsOfAnEarlierProcess) {
  const Heard cold = answer(files());
  EXPECT_EQ(cold.outcome->cached_tokens, 0u);
  EXPECT_EQ(metrics_.files.writes, 2u);
  EXPECT_EQ(metrics_.files.limit_bytes, PrefixFilesOptions{}.max_bytes);
  for (const char* kv : {"paged:block=16", "paged:block=48", "virtual", "bmc:r=32"}) {
    Heard warm = answer(files(), kv);
    EXPECT_EQ(warm.outcome->cached_tokens, 256u) << kv;
    EXPECT_EQ(warm.tokens, cold.tokens) << kv;
    EXPECT_EQ(metrics_.files.hits, 2u);
  }
  const Heard many = answer(files(), "paged", "", "", 3);
  EXPECT_EQ(many.outcome->cached_tokens, 256u);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(many.tokens.at(i), cold.tokens.at(0));
}

TEST_F(PrefixLoaderTest, KeepsTenantsAndElementTypesApart) {
  answer(files(), "paged", "f16", "a");
  EXPECT_EQ(answer(files(), "paged", "f16", "b").outcome->cached_tokens, 0u);
  EXPECT_EQ(answer(files(), "paged", "f16", "").outcome->cached_tokens, 0u);
  EXPECT_EQ(answer(files(), "paged", "bf16", "a").outcome->cached_tokens, 0u);
  EXPECT_EQ(answer(files(), "paged", "f16", "a").outcome->cached_tokens, 256u);
  EXPECT_EQ(answer(files(), "paged", "bf16", "a").outcome->cached_tokens, 256u);
}

TEST_F(PrefixLoaderTest, ComputesAgainWhatIsDamagedLateOrGone) {
  const Heard cold = answer(files());
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder_)) paths.push_back(entry.path());
  ASSERT_EQ(paths.size(), 2u);
  for (const fs::path& path : paths) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(500);
    file.put('!');
  }
  EXPECT_EQ(answer(files()).tokens, cold.tokens);
  EXPECT_EQ(metrics_.files.torn, 1u);
  EXPECT_EQ(metrics_.cached_tokens, 0u);
  const auto open = files();
  fs::remove_all(folder_);
  EXPECT_EQ(answer(open).tokens, cold.tokens);
}

TEST_F(PrefixLoaderTest, WaitsForASlowDiskNoLongerThanItMay) {
  const Heard cold = answer(files());
  std::atomic<bool> slow{true};
  PrefixFilesOptions options = {.folder = folder_};
  options.read = [&](const fs::path&, size_t) -> std::optional<std::string> {
    while (slow) std::this_thread::yield();
    return std::nullopt;
  };
  const std::shared_ptr<PrefixTier> files = std::move(PrefixFiles::open(options)).value();
  SchedulerOptions batch;
  batch.kv = parse_kv_options("paged", "").value();
  batch.files = files;
  batch.file_seconds = 0.02;
  const auto scheduler = std::move(Scheduler::make(*engine_, batch)).value();
  Heard heard, beside;
  Job job = job_of(prompt_, 10), other = job_of({1, 2}, 20);
  listen(job, heard);
  listen(other, beside);
  scheduler->add(JobId{1}, std::move(job));
  scheduler->add(JobId{2}, std::move(other));
  run_all(*scheduler);
  slow = false;
  EXPECT_EQ(heard.tokens, cold.tokens);
  EXPECT_EQ(heard.outcome->cached_tokens, 0u);
  EXPECT_EQ(scheduler->metrics().files.late, 1u);
  EXPECT_EQ(beside.tokens[0].size(), 20u);
}

TEST_F(PrefixLoaderTest, BringsBackFromFilesWhatHadToMakeWay) {
  const uint64_t token = engine_->make_store({}).value()->shape().token_bytes();
  SchedulerOptions options;
  options.kv = parse_kv_options("paged:block=16,prefix=off", "").value();
  options.kv_bytes = 700 * token;
  options.headroom_tokens = 2;
  options.files = files();
  const auto scheduler = std::move(Scheduler::make(*engine_, options)).value();
  std::list<Heard> heard;
  std::vector<Job> jobs;
  for (Token i = 0; i < 4; ++i) {
    Job job = job_of(prompt_, 150);
    job.prompt[0] = 100 + i;
    jobs.push_back(job);
    listen(job, heard.emplace_back());
    scheduler->add(JobId{static_cast<uint64_t>(i)}, std::move(job));
    scheduler->step();
    options.files->flush();
  }
  for (int steps = 0; scheduler->step(); ++steps) {
    options.files->flush();
    ASSERT_LT(steps, 100000);
  }
  const Metrics metrics = scheduler->metrics();
  EXPECT_GT(metrics.swaps + metrics.recomputations, 0u) << "memory was not scarce";
  EXPECT_GT(metrics.swapped_bytes, 0u);
  size_t i = 0;
  for (const Heard& one : heard)
    EXPECT_EQ(one.tokens.at(0), alone(*engine_, jobs[i++], 0, {}).tokens);
}

// Runs jobs that preempt each other, on a model with different kinds of layers and a file tier.
Metrics swapped(Engine& engine, const std::vector<Token>& prompt,
                const std::shared_ptr<PrefixTier>& files) {
  SchedulerOptions options;
  options.kv = parse_kv_options("paged:block=16,prefix=off", "").value();
  // Two prompts fit into memory, but not with both answers.
  const uint64_t all = engine.store_info(options.kv).used_bytes(350);  // of one job at its end
  options.kv_bytes = all * 19 / 10;
  options.headroom_tokens = 2;
  options.files = files;
  const auto scheduler = std::move(Scheduler::make(engine, options)).value();
  std::list<Heard> heard;
  std::vector<Job> jobs;
  for (Token i = 0; i < 3; ++i) {
    Job job = job_of(prompt, 50);
    job.prompt[0] = 100 + i;
    jobs.push_back(job);
    listen(job, heard.emplace_back());
    scheduler->add(JobId{static_cast<uint64_t>(i)}, std::move(job));
    scheduler->step();
    files->flush();
  }
  for (int steps = 0; scheduler->step(); ++steps) {
    files->flush();
    EXPECT_LT(steps, 100000);
  }
  size_t i = 0;
  for (const Heard& one : heard) {
    EXPECT_FALSE(one.outcome->error.has_value()) << one.outcome->error->message;
    if (one.outcome->error) continue;
    EXPECT_EQ(one.tokens.at(0), alone(engine, jobs[i++], 0, {}).tokens);
  }
  const Metrics metrics = scheduler->metrics();
  EXPECT_GT(metrics.swaps + metrics.recomputations, 0u) << "memory was not scarce";
  return metrics;
}

TEST_F(PrefixLoaderTest, ServesLayersThatDiffer) {
  int of_windows = 0, of_others = 0, others = 0;
  for (const MixedCase& one : mixed_cases()) {
    if (one.name == std::string("SharedRows") || one.name == std::string("Chunks")) continue;
    SCOPED_TRACE(one.name);
    fs::remove_all(folder_);
    engine_ = mixed_engine(one.features, 1024);
    const Metrics metrics = swapped(*engine_, prompt_, files());
    // With windows a job may be preempted before it has a whole block.
    (one.windows ? of_windows : of_others) += metrics.swapped_bytes > 0 ? 1 : 0;
    others += one.windows ? 0 : 1;
    EXPECT_GT(metrics.files.writes, 0u);
    const Heard cold = answer(files());
    for (const char* kv : {"paged:block=48", "virtual"}) {
      const bool moves = !one.windows || std::string(kv) != "virtual";
      EXPECT_EQ(why_no_files(*engine_, parse_kv_options(kv, "").value()).empty(), moves);
      const Heard warm = answer(files(), kv);
      EXPECT_EQ(warm.tokens, cold.tokens);
      EXPECT_EQ(warm.outcome->cached_tokens, moves ? 256u : 0u) << kv;
    }
  }
  EXPECT_EQ(of_others, others);
#if !defined(KVICK_SANITIZED)
  EXPECT_GT(of_windows, 0);
#endif
}

TEST_F(PrefixLoaderTest, SaysWhyAStoreHasNoFiles) {
  const auto why = [](const Engine& engine, const char* kv, const char* type, const char* select) {
    return why_no_files(engine, parse_kv_options(kv, type, "", select).value());
  };
  const std::string then =
      "; prompts are computed again after a restart, and so are preempted requests";
  EXPECT_EQ(why(*engine_, "paged", "q8", ""), "");
  EXPECT_EQ(why(*engine_, "paged", "static8:x.kvr", ""),
            "no files of rows are read or written: rows of static types depend on the ranges that "
            "were measured for them" +
                then);
  EXPECT_EQ(why(*engine_, "paged", "mixed", ""),
            "no files of rows are read or written: paged keeps rows of mixed:window=128,old=q8 "
            "where they cannot be moved" +
                then);
  EXPECT_EQ(why(*engine_, "", "", "h2o"),
            "no files of rows are read or written: virtual keeps rows of f16 where they cannot be "
            "moved under h2o" +
                then);
  const auto windows = mixed_engine({.window = 12, .window_period = 2});
  EXPECT_EQ(why(*windows, "paged", "", ""), "");
  EXPECT_EQ(why(*windows, "virtual", "", ""),
            "no files of rows are read or written: 2 of 4 layers keep a window or a state, which "
            "can be moved with --kv paged alone" +
                then);
}

// A made-up model in a file, of which a test can change single values.
struct ModelOnDisk {
  explicit ModelOnDisk(tools::Spec spec) {
    base::ThreadPool pool(1);
    path = model::write_model(spec, pool, false);
    std::ifstream in(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  ~ModelOnDisk() { fs::remove(path); }
  std::unique_ptr<Engine> open(const std::string& with) const {
    std::ofstream(path, std::ios::binary) << with;
    auto engine = Engine::open({.model_path = path, .threads = 2, .fingerprint = true});
    EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
    return std::move(engine).value();
  }
  // Returns the file's bytes with another number under this key of the metadata.
  template <typename T>
  std::string with(const std::string& key, T number) const {
    std::string changed = bytes;
    const size_t at = changed.find(key);
    EXPECT_NE(at, std::string::npos) << key;
    std::memcpy(&changed[at + key.size() + sizeof(uint32_t)], &number, sizeof(number));
    return changed;
  }
  std::string path, bytes;
};

TEST_F(PrefixLoaderTest, FindsNoRowsOfAModelThatDiffersInAnything) {
  tools::Spec spec = model::tiny_spec(tools::Arch::kLlama);
  spec.context = 1024;
  const ModelOnDisk model(spec);
  const auto cached = [&](std::unique_ptr<Engine> engine) {
    engine_ = std::move(engine);
    return answer(files()).outcome->cached_tokens;
  };
  EXPECT_EQ(cached(model.open(model.bytes)), 0u);
  EXPECT_EQ(cached(model.open(model.bytes)), 256u);
  EXPECT_EQ(cached(model.open(model.with("llama.rope.freq_base", 20000.0F))), 0u);
  EXPECT_EQ(cached(model.open(model.with("llama.attention.layer_norm_rms_epsilon", 1e-4F))), 0u);
  EXPECT_EQ(cached(model.open(model.with("llama.context_length", uint32_t{1000}))), 0u);
  EXPECT_EQ(cached(model.open(model.with("llama.rope.dimension_count", uint32_t{8}))), 0u);
  // Weights: changes one value in the middle of each tensor, like a fine-tune of a few rows.
  const io::ModelFile file = io::ModelFile::open(model.path).value();
  for (const io::Tensor& tensor : file.tensors()) {
    const std::string data(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
    std::string changed = model.bytes;
    const size_t at = changed.find(data);
    ASSERT_NE(at, std::string::npos);
    changed[at + data.size() / 2] ^= 1;
    if (tensor.name.find("norm") != std::string::npos) continue;  // all ones: find() is ambiguous
    EXPECT_EQ(cached(model.open(changed)), 0u) << tensor.name;
  }
  EXPECT_EQ(cached(model.open(model.bytes)), 256u);
  for (const tools::Scaling scaling :
       {tools::Scaling::kLinear, tools::Scaling::kLlama3, tools::Scaling::kYarn}) {
    tools::Spec scaled = spec;
    scaled.scaling = scaling;
    scaled.scaling_factor = 4;
    const ModelOnDisk other(scaled);
    EXPECT_EQ(cached(other.open(other.bytes)), 0u);
  }
}

}  // namespace
}  // namespace kvick::engine
