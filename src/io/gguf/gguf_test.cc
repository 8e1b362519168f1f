// Larger than usual because of its table of corrupted files.

#include <cstdlib>
#include <gtest/gtest.h>
#include <limits>
#include <random>

#include "base/testing/source_folder.h"
#include "io/file/describe.h"
#include "io/file/model_file.h"
#include "io/file/test_images.h"
#include "io/gguf/ggml_types.h"

namespace kvick::io {
namespace {

using base::Result;
using kernels::DType;

Result<ModelFile> parse(const std::string& image) {
  return ModelFile::parse_gguf(bytes_of(image), "test.gguf");
}

template <typename T>
T value_of(const ModelFile& file, std::string_view key) {
  return std::get<T>(file.metadata().find(key)->second.data);
}

// A file with values of several types, whose last tensor ends at the end of the file.
GgufImage small_file() {
  GgufImage image;
  image.text("general.architecture", "llama").key("llama.block_count", 4, le<uint32_t>(2));
  image.array("tokens", 8, 3, gguf_text("a") + gguf_text("") + gguf_text("\xe2\x96\x81t"));
  image.array(
      "nested", 9, 2,
      le<uint32_t>(1) + le<uint64_t>(2) + "\x01\xff" + le<uint32_t>(7) + le<uint64_t>(1) + "\x01");
  image.tensor("a.weight", {32, 2}, 8, std::string(68, 'q'));
  image.tensor("b.weight", {4, 2, 2}, 0, std::string(64, 'f'));
  return image;
}

TEST(Gguf, EveryScalarTypeKeepsItsExtremes) {
  GgufImage image;
  image.key("u8", 0, "\xff").key("i8", 1, "\x80");
  image.key("u16", 2, le<uint16_t>(65535)).key("i16", 3, le<int16_t>(-32768));
  image.key("u32", 4, le<uint32_t>(4294967295)).key("i32", 5, le<int32_t>(INT32_MIN));
  image.key("f32", 6, le<float>(1.5e-5f)).key("bool", 7, "\x01").text("text", "a\nb");
  image.key("u64", 10, le<uint64_t>(UINT64_MAX)).key("i64", 11, le<int64_t>(INT64_MIN));
  image.key("f64", 12, le<double>(1e300));
  const auto file = parse(image.build());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(value_of<uint64_t>(*file, "u8"), 255u);
  EXPECT_EQ(value_of<int64_t>(*file, "i8"), -128);
  EXPECT_EQ(value_of<uint64_t>(*file, "u16"), 65535u);
  EXPECT_EQ(value_of<int64_t>(*file, "i16"), -32768);
  EXPECT_EQ(value_of<uint64_t>(*file, "u32"), 4294967295u);
  EXPECT_EQ(value_of<int64_t>(*file, "i32"), INT32_MIN);
  EXPECT_EQ(value_of<double>(*file, "f32"), static_cast<double>(1.5e-5f));
  EXPECT_EQ(value_of<bool>(*file, "bool"), true);
  EXPECT_EQ(value_of<std::string>(*file, "text"), "a\nb");
  EXPECT_EQ(value_of<uint64_t>(*file, "u64"), UINT64_MAX);
  EXPECT_EQ(value_of<int64_t>(*file, "i64"), INT64_MIN);
  EXPECT_EQ(value_of<double>(*file, "f64"), 1e300);
}

TEST(Gguf, EveryArrayTypeKeepsItsElements) {
  GgufImage image;
  image.array("u8", 0, 2, "\x01\xff").array("i8", 1, 2, "\x01\xff");
  image.array("u16", 2, 1, le<uint16_t>(65535)).array("i16", 3, 1, le<int16_t>(-2));
  image.array("u32", 4, 1, le<uint32_t>(4294967295)).array("i32", 5, 1, le<int32_t>(-3));
  image.array("f32", 6, 2, le(0.5f) + le(-2.0f)).array("bool", 7, 3, std::string("\1\0\1", 3));
  image.array("text", 8, 2, gguf_text("x") + gguf_text(""));
  image.array("u64", 10, 1, le<uint64_t>(7)).array("wide", 10, 1, le<uint64_t>(UINT64_MAX));
  image.array("i64", 11, 1, le<int64_t>(INT64_MIN)).array("f64", 12, 1, le(1e300));
  image.array("none", 5, 0, "");
  const auto file = parse(image.build());
  ASSERT_TRUE(file.ok()) << file.error().message;
  using Ints = std::vector<int64_t>;
  EXPECT_EQ(value_of<Ints>(*file, "u8"), (Ints{1, 255}));
  EXPECT_EQ(value_of<Ints>(*file, "i8"), (Ints{1, -1}));
  EXPECT_EQ(value_of<Ints>(*file, "u16"), (Ints{65535}));
  EXPECT_EQ(value_of<Ints>(*file, "i16"), (Ints{-2}));
  EXPECT_EQ(value_of<Ints>(*file, "u32"), (Ints{4294967295}));
  EXPECT_EQ(value_of<Ints>(*file, "i32"), (Ints{-3}));
  EXPECT_EQ(value_of<std::vector<float>>(*file, "f32"), (std::vector<float>{0.5f, -2.0f}));
  EXPECT_EQ(value_of<std::vector<bool>>(*file, "bool"), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(value_of<std::vector<std::string>>(*file, "text"), (std::vector<std::string>{"x", ""}));
  EXPECT_EQ(value_of<Ints>(*file, "u64"), (Ints{7}));
  EXPECT_EQ(value_of<std::vector<uint64_t>>(*file, "wide"), (std::vector<uint64_t>{UINT64_MAX}));
  EXPECT_EQ(value_of<Ints>(*file, "i64"), (Ints{INT64_MIN}));
  EXPECT_EQ(value_of<std::vector<double>>(*file, "f64"), (std::vector<double>{1e300}));
  EXPECT_EQ(value_of<Ints>(*file, "none"), Ints());
}

TEST(Gguf, ArraysOfArraysKeepTheirShape) {
  const auto file = parse(small_file().build());
  ASSERT_TRUE(file.ok()) << file.error().message;
  const Array nested = value_of<Array>(*file, "nested");
  ASSERT_EQ(nested.size(), 2u);
  EXPECT_EQ(std::get<std::vector<int64_t>>(nested[0].data), (std::vector<int64_t>{1, -1}));
  EXPECT_EQ(std::get<std::vector<bool>>(nested[1].data), (std::vector<bool>{true}));
}

TEST(Gguf, EveryTensorTypeKeepsItsShapeAndBytes) {
  std::mt19937 random(1);
  for (int i = 0; i < kernels::kWeightTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    std::string data(kernels::dtype_bytes(dtype, 512 * 3), '\0');
    for (char& c : data) c = static_cast<char>(random());
    GgufImage image;
    image.tensor("first", {1}, 0, "1234").tensor("w", {512, 3}, ggml_of_dtype(dtype), data);
    const std::string bytes = image.build();
    const auto file = parse(bytes);
    ASSERT_TRUE(file.ok()) << file.error().message;
    const Tensor* tensor = file->find("w");
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->dtype, dtype);
    EXPECT_EQ(tensor->shape, (std::vector<uint64_t>{3, 512}));
    EXPECT_EQ(tensor->elements(), 1536u);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(tensor->data.data()), tensor->data.size()),
              data);
    EXPECT_EQ(dtype_of_ggml(ggml_of_dtype(dtype)), dtype);
  }
}

