#include "model/matrices/expert_memory.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <gtest/gtest.h>
#include <random>
#include <thread>

#include "make_model/families.h"

#include "io/packed/packed_folder.h"
#include "kernels/formats/packed_bytes.h"
#include "model/core/test_plain_step.h"
#include "model/core/test_runner.h"

namespace kvick::model {
namespace {

namespace fs = std::filesystem;
using kernels::DType;

// Two layers of experts in a packed file; those of the second layer are twice as wide. Every float
// of an expert is the expert's number.
class ExpertMemories : public testing::Test {
 protected:
  static constexpr uint32_t kLayers = 2, kExperts = 6, kUsed = 2, kInputs = 32;
  ExpertMemories() {
    fs::create_directories(folder_);
    std::vector<io::PackedMatrix> names;
    for (uint32_t i = 0; i < kLayers * kExperts * 3; ++i)
      names.push_back({.name = std::to_string(i), .bytes = floats_of(i / 3) * sizeof(float)});
    const io::PackedPlan plan({.high = 1, .low = 2}, "model", names);
    auto writer = io::PackedWriter::create(path_, plan);
    for (uint32_t i = 0; i < names.size(); ++i) {
      const std::vector<float> data(floats_of(i / 3), static_cast<float>(i / 3));
      EXPECT_TRUE(writer->append(std::as_bytes(std::span(data)), pool_).ok());
    }
    EXPECT_TRUE(writer->finish().ok());
    file_.emplace(io::PackedFile::open(path_, plan).value());
  }
  ~ExpertMemories() override { fs::remove_all(folder_); }

  static size_t floats_of(uint32_t expert) { return 16 * kInputs * (expert < kExperts ? 1 : 2); }
  static uint64_t bytes_of(uint32_t expert) { return 3 * floats_of(expert) * sizeof(float); }
  // Makes a memory for `experts` experts of each layer.
  base::Status<> make(uint32_t experts) {
    matrices_.clear();
    for (uint32_t i = 0; i < kLayers * kExperts * 3; ++i)
      matrices_.push_back(
          kernels::matrix_over(DType::kF32, i / 3 < kExperts ? 16 : 32, kInputs, file_->matrix(i)));
    memory_.emplace(*file_, experts * (bytes_of(0) + bytes_of(kExperts)));
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      std::vector<ExpertMatrices> all;
      for (uint32_t e = layer * kExperts; e < (layer + 1) * kExperts; ++e)
        all.push_back({&matrices_[3 * e], &matrices_[3 * e + 1], &matrices_[3 * e + 2]});
      EXPECT_EQ(memory_->add_layer(all, kUsed), layer);
    }
    return memory_->fill(pool_);
  }
  // Returns whether each of the experts was given once, with its own weights, in memory.
  bool visit(uint32_t layer, std::span<const uint32_t> needed, base::ThreadPool& pool) {
    std::vector<uint32_t> seen;
    bool right = true;
    ExpertMemory::Turn turn(*memory_, layer, needed, pool);
    for (auto given = turn.next(); !given.empty(); given = turn.next()) {
      right = right && std::is_sorted(given.begin(), given.end());
      for (const uint32_t i : given) {
        seen.push_back(i);
        const uint32_t expert = layer * kExperts + needed[i];
        for (uint32_t m = 3 * expert; m < 3 * expert + 3; ++m) {
          const std::span<const std::byte> data = matrices_[m].data;
          const auto* floats = reinterpret_cast<const float*>(data.data());
          right = right && data.data() != file_->matrix(m).data() &&
                  data.size() == file_->matrix(m).size() &&
                  std::all_of(floats, floats + floats_of(expert),
                              [&](float f) { return f == static_cast<float>(expert); });
        }
      }
    }
    std::sort(seen.begin(), seen.end());
    right = right && seen.size() == needed.size();
    for (uint32_t i = 0; i < seen.size(); ++i) right = right && seen[i] == i;
    return right;
  }
  bool visit(uint32_t layer, std::vector<uint32_t> needed) { return visit(layer, needed, pool_); }
  uint64_t misses() const { return memory_->stats().misses; }

