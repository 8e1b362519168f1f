#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

#include "quantize/importance_dat.h"

namespace kvick::quantize {
namespace {

// Builds the bytes of a .dat importance file, field by field.
struct Dat {
  std::string bytes;
  Dat& number(int32_t value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Dat& text(const std::string& text) {
    number(static_cast<int32_t>(text.size()));
    bytes += text;
    return *this;
  }
  Dat& entry(const std::string& name, int32_t calls, const std::vector<float>& values) {
    text(name).number(calls).number(static_cast<int32_t>(values.size()));
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    return *this;
  }
  base::Result<Importance> parse() const {
    return parse_importance_dat(std::as_bytes(std::span(bytes)), "x.dat");
  }
};

Dat two_tensors() {
  return Dat()
      .number(2)
      .entry("blk.0.attn_q.weight", 4, {4, 8, 12, 16})
      .entry("blk.0.ffn_up_exps.weight", 2, {2, 4, 6, 8});
}

TEST(ImportanceDat, GivesMeansOfTensorsAndOfEachExpert) {
  for (const bool named : {false, true}) {
    Dat dat = two_tensors();
    if (named) dat.number(7).text("essay.txt");
    const auto read = dat.parse();
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->means("blk.0.attn_q.weight", 0, 4), (std::vector<float>{1, 2, 3, 4}));
    EXPECT_EQ(read->means("blk.0.ffn_up_exps.weight", 0, 2), (std::vector<float>{1, 2}));
    EXPECT_EQ(read->means("blk.0.ffn_up_exps.weight", 1, 2), (std::vector<float>{3, 4}));
    EXPECT_TRUE(read->means("blk.0.ffn_up_exps.weight", 2, 2).empty()) << "no such expert";
    EXPECT_TRUE(read->means("blk.0.attn_q.weight", 0, 3).empty()) << "another width";
    EXPECT_EQ(read->text, named ? "essay.txt" : "");
    EXPECT_EQ(read->chunks, named ? 7U : 0U);
  }
}

TEST(ImportanceDat, RefusesAFileThatIsCutOffAnywhere) {
  const size_t without_name = two_tensors().bytes.size();
  Dat whole = two_tensors();
  whole.number(7).text("essay.txt");
  for (size_t size = 0; size < whole.bytes.size(); ++size) {
    const Dat cut = {whole.bytes.substr(0, size)};
    EXPECT_EQ(cut.parse().ok(), size == without_name) << size;
  }
}

TEST(ImportanceDat, RefusesWhatCannotBe) {
  const auto said = [](const Dat& dat) {
    const auto read = dat.parse();
    return read.ok() ? "" : read.error().message;
  };
  EXPECT_NE(said(Dat().number(-1)).find("not an importance file"), std::string::npos);
  EXPECT_NE(said(Dat().number(1).number(INT32_MAX)).find("not an importance file"),
            std::string::npos);
  EXPECT_NE(said(Dat().number(1).text("a").number(1).number(INT32_MAX)).find("cut off"),
            std::string::npos);
  EXPECT_EQ(said(Dat().number(1).entry("a", -1, {1})), "x.dat: tensor a has -1 calls");
  EXPECT_EQ(said(Dat().number(1).entry("a", 1, {-2})),
            "x.dat: tensor a holds -2; sums of squares are finite and not negative");
  EXPECT_NE(said(Dat().number(1).entry("a", 1, {NAN})).find("tensor a holds"), std::string::npos);
  EXPECT_EQ(said(Dat().number(2).entry("a", 1, {1}).entry("a", 1, {1})),
            "x.dat: tensor a comes twice");
}

TEST(ImportanceDat, IsToldFromTheNewerFormByItsFirstBytes) {
  const std::string path = testing::TempDir() + "/kvick_importance.dat";
  std::ofstream(path, std::ios::binary) << two_tensors().bytes;
  const auto read = read_importance(path);
  std::remove(path.c_str());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->tensors.size(), 2U);
  const auto none = read_importance(path);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find(path), std::string::npos);
}

TEST(ImportanceDat, IsNotCopiedIntoMemory) {
  const std::string path = testing::TempDir() + "/kvick_huge_importance.dat";
  std::ofstream(path, std::ios::binary) << "";
  std::error_code error;
  std::filesystem::resize_file(path, uint64_t{1} << 38, error);  // a sparse file
  if (error) GTEST_SKIP() << error.message();
  const auto read = read_importance(path);
  std::remove(path.c_str());
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find("not an importance file"), std::string::npos);
}

}  // namespace
}  // namespace kvick::quantize