TEST(Gguf, VersionTwoAndOtherAlignmentsAreRead) {
  GgufImage image;
  image.version = 2;
  image.alignment = 128;
  image.key("general.alignment", 4, le<uint32_t>(128));
  image.tensor("a", {4}, 0, std::string(16, 'a')).tensor("b", {4}, 0, std::string(16, 'b'));
  const std::string bytes = image.build();
  const auto file = parse(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->version(), 2u);
  EXPECT_EQ(file->find("b")->data[0], std::byte{'b'});
  EXPECT_EQ((file->find("b")->data.data() - bytes_of(bytes).data()) % 128, 0);
}

TEST(Gguf, TensorsMayLieInAnyOrderAndTheLastPaddingMayBeThere) {
  GgufImage image;
  image.info("second", {8}, 0, 32).info("first", {8}, 0, 0);
  image.data = std::string(32, '1') + std::string(32, '2');
  EXPECT_EQ(parse(image.build())->find("second")->data[0], std::byte{'2'});
  image = GgufImage().tensor("odd", {1}, 0, "1234");
  EXPECT_TRUE(parse(image.build()).ok());
  EXPECT_TRUE(parse(image.build() + std::string(28, '\0')).ok());
}

struct Corruption {
  const char* what;
  std::string image;
  const char* expected;
};

