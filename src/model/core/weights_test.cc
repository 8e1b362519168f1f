#include "model/core/weights.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

#include "io/file/builder.h"

namespace kvick::model {
namespace {

using kernels::DType;

// A source of a matrix's rows, like that of a file's quantised tensors.
class Rows final : public io::RowSource {
 public:
  Rows(std::span<const std::byte> bytes, uint64_t row_bytes)
      : bytes_(bytes), row_bytes_(row_bytes) {}
  void read(uint64_t first, uint64_t count, std::byte* out) const override {
    std::copy_n(bytes_.data() + first * row_bytes_, count * row_bytes_, out);
  }
  std::vector<std::span<const std::byte>> parts() const override { return {bytes_}; }

 private:
  std::span<const std::byte> bytes_;
  uint64_t row_bytes_;
};

// The same tensors in two files: as stored bytes, and as rows that are converted when read.
class ConvertedWeights : public testing::Test {
 protected:
  static constexpr uint32_t kVocab = 70, kDim = 64, kExperts = 3;

  ConvertedWeights() {
    add("token_embd.weight", DType::kQ4_1, {kVocab, kDim});
    add("blk.0.ffn_up.weight", DType::kQ8_0, {160, kDim});
    add("blk.0.ffn_up.bias", DType::kF32, {160});
    add("blk.0.ffn_down_exps.weight", DType::kQ4_0, {kExperts, 40, kDim});
    add("blk.0.ffn_down_exps.bias", DType::kF32, {kExperts, 40});
    add("keys.weight", DType::kF16, {32, kDim});
  }

  void add(const std::string& name, DType type, std::vector<uint64_t> shape) {
    io::Tensor tensor{.name = name, .dtype = type, .shape = std::move(shape), .data = {}};
    auto& bytes = bytes_.emplace_back(tensor.bytes());
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_() % 60);
    tensor.data = bytes;
    ASSERT_TRUE(stored_.add_tensor(tensor).ok());
    tensor.data = {};
    tensor.source = std::make_shared<Rows>(bytes, tensor.row_bytes());
    ASSERT_TRUE(converted_.add_tensor(tensor).ok());
  }

  static void expect_same(const Linear& a, const Linear& b) {
    ASSERT_EQ(a.w.data.size(), b.w.data.size());
    EXPECT_EQ(std::memcmp(a.w.data.data(), b.w.data.data(), a.w.data.size()), 0);
    EXPECT_EQ(a.bias, b.bias);
  }

