#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <unistd.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/result.h"
#include "base/small_vec.h"
#include "base/text_file.h"

namespace kvick::base {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return fail("{} is odd", n);
  return n / 2;
}

Result<int> quarter(int n) {
  KVICK_TRY(const int first, half(n));
  return half(first);
}

TEST(Result, CarriesTheValueOrTheErrorThroughTry) {
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
  EXPECT_THROW((void)quarter(6).value(), Bug);
}

TEST(Check, SaysBothValues) {
  try {
    KVICK_CHECK_EQ(1 + 1, 3);
    FAIL();
  } catch (const Bug& bug) {
    EXPECT_NE(std::string(bug.what()).find("2 against 3"), std::string::npos) << bug.what();
  }
}

TEST(SmallVec, KeepsItsElementsWhenItSpills) {
  SmallVec<int, 2> list;
  for (int i = 0; i < 5; ++i) list.push_back(i);
  ASSERT_EQ(list.size(), 5u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(list[i], i);
  list.clear();
  EXPECT_TRUE(list.empty());
  list.push_back(7);
  EXPECT_EQ(list[0], 7);
}

TEST(Buffer, IsAlignedAndMovesItsMemory) {
  Buffer buffer(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kCacheLine, 0u);
  std::byte* data = buffer.data();
  const Buffer other = std::move(buffer);
  EXPECT_EQ(other.data(), data);
  EXPECT_EQ(other.size(), 100u);
  EXPECT_THROW(Buffer(SIZE_MAX - 1), std::bad_alloc);
}

TEST(Arena, GivesSeparateMemoryAndReusesItAfterReset) {
  Arena arena(256);
  const auto a = arena.make<float>(10), b = arena.make<float>(1000);
  std::memset(a.data(), 1, a.size_bytes());
  std::memset(b.data(), 2, b.size_bytes());
  EXPECT_EQ(reinterpret_cast<unsigned char&>(a[9]), 1);
  arena.reset();
  EXPECT_EQ(arena.make<float>(10).data(), a.data());
  EXPECT_EQ(arena.make<float>(1000).data(), b.data());
}

TEST(MappedFile, SaysWhyAFileCannotBeMapped) {
  EXPECT_NE(MappedFile::open("/nonexistent/file").error().message.find("No such file"),
            std::string::npos);
  EXPECT_NE(MappedFile::open("/").error().message.find("not a regular file"), std::string::npos);
}

TEST(MappedFile, ReadsWhatIsInTheFile) {
  const std::string path = testing::TempDir() + "kvick_mapped_file";
  std::FILE* file = std::fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  std::fputs("hello", file);
  std::fclose(file);
  auto mapped = MappedFile::open(path);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(mapped->bytes().size(), 5u);
  EXPECT_EQ(std::memcmp(mapped->bytes().data(), "hello", 5), 0);
  std::remove(path.c_str());
}

TEST(Cpu, KnowsItsInstructionSetsByName) {
  for (const Isa isa : kIsas) EXPECT_EQ(isa_from_name(isa_name(isa)), isa);
  EXPECT_EQ(isa_from_name("sse9"), std::nullopt);
  EXPECT_TRUE(isa_supported(best_isa()));
  EXPECT_GE(available_cpus(), 1u);
}

TEST(Cpu, HasANameThatStaysTheSame) {
  EXPECT_EQ(cpu_name(), cpu_name());
  EXPECT_NE(cpu_name(), "");
  EXPECT_NE(cpu_name().front(), ' ');
}

TEST(Memory, PeakResidentSetGrowsWithTouchedMemory) {
  const uint64_t before = peak_rss_bytes();
  ASSERT_GT(before, 0u);
  Buffer buffer(size_t{64} << 20);
  std::memset(buffer.data(), 1, buffer.size());
  EXPECT_GE(peak_rss_bytes(), size_t{64} << 20);
}

TEST(WriteFile, ReplacesAFileWholeAndSaysWhyItCannot) {
  const auto folder = std::filesystem::path(testing::TempDir()) / fmt::format("kvick_{}", getpid());
  std::filesystem::create_directories(folder);
  for (const std::string text : {"first, and longer", "second"}) {
    ASSERT_TRUE(write_file(folder / "file", text).ok());
    std::ifstream in(folder / "file");
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), text);
  }
  EXPECT_NE(write_file(folder / "none" / "file", "x").error().message.find("cannot write"),
            std::string::npos);
  // The write fails because a folder has the name of the file. It leaves no partial file behind.
  EXPECT_FALSE(write_file(folder, "x").ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  EXPECT_FALSE(std::filesystem::exists(folder.string() + fmt::format(".{}.part", getpid())));
  std::filesystem::remove_all(folder);
}

TEST(ReadText, ReadsAWholeFileAndRefusesAFolder) {
  const std::filesystem::path folder = testing::TempDir();
  const std::string file = folder / fmt::format("kvick_text_{}", getpid());
  const std::string text("a\0b\n", 4);
  ASSERT_TRUE(write_file(file, text).ok());
  EXPECT_EQ(read_text(file).value(), text);
  std::filesystem::remove(file);
  EXPECT_EQ(read_text(file).error().message, "cannot read " + file);
  EXPECT_EQ(read_text("/").error().message, "cannot read /: it is a folder");
}

}  // namespace
}  // namespace kvick::base