std::string patched(std::string image, size_t at, const std::string& bytes) {
  return image.replace(at, bytes.size(), bytes);
}

std::vector<Corruption> header_corruptions() {
  const std::string good = small_file().build();
  return {
      {"no bytes", "", "the header does not fit"},
      {"other magic", patched(good, 0, "GGML"), "it starts with 'GGML'"},
      {"version 1", patched(good, 4, le(1)), "GGUF version 1; kvick reads versions 2 and 3"},
      {"version 4", patched(good, 4, le(4)), "GGUF version 4"},
      {"big-endian", patched(good, 4, le(3 << 24)), "big-endian"},
      {"endless tensors", patched(good, 8, le<uint64_t>(-1)), "the list of 18446744073709551615"},
      {"too many tensors", patched(good, 8, le<uint64_t>(3)), "tensor"},
      {"endless keys", patched(good, 16, le<uint64_t>(-1)), "metadata of 18446744073709551615"},
      {"bytes behind", good + std::string(32, 'x'), "32 bytes follow the last tensor"},
      {"cut in the data", good.substr(0, good.size() - 1), "tensor 'b.weight', 64 bytes at offset"},
      {"only the header, claims a tensor", GgufImage{.tensors = 1}.build(),
       "the list of 1 tensors"},
  };
}

std::vector<Corruption> metadata_corruptions() {
  const auto with = [](uint32_t type, const std::string& payload) {
    return GgufImage().key("some.key", type, payload).build();
  };
  std::string deep;
  for (int i = 0; i < 5; ++i) deep += le<uint32_t>(9) + le<uint64_t>(1);
  const std::string key65536(65536, 'k');
  GgufImage many;
  for (int i = 0; i < 65537; ++i) many.key(std::to_string(i), 0, "1");
  return {
      {"type 13", with(13, ""), "key 'some.key' has the value type 13"},
      {"bool 2", with(7, "\x02"), "key 'some.key' has the truth value 2"},
      {"bool 2 in an array", with(9, le(7) + le<uint64_t>(2) + "\x01\x02"), "truth value 2"},
      {"long text", with(8, le<uint64_t>(100) + "abc"), "key 'some.key' does not fit"},
      {"endless text", with(8, le<uint64_t>(-1) + "abc"), "key 'some.key' does not fit"},
      {"array of type 99", with(9, le(99) + le<uint64_t>(0)), "elements of the value type 99"},
      {"endless array", with(9, le(10) + le<uint64_t>(-1)), "array of 18446744073709551615 elem"},
      {"overflowing array", with(9, le(10) + le<uint64_t>(uint64_t{1} << 61)), "does not fit"},
      {"long array", with(9, le(4) + le<uint64_t>(2) + le(1)), "array of 2 elements, does not fit"},
      {"array cut in a text", with(9, le(8) + le<uint64_t>(1) + le<uint64_t>(9)), "string 0 of 1"},
      {"deep arrays", with(9, deep + le(0) + le<uint64_t>(0)), "nested deeper than 4"},
      {"huge array", with(9, le(0) + le<uint64_t>((1 << 24) + 1) + std::string((1 << 24) + 1, 'x')),
       "to more than 16777216 elements"},
      {"empty key", GgufImage().text("", "x").build(), "the name of key 0 has 0 bytes"},
      {"long key", GgufImage().text(key65536, "x").build(), "the name of key 0 has 65536 bytes"},
      {"many keys", many.build(), "metadata of 65537 keys"},
      {"same key twice", GgufImage().text("k", "1").text("k", "2").build(), "'k' is given twice"},
      {"control characters", GgufImage().text("a\nb", "1").text("a\nb", "2").build(), "a\\x0ab"},
      {"alignment 0", GgufImage().key("general.alignment", 4, le(0)).build(), "and is 0"},
      {"alignment 48", GgufImage().key("general.alignment", 4, le(48)).build(), "and is 48"},
      {"alignment 4", GgufImage().key("general.alignment", 4, le(4)).build(),
       "power of two from 8"},
      {"alignment 2^40", GgufImage().key("general.alignment", 10, le(uint64_t{1} << 40)).build(),
       "general.alignment"},
      {"alignment text", GgufImage().text("general.alignment", "32").build(), "general.alignment"},
      {"rope order text", GgufImage().text("kvick.rope.interleaved", "no").build(),
       "'kvick.rope.interleaved' is not a truth value"},
  };
}

