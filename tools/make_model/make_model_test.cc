#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <unistd.h>

#include "make_model/encode.h"
#include "make_model/gguf.h"
#include "make_model/hugging_face.h"
#include "make_model/llama2c.h"
#include "make_model/random.h"

#include "io/file/model_file.h"

namespace kvick::tools {
namespace {

using kernels::DType;

// A folder that is deleted when the program ends.
struct Folder {
  const std::string path = fmt::format("{}make_model_{}", testing::TempDir(), getpid());
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

std::string test_path(const std::string& name) {
  static const Folder kFolder;
  return kFolder.path + "/" + name;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

Spec small(Arch arch, DType type) {
  Spec spec;
  spec.arch = arch;
  spec.type = type;
  spec.layers = 1;
  return *checked(spec);
}

TEST(Random, HasTheRequestedMeanAndDeviation) {
  std::vector<float> row(1 << 16);
  random_row(row_seed(5, "x", 0), 2.0f, row);
  double sum = 0, squares = 0;
  for (const float x : row) sum += x, squares += static_cast<double>(x) * x;
  const auto n = static_cast<double>(row.size());
  EXPECT_NEAR(sum / n, 0, 0.03);
  EXPECT_NEAR(std::sqrt(squares / n), 2, 0.05);
}

TEST(Random, TheSeedOfARowDependsOnSeedTensorAndRow) {
  const uint64_t one = row_seed(1, "a", 0);
  for (const uint64_t other : {row_seed(2, "a", 0), row_seed(1, "b", 0), row_seed(1, "a", 1)})
    EXPECT_NE(one, other);
}

// The expected numbers come from a transcription of random.cc into Python with numpy's float32.
TEST(Random, IsTheSameOnEveryMachine) {
  std::vector<float> row(3);
  random_row(row_seed(1, "token_embd.weight", 7), 1.0f, row);
  EXPECT_EQ(row, (std::vector<float>{-0x1.fbd1460000000p-2f, -0x1.b4ce000000000p-2f,
                                     0x1.70e1340000000p-1f}));
}

// Bounds the root mean square error after a round trip, relative to the values' own. The bounds are
// what these quantisers reach with each format's bits, plus a tenth.
TEST(Encode, ErrorsAreWithinTheBoundOfEachType) {
  std::vector<float> row(1 << 14), back(row.size());
  random_row(row_seed(3, "row", 0), 1.0f, row);
  const std::map<DType, double> bounds = {
      {DType::kF32, 0},         {DType::kF16, 3e-4},     {DType::kBF16, 2e-3},
      {DType::kQ8_0, 0.0065},   {DType::kQ4_0, 0.1},     {DType::kQ4_1, 0.09},
      {DType::kQ5_0, 0.05},     {DType::kQ5_1, 0.045},   {DType::kQ2_K, 0.36},
      {DType::kQ3_K, 0.17},     {DType::kQ4_K, 0.09},    {DType::kQ5_K, 0.045},
      {DType::kQ6_K, 0.02},     {DType::kIQ4_NL, 0.089}, {DType::kIQ4_XS, 0.089},
      {DType::kMXFP4, 0.127},   {DType::kNVFP4, 0.104},  {DType::kIQ3_S, 0.152},
      {DType::kIQ3_XXS, 0.208}, {DType::kIQ2_S, 0.278},  {DType::kIQ2_XS, 0.33},
      {DType::kIQ2_XXS, 0.375}, {DType::kIQ1_S, 0.508},  {DType::kIQ1_M, 0.49},
      {DType::kTQ1_0, 0.524},   {DType::kTQ2_0, 0.524}};
  ASSERT_EQ(bounds.size(), static_cast<size_t>(kernels::kWeightTypes));
  for (const auto& [type, bound] : bounds) {
    std::vector<std::byte> bytes(kernels::dtype_bytes(type, row.size()));
    encode(type, row.data(), row.size(), bytes.data());
    kernels::to_f32(type, bytes.data(), row.size(), back.data());
    double error = 0, power = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      error += (row[i] - back[i]) * (row[i] - back[i]);
      power += row[i] * row[i];
    }
    EXPECT_LE(std::sqrt(error / power), bound) << kernels::dtype_info(type).name;
  }
}

TEST(Encode, ZerosStayZeros) {
  const std::vector<float> zeros(256);
  std::vector<float> back(256, 1.0f);
  for (int i = 0; i < kernels::kWeightTypes; ++i) {
    const auto type = static_cast<DType>(i);
    std::vector<std::byte> bytes(kernels::dtype_bytes(type, 256));
    encode(type, zeros.data(), 256, bytes.data());
    kernels::to_f32(type, bytes.data(), 256, back.data());
    EXPECT_EQ(back, zeros) << kernels::dtype_info(type).name;
  }
}

TEST(MakeGguf, TheBytesDoNotDependOnTheNumberOfThreads) {
  base::ThreadPool one(1), three(3);
  const Spec spec = small(Arch::kQwen3, DType::kQ5_K);
  ASSERT_TRUE(make_gguf(test_path("one.gguf"), spec, one).ok());
  ASSERT_TRUE(make_gguf(test_path("three.gguf"), spec, three).ok());
  EXPECT_EQ(contents(test_path("one.gguf")), contents(test_path("three.gguf")));
}

TEST(MakeGguf, EveryTensorHasItsShapeAndEncodedBytes) {
  base::ThreadPool pool(2);
  const Spec spec = small(Arch::kLlama, DType::kQ4_1);
  ASSERT_TRUE(make_gguf(test_path("held.gguf"), spec, pool).ok());
  const auto file = io::ModelFile::open(test_path("held.gguf"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  for (const TensorInfo& info : tensors_of(spec)) {
    const io::Tensor* tensor = file->find(info.name);
    ASSERT_NE(tensor, nullptr) << info.name;
    EXPECT_EQ(tensor->shape, info.shape) << info.name;
    ASSERT_EQ(tensor->data.size(), tensor_bytes(info)) << info.name;
    const uint64_t last = info.rows() - 1;
    std::vector<float> row(info.inputs());
    fill_row(spec, info, last, row.data());
    std::vector<std::byte> bytes(kernels::dtype_bytes(info.type, row.size()));
    encode(info.type, row.data(), row.size(), bytes.data());
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), tensor->data.end() - bytes.size()))
        << info.name;
  }
}

TEST(MakeModel, InvalidSpecsTypesAndPathsAreErrors) {
  base::ThreadPool pool(1);
  Spec spec;
  spec.type = DType::kQ4_K;
  spec.dim = 576;
  EXPECT_FALSE(checked(spec).ok());
  spec.odd_type = DType::kQ5_0;
  spec.has_odd_type = true;
  EXPECT_TRUE(checked(spec).ok());
  spec.heads = 5;
  spec.kv_heads = 2;
  EXPECT_FALSE(checked(spec).ok());
  EXPECT_FALSE(preset("XL").ok());
  Spec slots;
  slots.slots = 32;
  EXPECT_EQ(checked(slots).error().message, "--slots 32: only bct has a memory of slots");
  EXPECT_FALSE(make_gguf(test_path("x"), small(Arch::kOpt, DType::kF32), pool).ok());
  EXPECT_FALSE(make_hugging_face(test_path("x"), small(Arch::kLlama, DType::kQ8_0), 1, pool).ok());
  EXPECT_FALSE(make_hugging_face(test_path("x"), small(Arch::kBct, DType::kF32), 1, pool).ok());
  EXPECT_FALSE(make_hugging_face(test_path("x"), small(Arch::kLlama, DType::kF32), 99, pool).ok());
  EXPECT_FALSE(make_gguf("/no/such/folder/x", small(Arch::kLlama, DType::kF32), pool).ok());
  for (const VocabularyKind kind : {VocabularyKind::kByteLevel, VocabularyKind::kSentencePiece}) {
    EXPECT_FALSE(make_vocabulary(kind, 258).ok());
    EXPECT_FALSE(make_vocabulary(kind, 400'001).ok());
    EXPECT_EQ(make_vocabulary(kind, 49152)->pieces.size(), 49152u);
  }
}

// The expected types are those that llama-quantize chooses.
TEST(MakeModel, Q4KMHasTheTensorTypesOfLlamaCpp) {
  const auto types = [](const char* shape) {
    std::map<std::string, DType> of;
    for (const TensorInfo& tensor : tensors_of(*checked(*with_type(*preset(shape), "Q4_K_M"))))
      of[tensor.name] = tensor.type;
    return of;
  };
  std::map<std::string, DType> m = types("M"), s = types("S"), l7 = types("L7");
  for (uint32_t i = 0; i < 16; ++i) {
    const bool more = i == 0 || i == 1 || i == 4 || i == 7 || i == 10 || i >= 13;
    for (const char* name : {"attn_v", "ffn_down"})
      EXPECT_EQ(m[fmt::format("blk.{}.{}.weight", i, name)], more ? DType::kQ6_K : DType::kQ4_K)
          << name << i;
    EXPECT_EQ(m[fmt::format("blk.{}.attn_q.weight", i)], DType::kQ4_K);
  }
  EXPECT_EQ(m["token_embd.weight"], DType::kQ6_K);
  EXPECT_EQ(l7["token_embd.weight"], DType::kQ4_K);
  EXPECT_EQ(l7["output.weight"], DType::kQ6_K);
  EXPECT_EQ(s["token_embd.weight"], DType::kQ8_0);  // 576 wide
  EXPECT_EQ(s["blk.0.attn_v.weight"], DType::kQ8_0);
  EXPECT_EQ(s["blk.3.attn_v.weight"], DType::kQ5_0);
  EXPECT_EQ(s["blk.0.ffn_down.weight"], DType::kQ6_K);  // 1536 wide
  EXPECT_EQ(s["blk.3.ffn_down.weight"], DType::kQ4_K);
  EXPECT_EQ(m["output_norm.weight"], DType::kF32);
  EXPECT_FALSE(with_type(Spec{}, "Q4_K_X").ok());
}

// Returns a checkpoint with a width of 8, one layer and two heads, and a tokenizer of four tokens,
// in llama2.c's formats.
std::pair<std::string, std::string> tiny_checkpoint() {
  const int32_t header[7] = {8, 4, 1, 2, 1, 4, 5};
  const size_t floats = 4 * 8 + 8 + 64 + 32 + 32 + 64 + 8 + 32 + 32 + 32 + 8 + 5 * 4;
  std::string checkpoint(reinterpret_cast<const char*>(header), sizeof header), tokenizer(4, '\0');
  for (size_t i = 0; i < floats; ++i) {
    const auto value = static_cast<float>(i);
    checkpoint.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  for (const std::string piece : {"<unk>", "\n<s>\n", "\n</s>\n", " a"}) {
    const float score = -1;
    const auto length = static_cast<int32_t>(piece.size());
    tokenizer.append(reinterpret_cast<const char*>(&score), sizeof score);
    tokenizer.append(reinterpret_cast<const char*>(&length), sizeof length);
    tokenizer += piece;
  }
  return {checkpoint, tokenizer};
}

base::Status<> convert(const std::string& checkpoint, const std::string& tokenizer) {
  base::ThreadPool pool(1);
  EXPECT_TRUE(write_text(test_path("c.bin"), checkpoint).ok());
  EXPECT_TRUE(write_text(test_path("t.bin"), tokenizer).ok());
  return convert_llama2c(test_path("c.bin"), test_path("t.bin"), test_path("c.gguf"), pool);
}

TEST(ConvertLlama2c, TensorsAreReadInTheOrderOfTheFile) {
  const auto [checkpoint, tokenizer] = tiny_checkpoint();
  const base::Status<> status = convert(checkpoint, tokenizer);
  ASSERT_TRUE(status.ok()) << status.error().message;
  const auto file = io::ModelFile::open(test_path("c.gguf"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  const std::pair<const char*, float> firsts[] = {
      {"token_embd.weight", 0},       {"blk.0.attn_norm.weight", 32},
      {"blk.0.attn_q.weight", 40},    {"blk.0.attn_k.weight", 104},
      {"blk.0.attn_v.weight", 136},   {"blk.0.attn_output.weight", 168},
      {"blk.0.ffn_norm.weight", 232}, {"blk.0.ffn_gate.weight", 240},
      {"blk.0.ffn_down.weight", 272}, {"blk.0.ffn_up.weight", 304},
      {"output_norm.weight", 336}};
  EXPECT_EQ(file->tensors().size(), std::size(firsts));
  for (const auto& [name, first] : firsts) {
    const io::Tensor* tensor = file->find(name);
    ASSERT_NE(tensor, nullptr) << name;
    float value;
    std::memcpy(&value, tensor->data.data(), sizeof value);
    EXPECT_EQ(value, first) << name;
  }
  EXPECT_EQ(*file->get_strings("tokenizer.ggml.tokens"),
            (std::vector<std::string>{"<unk>", "<s>", "</s>", "\u2581a"}));
}

TEST(ConvertLlama2c, TheFeedForwardLayerIsPaddedWithZeros) {
  const auto [checkpoint, tokenizer] = tiny_checkpoint();
  ASSERT_TRUE(convert(checkpoint, tokenizer).ok());
  const auto file = io::ModelFile::open(test_path("c.gguf"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_uint("llama.feed_forward_length"), 32u);
  std::vector<float> down(8 * 32), up(32 * 8);
  std::memcpy(down.data(), file->find("blk.0.ffn_down.weight")->data.data(), sizeof(float) * 256);
  std::memcpy(up.data(), file->find("blk.0.ffn_up.weight")->data.data(), sizeof(float) * 256);
  for (int row = 0; row < 8; ++row)
    for (int i = 0; i < 32; ++i) {
      EXPECT_EQ(down[row * 32 + i], i < 4 ? 272.0f + row * 4 + i : 0.0f);
      EXPECT_EQ(up[i * 8 + row], i < 4 ? 304.0f + i * 8 + row : 0.0f);
    }
}

TEST(ConvertLlama2c, FilesOfAnotherLengthOrWithANegativeSizeAreErrors) {
  const auto [checkpoint, tokenizer] = tiny_checkpoint();
  for (size_t length : {size_t{1}, size_t{27}, size_t{28}, size_t{500}, checkpoint.size() - 1})
    EXPECT_FALSE(convert(checkpoint.substr(0, length), tokenizer).ok()) << length;
  EXPECT_FALSE(convert(checkpoint + "x", tokenizer).ok());
  EXPECT_FALSE(convert(checkpoint, tokenizer.substr(0, tokenizer.size() - 1)).ok());
  EXPECT_FALSE(convert(checkpoint, tokenizer + "x").ok());
  std::string negative = checkpoint;
  negative[3] = '\x80';  // dim < 0
  EXPECT_FALSE(convert(negative, tokenizer).ok());
}

}  // namespace
}  // namespace kvick::tools
