#include "make_model/dequantise.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <unistd.h>

#include "make_model/gguf.h"
#include "make_model/hugging_face.h"

#include "io/file/model_file.h"

namespace kvick::tools {
namespace {

using kernels::DType;

class Dequantise : public testing::Test {
 protected:
  Dequantise() { std::filesystem::create_directories(folder_); }
  ~Dequantise() override { std::filesystem::remove_all(folder_); }

  std::string at(const std::string& name) const { return folder_ + "/" + name; }

  // A quantised model, and the same with weights of `type`.
  std::pair<io::ModelFile, io::ModelFile> before_and_after(DType quantised, DType type) {
    Spec spec;
    spec.type = quantised;
    spec.layers = 1;
    EXPECT_TRUE(make_gguf(at("before.gguf"), *checked(spec), pool_).ok());
    const auto status = dequantise_gguf(at("before.gguf"), type, at("after.gguf"), pool_);
    EXPECT_TRUE(status.ok()) << status.error().message;
    auto before = io::ModelFile::open(at("before.gguf")),
         after = io::ModelFile::open(at("after.gguf"));
    EXPECT_TRUE(after.ok()) << after.error().message;
    return {std::move(before).value(), std::move(after).value()};
  }

  base::ThreadPool pool_{2};
  std::string folder_ = fmt::format("{}dequantise_{}", testing::TempDir(), getpid());
};

std::vector<float> values(const io::Tensor& tensor) {
  std::vector<float> out(tensor.elements());
  kernels::to_f32(tensor.dtype, tensor.data.data(), out.size(), out.data());
  return out;
}

TEST_F(Dequantise, GivesEachWeightItsValueAndKeepsFloatTensors) {
  for (const DType quantised : {DType::kQ4_1, DType::kQ8_0, DType::kQ4_K, DType::kQ6_K}) {
    const auto [before, after] = before_and_after(quantised, DType::kF32);
    ASSERT_EQ(before.tensors().size(), after.tensors().size());
    for (size_t i = 0; i < before.tensors().size(); ++i) {
      const io::Tensor &old = before.tensors()[i], &made = after.tensors()[i];
      EXPECT_EQ(made.name, old.name);
      EXPECT_EQ(made.shape, old.shape);
      EXPECT_EQ(made.dtype, DType::kF32);
      EXPECT_EQ(values(made), values(old)) << old.name;
    }
  }
}

TEST_F(Dequantise, RoundsToTheTypeThatWasAskedFor) {
  for (const DType type : {DType::kF16, DType::kBF16}) {
    const auto [before, after] = before_and_after(DType::kQ5_1, type);
    const io::Tensor &old = *before.find("output.weight"), &made = *after.find("output.weight");
    EXPECT_EQ(made.dtype, type);
    const std::vector<float> exact = values(old);
    std::vector<std::byte> rounded(made.data.size());
    kernels::from_f32(type, exact.data(), exact.size(), rounded.data());
    EXPECT_EQ(std::memcmp(rounded.data(), made.data.data(), rounded.size()), 0);
    EXPECT_EQ(after.find("output_norm.weight")->dtype, DType::kF32) << "it was no quantised one";
  }
}

TEST_F(Dequantise, KeepsTheMetadataButTheFileType) {
  const auto [before, after] = before_and_after(DType::kQ4_0, DType::kF16);
  EXPECT_EQ(*before.get_uint("general.file_type"), 2u);
  EXPECT_EQ(*after.get_uint("general.file_type"), 1u);
  ASSERT_EQ(before.metadata().size(), after.metadata().size());
  for (const auto& [key, value] : before.metadata())
    EXPECT_EQ(value.data.index(), after.metadata().at(key).data.index()) << key;
  EXPECT_EQ(*before.get_strings("tokenizer.ggml.tokens"),
            *after.get_strings("tokenizer.ggml.tokens"));
  EXPECT_EQ(*before.get_string("tokenizer.chat_template"),
            *after.get_string("tokenizer.chat_template"));
}

// A float model comes out as it went in, byte by byte: every type of value in its metadata, an
// alignment of its own, tensors of three dimensions.
TEST_F(Dequantise, CopiesAFileWithoutQuantisedWeights) {
  GgufMetadata metadata;
  metadata.put("general.architecture", "llama");
  metadata.put("general.alignment", 128u);
  metadata.put("a.float", 1.5f);
  metadata.put("a.truth", true);
  metadata.put("texts", std::span<const std::string>(std::vector<std::string>{"", "x", "yz"}));
  metadata.put("floats", std::span<const float>(std::vector<float>{1, 2}));
  // Two keys that the calls above cannot write: an array of arrays of bytes, and 64 bits.
  const char nested[] =
      "\x01\0\0\0\0\0\0\0n\x09\0\0\0\x09\0\0\0\x02\0\0\0\0\0\0\0"
      "\0\0\0\0\x01\0\0\0\0\0\0\0\x07"
      "\0\0\0\0\0\0\0\0\0\0\0\0"
      "\x01\0\0\0\0\0\0\0w\x0a\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08";
  metadata.put_encoded({nested, sizeof nested - 1}, 2);
  const std::vector<TensorInfo> tensors = {
      {.name = "a", .hf_name = {}, .shape = {3}, .type = DType::kF32},
      {.name = "b", .hf_name = {}, .shape = {2, 3, 5}, .type = DType::kF16},
      {.name = "c", .hf_name = {}, .shape = {4, 7}, .type = DType::kBF16}};
  const RowSource source = [](const TensorInfo& tensor, uint64_t row, float* out) {
    for (uint64_t i = 0; i < tensor.inputs(); ++i)
      out[i] = static_cast<float>(row * tensor.inputs() + i);
  };
  ASSERT_TRUE(write_gguf(at("in.gguf"), metadata, tensors, source, pool_, 128).ok());
  const auto status = dequantise_gguf(at("in.gguf"), DType::kF32, at("out.gguf"), pool_);
  ASSERT_TRUE(status.ok()) << status.error().message;
  const auto contents = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(contents(at("in.gguf")), contents(at("out.gguf")));
}

TEST_F(Dequantise, RefusesWhatCannotBe) {
  before_and_after(DType::kQ8_0, DType::kF32);
  const auto refusal = [&](const std::string& from, DType type, const std::string& to) {
    const auto status = dequantise_gguf(from, type, to, pool_);
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_NE(refusal(at("before.gguf"), DType::kQ4_0, at("x")).find("F32, F16 or BF16"),
            std::string::npos);
  EXPECT_NE(refusal(at("before.gguf"), DType::kF32, at("before.gguf")).find("to be written"),
            std::string::npos);
  EXPECT_NE(refusal(at("none.gguf"), DType::kF32, at("x")).find("cannot open"), std::string::npos);
  EXPECT_NE(refusal(at("before.gguf"), DType::kF32, "/no/such/folder/x").find("cannot be written"),
            std::string::npos);
  Spec spec;
  ASSERT_TRUE(make_hugging_face(folder_, *checked(spec), 1, pool_).ok());
  EXPECT_NE(refusal(folder_, DType::kF32, at("x")).find("not a GGUF file"), std::string::npos);
}

}  // namespace
}  // namespace kvick::tools