std::vector<Corruption> tensor_corruptions() {
  const std::string data(64, 'x');
  const auto one = [&](std::initializer_list<uint64_t> dims, uint32_t type, uint64_t offset) {
    GgufImage image;
    image.info("w", dims, type, offset).data = data;
    return image.build();
  };
  const auto two = [&](std::string_view second, uint64_t offset) {
    GgufImage image;
    image.info("w", {8}, 0, 0).info(second, {8}, 0, offset).data = data;
    return image.build();
  };
  return {
      {"no dimensions, then filler", one({}, 0, 0) + data, "tensor 'w' has 0 dimensions"},
      {"5 dimensions", one({1, 1, 1, 1, 1}, 0, 0), "tensor 'w' has 5 dimensions; 1 to 4"},
      {"dimension 0", one({4, 0}, 0, 0), "tensor 'w': dimension 1 is 0"},
      {"product overflows", one({uint64_t{1} << 33, uint64_t{1} << 33}, 0, 0),
       "more elements than"},
      {"product past 2^63", one({uint64_t{1} << 62, 3}, 0, 0), "more elements than"},
      {"bytes overflow", one({uint64_t{1} << 62}, 0, 0), "more elements than"},
      {"row not of whole blocks", one({33}, 8, 0), "rows of 33 elements, no multiple of Q8_0's"},
      {"K row not of whole blocks", one({128, 2}, 12, 0), "no multiple of Q4_K's block of 256"},
      {"type Q1_0", one({256}, 41, 0), "tensor 'w' has the type Q1_0 (41), which kvick does"},
      {"type I32", one({4}, 26, 0), "I32 (26)"},
      {"type 77", one({4}, 77, 0), "the type 77, unknown"},
      {"offset not aligned", one({4}, 0, 16), "starts at offset 16, which is no multiple of"},
      {"offset behind the file", one({4}, 0, 96), "16 bytes at offset 96, does not fit"},
      {"endless offset", one({4}, 0, uint64_t(-32)), "does not fit"},
      {"larger than the file", one({64}, 0, 0), "tensor 'w', 256 bytes at offset 0, does not fit"},
      {"overlap", two("v", 0), "overlap"},
      {"same name", two("w", 32), "two tensors are named 'w'"},
      {"no name", two("", 32), "tensor 1 has no name"},
      {"unused data", one({8}, 0, 0), "32 bytes follow the last tensor"},
  };
}

TEST(Gguf, EachCorruptionIsOneLineThatNamesFileAndField) {
  size_t count = 0;
  for (const auto& table : {header_corruptions(), metadata_corruptions(), tensor_corruptions()})
    for (const auto& [what, image, expected] : table) {
      const auto file = parse(image);
      ++count;
      ASSERT_FALSE(file.ok()) << what;
      const std::string& message = file.error().message;
      EXPECT_NE(message.find(expected), std::string::npos) << what << ": " << message;
      EXPECT_TRUE(message.starts_with("test.gguf: ")) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      EXPECT_LT(message.size(), 400u) << message;
    }
  EXPECT_GE(count, 50u);
}

