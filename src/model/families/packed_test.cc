// Models whose packed weights are kept on disk.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <thread>

#include "io/packed/packed_folder.h"
#include "kv/registry/registry.h"
#include "model/core/test_runner.h"

namespace kvick::model {
namespace {

namespace fs = std::filesystem;

class PackedModels : public testing::Test {
 protected:
  PackedModels() {
    options_.folder = test_path("packed");
    options_.least_bytes = 0;
    options_.say = [this](const std::string& note) { notes_.push_back(note); };
  }
  ~PackedModels() override { fs::remove_all(options_.folder); }

  std::unique_ptr<Model> load(const std::string& path, const io::PackedOptions* packed,
                              std::span<const Token> outputs = {}) {
    auto file = io::ModelFile::open(path);
    EXPECT_TRUE(file.ok());
    auto model =
        Model::load(std::move(file).value(),
                    {.kernels = kernels_, .pool = &pool_, .outputs = outputs, .packed = packed});
    EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
    return std::move(model).value();
  }
  // Returns the logits of some tokens.
  std::vector<float> logits(const Model& model) {
    const bool memory = model.trained_slots() != nullptr;
    const auto rows = memory ? kernels::DType::kF32 : kernels::DType::kF16;
    kv::Setup setup;
    setup.shape = model.kv_shape(rows, rows);
    setup.compute.store_row = kernels_->store_row;
    setup.compute.store_group = kernels_->store_group;
    setup.compute.pool = &pool_;
    setup.compute.kernels = kernels_;
    setup.slots = model.trained_slots();
    const auto store =
        kv::make_store({.name = memory ? "bounded" : "virtual", .options = {}}, setup).value();
    const std::vector<Token> tokens = tokens_of(9, 1, model.config().vocab);
    const Slot slot = {.seq = store->open({}).seq, .tokens = tokens, .parents = {}};
    std::vector<uint32_t> wanted(tokens.size());
    for (uint32_t i = 0; i < wanted.size(); ++i) wanted[i] = i;
    Executor executor(model, Workspace(pool_, *kernels_));
    auto step = executor.run(*store, {.slots = {&slot, 1}}, wanted).value();
    step.commit(step.all());
    return {executor.logits().begin(), executor.logits().end()};
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(options_.folder, none))
      out.push_back(entry.path());
    std::sort(out.begin(), out.end());
    return out;
  }