  fs::path folder_ = test_path("experts");
  fs::path path_ = folder_ / "a.packed";
  base::ThreadPool pool_{2};
  std::optional<io::PackedFile> file_;
  std::vector<kernels::Matrix> matrices_;
  std::optional<ExpertMemory> memory_;
};

TEST_F(ExpertMemories, GiveEachExpertOnceInMemory) {
  for (uint32_t room = kUsed; room <= kExperts; ++room) {
    ASSERT_TRUE(make(room).ok());
    std::mt19937 random(room);
    for (int round = 0; round < 200; ++round) {
      std::vector<uint32_t> needed = {0, 1, 2, 3, 4, 5};
      std::shuffle(needed.begin(), needed.end(), random);
      needed.resize(1 + random() % kExperts);
      ASSERT_TRUE(visit(random() % kLayers, needed));
    }
    const ExpertStats stats = memory_->stats();
    EXPECT_EQ(stats.resident, kLayers * room);
    EXPECT_EQ(stats.resident_bytes, room * (bytes_of(0) + bytes_of(kExperts)));
    EXPECT_LE(stats.resident_bytes, stats.limit_bytes);
    EXPECT_EQ(stats.all_bytes, kExperts * (bytes_of(0) + bytes_of(kExperts)));
    EXPECT_EQ(stats.misses == 0, room == kExperts);
  }
}

TEST_F(ExpertMemories, AreSharedByThreads) {
  ASSERT_TRUE(make(kUsed).ok());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      base::ThreadPool own(1 + t % 2);
      std::mt19937 random(t);
      for (int round = 0; round < 200; ++round) {
        std::vector<uint32_t> needed = {0, 1, 2, 3, 4, 5};
        std::shuffle(needed.begin(), needed.end(), random);
        needed.resize(1 + random() % kExperts);
        if (!visit(random() % kLayers, needed, own)) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ExpertMemories, KeepWhatIsUsedMost) {
  ASSERT_TRUE(make(3).ok());
  for (int round = 0; round < 20; ++round) {
    EXPECT_TRUE(visit(0, {4, 5}));
    EXPECT_TRUE(visit(0, {static_cast<uint32_t>(round % 4)}));
  }
  const uint64_t before = misses();
  EXPECT_TRUE(visit(0, {4, 5}));
  EXPECT_EQ(misses(), before);
  EXPECT_TRUE(visit(0, {0, 1, 2, 3}));
  EXPECT_EQ(misses(), before + 3);
}

// After 512 batches the uses are halved. Then about 272 uses of each of two experts exceed the 400
// older uses of another.
TEST_F(ExpertMemories, LetGoOfWhatWasUsedLongAgo) {
  ASSERT_TRUE(make(2).ok());
  for (int round = 0; round < 400; ++round) EXPECT_TRUE(visit(0, {0}));
  for (int round = 0; round < 300; ++round) {
    EXPECT_TRUE(visit(0, {1}));
    EXPECT_TRUE(visit(0, {2}));
  }
  const uint64_t before = misses();
  EXPECT_TRUE(visit(0, {1, 2}));
  EXPECT_EQ(misses(), before);
}

TEST_F(ExpertMemories, OfTooFewBytesAreRefused) {
  const auto made = make(1);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("give at least"), std::string::npos) << made.error().message;
}

TEST_F(ExpertMemories, SayWhatCannotBeReadAndGoOn) {
  ASSERT_TRUE(make(2).ok());
  const auto size = fs::file_size(path_);
  fs::resize_file(path_, io::kPackedUnit);  // simulates a disk that fails
  const std::vector<uint32_t> needed = {3, 4};
  for (int round = 0; round < 3; ++round) {
    ExpertMemory::Turn turn(*memory_, 0, needed, pool_);
    EXPECT_THROW(turn.next(), std::runtime_error);
  }
  // The experts that were in memory have lost their slots to those that could not be read.
  EXPECT_EQ(memory_->stats().resident, 2U);
  fs::resize_file(path_, size);
  ExpertMemory::Turn turn(*memory_, 0, needed, pool_);
  EXPECT_EQ(turn.next().size(), 2U);
}

// A whole model with few experts in memory: it computes the same bits, whatever is read when.
class ExpertModels : public testing::Test {
 protected:
  ExpertModels() {
    packed_.folder = test_path("packed_experts");
    packed_.say = [this](const std::string& note) { notes_.push_back(note); };
  }
  ~ExpertModels() override { fs::remove_all(packed_.folder); }
  base::Result<std::unique_ptr<Model>> load(const std::string& path, uint64_t bytes,
                                            bool packed = true) {
    auto file = io::ModelFile::open(path);
    EXPECT_TRUE(file.ok());
    return Model::load(std::move(file).value(), {.kernels = &kernels_,
                                                 .pool = &pool_,
                                                 .packed = packed ? &packed_ : nullptr,
                                                 .expert_bytes = bytes});
  }
  std::vector<float> logits(const Model& model, base::ThreadPool& pool, size_t piece) {
    const std::vector<Token> tokens = tokens_of(24, 1, model.config().vocab);
    Workspace workspace(pool, kernels_);
    PlainRows rows(model.config());
    std::vector<float> all;
    for (size_t past = 0; past < tokens.size(); past += piece) {
      const Slot slot = {.past = static_cast<uint32_t>(past),
                         .tokens = std::span(tokens).subspan(past, piece),
                         .parents = {}};
      std::vector<uint32_t> wanted(piece);
      for (uint32_t i = 0; i < piece; ++i) wanted[i] = i;
      all.resize(all.size() + piece * model.config().vocab);
      PlainStep step(rows, static_cast<uint32_t>(past), static_cast<uint32_t>(piece));
      model.forward({.slots = {&slot, 1}}, step, workspace, wanted,
                    all.data() + past * model.config().vocab);
    }
    return all;
  }
  static std::string write(const char* family, DType type, base::ThreadPool& pool) {
    tools::Spec spec = tools::made_family(family).value();
    spec.type = type;
    return write_model(spec, pool, false);
  }

