#include "engine/artifacts/types_file.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <limits>
#include <unistd.h>
#include <vector>

namespace kvick::engine {
namespace {

namespace fs = std::filesystem;

class TypesFileOnDisk : public testing::Test {
 protected:
  TypesFileOnDisk()
      : folder_((fs::temp_directory_path() / fmt::format("kvick-types-{}", getpid())).string()),
        path_(folder_ + "/model.kvt") {
    fs::create_directories(folder_);
  }
  ~TypesFileOnDisk() override { fs::remove_all(folder_); }

  std::string folder_, path_;
};

const ModelIdentity kModel = {
    .arch = "llama", .layers = 2, .kv_heads = 1, .head_dim = 64, .weights = "0123456789abcdef"};

TypesFile some_file() {
  return {.model = kModel,
          .text = "wiki \"two\".txt",
          .tokens = 8184,
          .window = 1024,
          .f16_perplexity = 16.29,
          .types = {{.type = "f16", .bytes_per_token = 256, .perplexity = 16.29},
                    {.type = "q4:rotate=on",
                     .bytes_per_token = 72.5,
                     .kl_mean = 1.0 / 3,
                     .kl_p99 = 0.9,
                     .perplexity = 17,
                     .top1_agreement = 0.8}}};
}

TEST_F(TypesFileOnDisk, IsReadAsItWasWritten) {
  ASSERT_TRUE(write_types(path_, some_file()).ok());
  const TypesFile read = read_types(path_, kModel).value();
  EXPECT_EQ(read.model, kModel);
  EXPECT_EQ(read.text, some_file().text);
  EXPECT_EQ(read.tokens, 8184U);
  EXPECT_EQ(read.window, 1024U);
  EXPECT_EQ(read.f16_perplexity, 16.29);
  EXPECT_EQ(read.types, some_file().types);
}

TEST_F(TypesFileOnDisk, LiesBesideItsModel) {
  EXPECT_EQ(types_path("models/a.Q4_1.gguf"), "models/a.Q4_1.kvt");
  EXPECT_EQ(types_path(folder_), path_);
}

TEST(TypesFile, EveryFieldAndEveryDigitIsNeeded) {
  const std::string text = types_text(some_file());
  const auto refusal = [&](std::string_view from, std::string_view to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    const auto parsed = parse_types(changed);
    return parsed.ok() ? std::string() : parsed.error().message;
  };
  EXPECT_EQ(refusal("kvick_kv_types", "other"), "it is no file of measured types, or damaged");
  EXPECT_EQ(refusal("\"kvick_kv_types\": 1", "\"kvick_kv_types\": 2"), "it is of version 2, not 1");
  EXPECT_EQ(refusal("\"arch\"", "\"arc\""), "arch is missing or no text");
  EXPECT_EQ(refusal("8184", "\"\""), "tokens is missing or no whole number");
  EXPECT_EQ(refusal("1024", "4294967296"), "window is 4294967296, which is too many");
  EXPECT_EQ(refusal("72.5", "-72.5"), "bytes_per_token is -72.5");
  EXPECT_EQ(refusal("0.9", "\"\""), "kl_p99 is missing or no number");
  EXPECT_EQ(refusal("0.9", "null"), "its checksum is wrong: it is damaged");
  EXPECT_EQ(refusal("\"types\": [", "\"types\": 3, \"other\": ["), "types is missing or no list");
  EXPECT_EQ(refusal("\"types\": [", "\"types\": [3,"), "types holds 3, which is no object");
  // JSON nested deeper than the stack: inside the list, where the error message would show it, and
  // outside.
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  const std::string damaged = "it is no file of measured types, or damaged";
  EXPECT_EQ(refusal("\"types\": [", "\"types\": [" + deep + ","), damaged);
  EXPECT_EQ(refusal("\"types\": [", "\"other\": " + deep + ", \"types\": ["), damaged);
  EXPECT_EQ(refusal("72.5", "71.5"), "its checksum is wrong: it is damaged");
  EXPECT_EQ(refusal("8184", "8185"), "its checksum is wrong: it is damaged");
  for (size_t length = 0; length + 2 < text.size(); ++length)
    EXPECT_FALSE(parse_types(std::string_view(text).substr(0, length)).ok()) << length;
}

TEST_F(TypesFileOnDisk, TypesThatRuinAModelAreInfinitelyFar) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  TypesFile file = some_file();
  file.types[1].perplexity = kInfinite;
  file.types[1].kl_mean = std::numeric_limits<double>::quiet_NaN();
  ASSERT_TRUE(write_types(path_, file).ok());
  const TypesFile read = read_types(path_, kModel).value();
  EXPECT_EQ(read.types[0], file.types[0]);
  EXPECT_EQ(read.types[1].perplexity, kInfinite);
  EXPECT_EQ(read.types[1].kl_mean, kInfinite);
}

TEST(TypesFile, KeepsOtherTypesOfTheSameMeasurement) {
  const TypesFile before = some_file();
  TypesFile file = some_file();
  file.f16_perplexity *= 1.005;
  file.types = {{.type = "q8", .bytes_per_token = 136, .perplexity = 16.3},
                {.type = "q4:rotate=on", .bytes_per_token = 72.5, .perplexity = 18}};
  const TypesFile measured = file;
  ASSERT_TRUE(keep_others(file, before).ok());
  EXPECT_EQ(file.types, (std::vector{before.types[0], measured.types[0], measured.types[1]}));
  const auto differs = [&](auto change) {
    TypesFile other = measured;
    change(other);
    const base::Status<> kept = keep_others(other, before);
    EXPECT_EQ(other.types, measured.types);
    return kept.ok() ? std::string() : kept.error().message;
  };
  const std::string said =
      "8184 tokens of wiki \"two\".txt in windows of 1024, with a perplexity of 16.2900 in f16";
  EXPECT_EQ(differs([](TypesFile& other) { other.text = "another.txt"; }), said);
  EXPECT_EQ(differs([](TypesFile& other) { other.tokens = 100; }), said);
  EXPECT_EQ(differs([](TypesFile& other) { other.window = 512; }), said);
  EXPECT_EQ(differs([](TypesFile& other) { other.f16_perplexity = 17; }), said);
}

TEST_F(TypesFileOnDisk, SaysWhatIsWrongWhereItIsMissingOrAnothers) {
  EXPECT_EQ(read_types(path_, kModel).error().message,
            "cannot read the measured types " + path_ + ": No such file or directory");
  ASSERT_TRUE(write_types(path_, some_file()).ok());
  ModelIdentity other = kModel;
  other.weights = "fedcba9876543210";
  EXPECT_EQ(
      read_types(path_, other).error().message,
      path_ + " is for other weights than this model's: make its own with kvick train kvtypes");
  other.layers = 3;
  EXPECT_EQ(
      read_types(path_, other).error().message.find(path_ + " is for another model: 2 layers"), 0U);
  fs::resize_file(path_, 2 << 20);
  EXPECT_EQ(read_types(path_, kModel).error().message,
            path_ + ": 2097152 bytes are too many for measured types");
}

TEST_F(TypesFileOnDisk, ReadOnceAndAgainOnlyAfterAnError) {
  TypesFiles files;
  EXPECT_FALSE(files.read(path_, kModel).ok());
  ASSERT_TRUE(write_types(path_, some_file()).ok());
  const auto first = files.read(path_, kModel).value();
  fs::remove(path_);
  EXPECT_EQ(files.read(path_, kModel).value(), first);
}

}  // namespace
}  // namespace kvick::engine
