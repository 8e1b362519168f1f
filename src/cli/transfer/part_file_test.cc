#include "cli/transfer/part_file.h"

#include <gtest/gtest.h>
#include <thread>

#include "cli/models/test_folder.h"
#include "cli/transfer/failure.h"

namespace kvick::cli {
namespace {

namespace fs = std::filesystem;

const Origin kOrigin{.url = "http://h/m", .validator = "\"1\"", .total = 6};

PartFile open_part(const fs::path& target) {
  return PartFile::open(target, [] { FAIL() << "nobody else has it"; });
}
void append(PartFile& part, std::string_view text) { part.append(std::as_bytes(std::span(text))); }
size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(PartFile, IsSeenUnderItsNameOnlyWhenInstalled) {
  const TestFolder folder;
  const fs::path target = folder.path / "a/b/model";
  PartFile part = open_part(target);
  append(part, "abc");
  EXPECT_FALSE(fs::exists(target));
  EXPECT_EQ(part.sha256(), sha256_of("abc"));
  part.install();
  EXPECT_EQ(TestFolder::read(target), "abc");
  EXPECT_EQ(files_in(target.parent_path()), 1u);
}

TEST(PartFile, WithAnOriginOutlivesItsProcessAndIsContinued) {
  const TestFolder folder;
  const fs::path target = folder.path / "model";
  {
    PartFile part = open_part(target);
    part.set_origin(kOrigin);
    append(part, "abc");
  }
  PartFile part = open_part(target);
  EXPECT_EQ(part.size(), 3u);
  EXPECT_EQ(part.inherited(), 3u);
  EXPECT_EQ(part.origin(), kOrigin);
  append(part, "def");
  EXPECT_EQ(part.sha256(), sha256_of("abcdef"));
  EXPECT_EQ(part.head(4), "abcd");
  part.install();
  EXPECT_EQ(TestFolder::read(target), "abcdef");
  EXPECT_EQ(files_in(folder.path), 1u);
}

TEST(PartFile, WithoutAnOriginOrBytesLeavesNothing) {
  const TestFolder folder;
  {
    PartFile part = open_part(folder.path / "one");
    append(part, "bytes of unknown origin");
    PartFile empty = open_part(folder.path / "two");
    empty.set_origin(kOrigin);
  }
  EXPECT_EQ(files_in(folder.path), 0u);
}

TEST(PartFile, ClearedForgetsBytesOriginAndHash) {
  const TestFolder folder;
  PartFile part = open_part(folder.path / "m");
  part.set_origin(kOrigin);
  append(part, "abc");
  part.clear();
  EXPECT_EQ(part.size(), 0u);
  EXPECT_EQ(part.origin(), std::nullopt);
  append(part, "x");
  EXPECT_EQ(part.sha256(), sha256_of("x"));
}

TEST(PartFile, ASecondOneWaitsForTheFirst) {
  const TestFolder folder;
  const fs::path target = folder.path / "m";
  std::optional<PartFile> first(open_part(target));
  append(*first, "abc");
  // waiting() is called on the second thread once it has seen the lock, and ends the first part
  // there.
  std::thread second([&] {
    int waits = 0;
    const PartFile part = PartFile::open(target, [&] {
      ++waits;
      first->install();
    });
    EXPECT_EQ(waits, 1);
    EXPECT_EQ(part.size(), 0u) << "a part of its own, not the file that was renamed away";
  });
  second.join();
  EXPECT_EQ(TestFolder::read(target), "abc");
}

TEST(PartFile, AFolderThatCannotBeMadeIsSaid) {
  const TestFolder folder;
  folder.write("file", "");
  try {
    open_part(folder.path / "file/m");
    FAIL() << "a file is no folder";
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("cannot make the folder"), std::string::npos);
  }
}

TEST(FreeBytes, LooksAtTheNearestFolderThatExists) {
  const TestFolder folder;
  EXPECT_GT(free_bytes(folder.path / "not/there/yet"), 0u);
}

}  // namespace
}  // namespace kvick::cli