  base::ThreadPool pool_{2};
  const kernels::Table& kernels_ = kernels::table(base::best_isa());
  io::PackedOptions packed_;
  std::vector<std::string> notes_;
};

TEST_F(ExpertModels, ComputeTheSameBits) {
  for (const char* family : {"qwen3moe", "gpt-oss", "mixtral", "gemma4-experts"}) {
    const std::string path = write(family, DType::kQ8_0, pool_);
    const auto whole = load(path, 0, false).value();
    EXPECT_FALSE(whole->expert_stats());
    const std::vector<float> expected = logits(*whole, pool_, 24);
    const uint64_t all = whole->weights().experts.bytes;
    const auto some = load(path, all * 2 / 3).value();
    for (const size_t piece : {24U, 1U, 6U})
      EXPECT_EQ(logits(*some, pool_, piece), expected) << family << " " << piece;
    const ExpertStats stats = *some->expert_stats();
    EXPECT_GT(stats.misses, 0U) << family;
    EXPECT_GT(stats.hits, 0U) << family;
    EXPECT_LT(stats.resident, stats.all) << family;
    // Two threads at once, as with several instances.
    std::vector<std::vector<float>> both(2);
    std::vector<std::thread> threads;
    for (auto& one : both)
      threads.emplace_back([&] {
        base::ThreadPool own(1);
        one = logits(*some, own, 1);
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(both[0], expected) << family;
    EXPECT_EQ(both[1], expected) << family;
    fs::remove(path);
  }
}

TEST_F(ExpertModels, RefuseWhatCannotBe) {
  const std::string moe = write("qwen3moe", DType::kQ8_0, pool_);
  auto refused = load(moe, 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("too few"), std::string::npos) << refused.error().message;
  refused = load(moe, 1 << 20, false);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("packed weights"), std::string::npos);
  fs::remove(moe);
  const std::string dense = write_model(tiny_spec(tools::Arch::kLlama, DType::kQ8_0), pool_, false);
  refused = load(dense, 1 << 20);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("no experts"), std::string::npos);
  fs::remove(dense);
}

}  // namespace
}  // namespace kvick::model