TEST(Gguf, EveryPrefixOfAFileIsAnError) {
  const std::string good = small_file().build();
  ASSERT_TRUE(parse(good).ok());
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    const std::string image =
        good.substr(0, bytes);  // a copy of exact size, so that ASan sees reads beyond it
    EXPECT_FALSE(parse(image).ok()) << bytes;
  }
}

TEST(Gguf, FlippedBytesNeverCrash) {
  const std::string good = small_file().build();
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string image = good;
    for (int flips = 1 + random() % 3; flips > 0; --flips)
      image[random() % image.size()] = static_cast<char>(random() % 4 != 0 ? random() : 0xff);
    const auto file = parse(image);
    if (!file.ok()) {
      ++refused;
      continue;
    }
    const auto whole = bytes_of(image);
    for (const Tensor& tensor : file->tensors()) {
      EXPECT_GE(tensor.data.data(), whole.data());
      EXPECT_LE(tensor.data.data() + tensor.data.size(), whole.data() + whole.size());
    }
    EXPECT_FALSE(describe_text(*file).empty());
  }
  EXPECT_GT(refused, 1000u);
}

TEST(Gguf, AQuarterOfAMillionStringsAreRead) {
  std::string payload;
  constexpr uint64_t kCount = 280'000;
  for (uint64_t i = 0; i < kCount; ++i) payload += gguf_text(std::to_string(i) + " \xc4\xa0");
  const auto file = parse(GgufImage().array("merges", 8, kCount, payload).build());
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto* strings = file->get_strings("merges");
  ASSERT_EQ(strings->size(), kCount);
  EXPECT_EQ(strings->back(), "279999 \xc4\xa0");
}

TEST(ModelFile, LookUpsSayWhatIsMissingOrOfAnotherType) {
  GgufImage image;
  image.text("text", "x").key("minus", 5, le(-1)).key("plus", 5, le(7)).key("half", 6, le(0.5f));
  const std::string bytes = image.build();
  const auto file = parse(bytes);
  EXPECT_EQ(*file->get_uint("plus"), 7u);
  EXPECT_EQ(*file->get_uint("absent", 9), 9u);
  EXPECT_EQ(*file->get_float("plus"), 7.0);
  EXPECT_EQ(*file->get_float("minus"), -1.0);
  EXPECT_EQ(*file->get_float("absent", 0.25), 0.25);
  EXPECT_EQ(*file->get_float("half", 0.25), 0.5);
  EXPECT_EQ(*file->get_string("text"), "x");
  EXPECT_EQ(*file->get_string("absent", "y"), "y");
  EXPECT_EQ(*file->get_bool("absent", true), true);
  EXPECT_EQ(file->get_uint("absent").error().message, "test.gguf: key 'absent' is missing");
  EXPECT_EQ(file->get_uint("text", 1).error().message, "test.gguf: key 'text' is not an integer");
  EXPECT_EQ(file->get_uint("minus").error().message,
            "test.gguf: key 'minus' is -1, which must not be negative");
  EXPECT_EQ(file->get_uint("half").error().message, "test.gguf: key 'half' is not an integer");
  EXPECT_EQ(file->get_float("text").error().message, "test.gguf: key 'text' is not a number");
  EXPECT_EQ(file->get_bool("text", true).error().message,
            "test.gguf: key 'text' is not a truth value");
  EXPECT_EQ(file->get_string("plus").error().message, "test.gguf: key 'plus' is not a string");
  EXPECT_EQ(file->get_strings("text"), nullptr);
  EXPECT_EQ(file->get_ints("absent"), nullptr);
  EXPECT_EQ(file->get_floats("plus"), nullptr);
  EXPECT_EQ(file->find("absent"), nullptr);
}