  std::mt19937 random_{5};
  std::vector<std::vector<std::byte>> bytes_;
  io::ModelFileBuilder stored_{io::Container::kGguf, "stored"},
      converted_{io::Container::kHuggingFace, "converted"};
  base::ThreadPool pool_{2};
  LoadOptions options_{.kernels = &kernels::table(base::Isa::kScalar), .pool = &pool_};
  base::Arena arena_;
  InMemory place_{arena_};
};

TEST_F(ConvertedWeights, ArePackedAsThoseThatAFileHolds) {
  using enum WeightReader::Bias;
  WeightReader one(stored_.file, options_, place_), other(converted_.file, options_, place_);
  for (const Slice outputs : {Slice(160), Slice(160, 32, 112)})
    for (const Slice inputs : {Slice(kDim), Slice(kDim, 32, 64)})
      expect_same(*one.linear("blk.0.ffn_up", outputs, inputs, kRequired),
                  *other.linear("blk.0.ffn_up", outputs, inputs, kRequired));
  const ExpertsConfig experts{.count = kExperts, .used = 1};
  const auto a = one.experts("blk.0.ffn_down", experts, Slice(40, 8, 40), kDim, kOptional);
  const auto b = other.experts("blk.0.ffn_down", experts, Slice(40, 8, 40), kDim, kOptional);
  for (uint32_t e = 0; e < kExperts; ++e) expect_same((*a)[e], (*b)[e]);
  const auto keys = one.keys("keys", 2, 16, kDim), same = other.keys("keys", 2, 16, kDim);
  for (size_t head = 0; head < 2; ++head)
    EXPECT_TRUE(std::ranges::equal((*keys)[head].data, (*same)[head].data));
  EXPECT_EQ(one.weights().layers.bytes, other.weights().layers.bytes);
}

TEST_F(ConvertedWeights, EmbedTokensAndMakeSomeOutputs) {
  const std::vector<Token> some = {3, 69, 0};
  options_.outputs = some;
  WeightReader one(stored_.file, options_, place_), other(converted_.file, options_, place_);
  Config config;
  config.dim = kDim, config.vocab = kVocab;
  Share share;
  share.vocab = kVocab;
  Embedding rows, same;
  Linear a, b;
  ASSERT_TRUE(one.embedding(config, share, rows, a).ok());
  ASSERT_TRUE(other.embedding(config, share, same, b).ok());
  expect_same(a, b);
  std::vector<float> x(kDim), y(kDim);
  for (uint32_t token = 0; token < kVocab; ++token) {
    rows.row(token, x.data());
    same.row(token, y.data());
    EXPECT_EQ(x, y);
  }
}

// llama.cpp's converter writes ERNIE's exp_probs_b in this form; llama-quantize drops the 1.
TEST_F(ConvertedWeights, MayBeVectorsWithAnOuterDimensionOfOne) {
  add("row.bias", DType::kF32, {1, 4});
  add("rows.bias", DType::kF32, {2, 4});
  std::vector<float> want(4);
  std::memcpy(want.data(), bytes_.end()[-2].data(), want.size() * sizeof(float));
  for (const io::ModelFile* file : {&stored_.file, &converted_.file}) {
    WeightReader reader(*file, options_, place_);
    const auto row = reader.vector("row.bias", 4);
    ASSERT_TRUE(row.ok()) << row.error().message;
    EXPECT_EQ(*row, want);
    EXPECT_FALSE(reader.vector("row.bias", 3).ok());
    EXPECT_FALSE(reader.vector("rows.bias", 4).ok());
    EXPECT_FALSE(reader.vector("rows.bias", 8).ok());
  }
}

TEST_F(ConvertedWeights, HaveNoScalesOfMxfp4ThatOverflowWhenMultiplied) {
  add("good.weight", DType::kMXFP4, {16, kDim});
  add("bad.weight", DType::kMXFP4, {16, kDim});
  constexpr size_t kBlock = 17, kLast = 31;  // two blocks per row
  bytes_.end()[-2][kLast * kBlock] = std::byte{104 + 128};
  bytes_.end()[-1][kLast * kBlock] = std::byte{105 + 128};
  for (const io::ModelFile* file : {&stored_.file, &converted_.file}) {
    WeightReader reader(*file, options_, place_);
    EXPECT_TRUE(reader.linear("good", 16, kDim, WeightReader::Bias::kNone).ok());
    const auto bad = reader.linear("bad", 16, kDim, WeightReader::Bias::kNone);
    ASSERT_FALSE(bad.ok());
    EXPECT_NE(
        bad.error().message.find("tensor bad.weight has a block of weights larger than 2^104"),
        std::string::npos);
    // A rank whose slice lacks the bad block reads the tensor without error.
    EXPECT_TRUE(reader.linear("bad", Slice(16, 0, 15), kDim, WeightReader::Bias::kNone).ok());
  }
}

TEST_F(ConvertedWeights, HaveNoFloat16ScalesThatAreNoNumbers) {
  add("scale.weight", DType::kQ8_0, {16, kDim});
  add("min.weight", DType::kQ4_1, {16, kDim});
  constexpr size_t kLast = 31;  // two blocks per row
  for (const io::ModelFile* file : {&stored_.file, &converted_.file}) {
    WeightReader reader(*file, options_, place_);
    for (const char* name : {"scale", "min"})
      EXPECT_TRUE(reader.linear(name, 16, kDim, WeightReader::Bias::kNone).ok());
  }
  const auto set = [](std::vector<std::byte>& bytes, size_t at, unsigned half) {
    bytes[at] = static_cast<std::byte>(half & 0xff);
    bytes[at + 1] = static_cast<std::byte>(half >> 8);
  };
  set(bytes_.end()[-2], kLast * 34, 0x7c00);      // infinity
  set(bytes_.end()[-1], kLast * 20 + 2, 0xfe00);  // NaN
  for (const io::ModelFile* file : {&stored_.file, &converted_.file}) {
    WeightReader reader(*file, options_, place_);
    for (const std::string name : {"scale", "min"}) {
      const auto bad = reader.linear(name, 16, kDim, WeightReader::Bias::kNone);
      ASSERT_FALSE(bad.ok());
      EXPECT_NE(
          bad.error().message.find("tensor " + name + ".weight has a block of weights whose " +
                                   "scale is infinite or not a number"),
          std::string::npos)
          << bad.error().message;
      // A rank whose slice lacks the bad block reads the tensor without error.
      EXPECT_TRUE(reader.linear(name, Slice(16, 0, 15), kDim, WeightReader::Bias::kNone).ok());
    }
  }
}

}  // namespace
}  // namespace kvick::model
