#include "kv/rows/row_file.h"

#include <cstring>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "kv/testing/pages.h"

namespace kvick::kv::test {
namespace {

size_t page() { return base::page_bytes(); }

TEST(RowFile, RangesAreZeroAndTakeMemoryWhenTheyAreWritten) {
  const auto file = RowFile::make(8 * page());
  const RowFile::Range a = file->take().value(), b = file->take().value();
  EXPECT_EQ(file->held_bytes(), 0u);
  std::memset(a.data(), 1, 3 * page());
  b.data()[7 * page()] = std::byte{2};
  EXPECT_EQ(file->held_bytes(), 4 * page());
  EXPECT_EQ(a.data()[3 * page()], std::byte{0});
  EXPECT_EQ(b.data()[0], std::byte{0});
}

TEST(RowFile, ManyRangesTakeFewMappings) {
  const auto file = RowFile::make(page());
  std::vector<RowFile::Range> ranges;
  for (int i = 0; i < 64; ++i) ranges.push_back(file->take().value());
  EXPECT_EQ(file->mappings(), 4u);
  for (RowFile::Range& range : ranges) range.data()[0] = std::byte{1};
  EXPECT_EQ(file->held_bytes(), 64 * page());
}

TEST(RowFile, ARangeGivesItsPagesBackAndItsAddressesToTheNext) {
  const auto file = RowFile::make(4 * page());
  auto a = std::make_unique<RowFile::Range>(file->take().value());
  std::byte* const data = a->data();
  std::memset(data, 1, 4 * page());
  a->release(page(), 2 * page());
  EXPECT_EQ(file->held_bytes(), 2 * page());
  EXPECT_EQ(data[page()], std::byte{0});
  a.reset();
  EXPECT_EQ(file->held_bytes(), 0u);
  const RowFile::Range b = file->take().value();
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(data[0], std::byte{0});
}

TEST(RowFile, ACopyOnWriteSeesTheRowsUntilItWritesItself) {
  const auto file = RowFile::make(4 * page());
  const RowFile::Range a = file->take().value();
  std::memset(a.data(), 1, 2 * page());
  const Reservation copy = a.copy_on_write().value();
  EXPECT_EQ(copy.data()[page()], std::byte{1});
  copy.data()[1] = std::byte{5};
  EXPECT_EQ(a.data()[1], std::byte{1});
  a.data()[0] = a.data()[page()] = std::byte{7};
  EXPECT_EQ(copy.data()[0], std::byte{1});
  EXPECT_EQ(copy.data()[page()], std::byte{7});
  copy.release(0, page());
  EXPECT_EQ(copy.data()[1], std::byte{1});
}

TEST(RowFile, ReleasingPagesLeavesThoseThatWereCopied) {
  const auto file = RowFile::make(4 * page());
  const RowFile::Range a = file->take().value();
  const Reservation copy = a.copy_on_write().value();
  copy.data()[0] = std::byte{5};
  EXPECT_EQ(file->held_bytes(), page());  // the kernel creates a page in the file, then copies it
  a.release(0, page());
  EXPECT_EQ(file->held_bytes(), 0u);
  EXPECT_EQ(copy.data()[0], std::byte{5});
}

TEST(RowFile, RangesKeepTheFile) {
  auto file = RowFile::make(page());
  const RowFile::Range a = file->take().value();
  file.reset();
  a.data()[0] = std::byte{1};
  EXPECT_EQ(kernel_pages().file_bytes, page());
}

TEST(RowFile, ALimitOfFileSizesIsAnErrorAndNotASignal) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 4 * page();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const auto file = RowFile::make(2 * page());
  const auto one = file->take(), two = file->take(), three = file->take();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(one.ok());
  EXPECT_TRUE(two.ok());
  ASSERT_FALSE(three.ok());
  EXPECT_NE(three.error().message.find("ulimit -f"), std::string::npos) << three.error().message;
}

}  // namespace
}  // namespace kvick::kv::test