TEST(ModelFile, TensorsStayWhereTheyAreWhenTheFileMovesAndItsPagesAreDropped) {
  const TestFolder folder;
  GgufImage image;
  image.tensor("big", {8192}, 0, std::string(32768, 'b'));
  auto opened = ModelFile::open(folder.write("m.gguf", image.build()));
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const std::byte* before = opened->find("big")->data.data();
  const ModelFile moved = std::move(opened).value();
  const Tensor* tensor = moved.find("big");
  EXPECT_EQ(tensor->data.data(), before);
  moved.drop_pages(*tensor);
  for (const std::byte b : tensor->data) ASSERT_EQ(b, std::byte{'b'});
  EXPECT_EQ(moved.file_bytes(), image.build().size());
  EXPECT_EQ(moved.container(), Container::kGguf);
}

TEST(ModelFile, WhatIsNoModelIsRefused) {
  const TestFolder folder;
  const auto message = [](const std::string& path) {
    return ModelFile::open(path).error().message;
  };
  EXPECT_NE(message(folder.path() + "/absent").find("cannot open"), std::string::npos);
  EXPECT_NE(message(folder.write("empty", "")).find("is empty"), std::string::npos);
  EXPECT_NE(message(folder.write("text", "hello")).find("not a model"), std::string::npos);
  EXPECT_NE(message(folder.path()).find("config.json"), std::string::npos);
  const std::string part = GgufImage().key("split.count", 2, le<uint16_t>(3)).build();
  EXPECT_NE(message(folder.write("part.gguf", part)).find("one of 3 parts"), std::string::npos);
  EXPECT_TRUE(ModelFile::open_for_inspection(folder.path() + "/part.gguf").ok());
}

TEST(ModelFile, Nvfp4WithAFactorForTheTensorIsRefused) {
  const TestFolder folder;
  const auto image = [](const char* name) {
    GgufImage made;
    made.tensor("blk.0.ffn_up.weight", {64}, 40, std::string(36, 'w'));
    return made.tensor(name, {1}, 0, "1234").build();
  };
  const std::string path = folder.write("factor.gguf", image("blk.0.ffn_up.scale"));
  const auto file = ModelFile::open(path);
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.error().message.find("'blk.0.ffn_up.scale', which kvick does not apply"),
            std::string::npos)
      << file.error().message;
  EXPECT_TRUE(ModelFile::open_for_inspection(path).ok());
  EXPECT_TRUE(ModelFile::open(folder.write("other.gguf", image("blk.1.ffn_up.scale"))).ok());
}

TEST(ModelFile, TheFuzzersSeedsAreGoodFiles) {
  size_t count = 0;
  for (const char* kind : {"gguf", "safetensors"})
    for (const auto& entry :
         std::filesystem::directory_iterator(base::source_folder() + "/tests/fuzz/seeds/" + kind)) {
      const auto file = ModelFile::open_for_inspection(entry.path().string());
      EXPECT_TRUE(file.ok()) << file.error().message;
      ++count;
    }
  EXPECT_GE(count, 6u);
}

TEST(ModelFile, TheRealModelIsReadWhole) {
  const char* path = std::getenv("KVICK_TEST_MODEL");
  if (path == nullptr) GTEST_SKIP() << "KVICK_TEST_MODEL names no GGUF file";
  const auto file = ModelFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const std::string arch = *file->get_string("general.architecture");
  const uint64_t width = *file->get_uint(arch + ".embedding_length");
  const Tensor* embedding = file->find("token_embd.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->shape,
            (std::vector<uint64_t>{file->get_strings("tokenizer.ggml.tokens")->size(), width}));
  const uint64_t layers = *file->get_uint(arch + ".block_count");
  EXPECT_NE(file->find(fmt::format("blk.{}.attn_q.weight", layers - 1)), nullptr);
  EXPECT_EQ(file->find(fmt::format("blk.{}.attn_q.weight", layers)), nullptr);
  std::vector<float> row(width);
  kernels::to_f32(embedding->dtype, embedding->data.data(), width, row.data());
  for (const float x : row) EXPECT_LT(std::abs(x), 100.0f);
}

}  // namespace
}  // namespace kvick::io