  const kernels::Table* kernels_ = &kernels::table(base::best_isa());
  base::ThreadPool pool_{2};
  io::PackedOptions options_;
  std::vector<std::string> notes_;
};

// Covers every architecture, and types with their own packing.
TEST_F(PackedModels, ComputeTheSameBitsFromTheFile) {
  using kernels::DType;
  using tools::Arch;
  for (const auto& [arch, type] : {std::pair{Arch::kLlama, DType::kQ8_0},
                                   {Arch::kQwen2, DType::kF16},
                                   {Arch::kQwen3, DType::kBF16},
                                   {Arch::kOpt, DType::kF32},
                                   {Arch::kLlama, DType::kQ4_0},
                                   {Arch::kBct, DType::kQ8_0}}) {
    fs::remove_all(options_.folder);
    const std::string path = write_model(tiny_spec(arch, type), pool_, arch == Arch::kOpt);
    const std::vector<float> plain = logits(*load(path, nullptr));
    EXPECT_TRUE(files().empty());
    const auto first = load(path, &options_);
    ASSERT_EQ(files().size(), 1U);
    const auto second = load(path, &options_);
    EXPECT_EQ(logits(*first), plain) << path;
    EXPECT_EQ(logits(*second), plain) << path;
    EXPECT_EQ(first->weight_bytes(), load(path, nullptr)->weight_bytes());
    EXPECT_EQ(files().size(), 1U);
    fs::remove_all(path);
  }
}

TEST_F(PackedModels, OfAFolderAreKeptToo) {
  const std::string path = write_model(tiny_spec(tools::Arch::kLlama), pool_, true);
  const std::vector<float> plain = logits(*load(path, nullptr));
  EXPECT_EQ(logits(*load(path, &options_)), plain);
  EXPECT_EQ(logits(*load(path, &options_)), plain);
  EXPECT_EQ(files().size(), 1U);
  fs::remove_all(path);
}

// F16 becomes BF16 if the kernels multiply it as BF16, and a selection of outputs makes another
// matrix.
TEST_F(PackedModels, HaveAFileForEachWayTheyArePacked) {
  const std::string path =
      write_model(tiny_spec(tools::Arch::kLlama, kernels::DType::kF16), pool_, false);
  load(path, &options_);
  size_t count = 1;
  EXPECT_EQ(files().size(), count);
  const std::vector<Token> some = {1, 5, 9}, others = {1, 5, 8};
  for (const std::vector<Token>* outputs : {&some, &others, &some}) {
    const std::vector<float> plain = logits(*load(path, nullptr, *outputs));
    EXPECT_EQ(logits(*load(path, &options_, *outputs)), plain);
  }
  count += 2;
  EXPECT_EQ(files().size(), count);
  const kernels::Table* rounding = kernels::rounding_table(base::best_isa());
  if (rounding == nullptr) GTEST_SKIP() << "no bfloat16 products here";
  kernels_ = rounding;
  const std::vector<float> plain = logits(*load(path, nullptr));
  EXPECT_EQ(logits(*load(path, &options_)), plain);
  EXPECT_EQ(logits(*load(path, &options_)), plain);
  EXPECT_EQ(files().size(), count + 1);
  fs::remove(path);
}

TEST_F(PackedModels, ThatAreChangedOrDamagedArePackedAgain) {
  const std::string path =
      write_model(tiny_spec(tools::Arch::kLlama, kernels::DType::kQ8_0), pool_, false);
  const std::vector<float> plain = logits(*load(path, &options_));
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_NE(notes_[0].find("the packed weights are kept in"), std::string::npos) << notes_[0];
  // Changes one byte of the weights in the packed file.
  const fs::path packed = files()[0];
  {
    std::fstream file(packed, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(-1000, std::ios::end);
    const int byte = file.get();
    file.seekp(-1000, std::ios::end);
    file.put(static_cast<char>(byte ^ 1));
  }
  EXPECT_EQ(logits(*load(path, &options_)), plain);
  ASSERT_EQ(notes_.size(), 3U);
  EXPECT_NE(notes_[1].find("is damaged"), std::string::npos) << notes_[1];
  EXPECT_EQ(logits(*load(path, &options_)), plain);
  EXPECT_EQ(notes_.size(), 3U);
  fs::resize_file(packed, 5000);
  EXPECT_EQ(logits(*load(path, &options_)), plain);
  EXPECT_EQ(notes_.size(), 5U);
  // Writes other weights to the same path.
  tools::Spec other = tiny_spec(tools::Arch::kLlama, kernels::DType::kQ8_0);
  other.seed = 9;
  write_model(other, pool_, false);
  const std::vector<float> changed = logits(*load(path, nullptr));
  EXPECT_NE(changed, plain);
  EXPECT_EQ(logits(*load(path, &options_)), changed);
  EXPECT_EQ(files().size(), 2U);
  fs::remove(path);
}

TEST_F(PackedModels, RunWithoutWhereTheyCannotBeKept) {
  const std::string path =
      write_model(tiny_spec(tools::Arch::kLlama, kernels::DType::kQ8_0), pool_, false);
  const std::vector<float> plain = logits(*load(path, nullptr));
  options_.folder = path + "/packed";  // fails because a file is not a folder
  EXPECT_EQ(logits(*load(path, &options_)), plain);
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_EQ(notes_[0].find("packed weights are not kept: cannot make the folder " +
                           options_.folder.string() + ": "),
            0U)
      << notes_[0];
  EXPECT_NE(notes_[0].find("; give --packed another folder, or off"), std::string::npos)
      << notes_[0];
  options_.folder = test_path("packed");
  options_.max_bytes = 1000;
  EXPECT_EQ(logits(*load(path, &options_)), plain);
  ASSERT_EQ(notes_.size(), 2U);
  EXPECT_NE(notes_[1].find("may hold"), std::string::npos) << notes_[1];
  options_.max_bytes = 0;
  options_.least_bytes = uint64_t{1} << 30;
  EXPECT_EQ(logits(*load(path, &options_)), plain);
  EXPECT_EQ(notes_.size(), 2U);  // a model that is too small is not reported
  EXPECT_TRUE(files().empty());
  fs::remove(path);
}

TEST_F(PackedModels, AreOneFileHoweverManyPackAtOnce) {
  const std::string path =
      write_model(tiny_spec(tools::Arch::kLlama, kernels::DType::kQ8_0), pool_, false);
  const std::vector<float> plain = logits(*load(path, nullptr));
  io::PackedOptions quiet = options_;
  quiet.say = [](const std::string&) {};
  std::vector<std::unique_ptr<Model>> models(4);
  std::vector<std::thread> threads;
  for (std::unique_ptr<Model>& model : models)
    threads.emplace_back([&] {
      base::ThreadPool pool(1);
      auto file = io::ModelFile::open(path);
      auto loaded = Model::load(std::move(file).value(),
                                {.kernels = kernels_, .pool = &pool, .packed = &quiet});
      if (loaded.ok()) model = std::move(loaded).value();
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::unique_ptr<Model>& model : models) {
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(logits(*model), plain);
  }
  EXPECT_EQ(files().size(), 1U);
  fs::remove(path);
}

}  // namespace
}  // namespace kvick::model
