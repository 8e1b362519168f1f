// Tests files of the prefix cache on a failing disk and after damage: a read returns the right rows
// or notices the fault, and an incomplete file never has the name of a complete one.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>

#include "files.h"

#include "base/text_file.h"
#include "engine/prefix/prefix_files.h"
#include "engine/prefix/test_blocks.h"
#include "io/file/test_images.h"

namespace kvick::faults {
namespace {

namespace fs = std::filesystem;
using engine::BlockId;
using engine::BlockKey;
using engine::test::made_ids;
using engine::test::made_rows;

// More than a stream buffers, so that the bytes are written in several calls.
constexpr size_t kRowBytes = 20'000;

std::unique_ptr<engine::PrefixFiles> open_files(const std::string& folder) {
  auto files = engine::PrefixFiles::open({.folder = folder});
  EXPECT_TRUE(files.ok()) << files.error().message;
  return std::move(files).value();
}

void put_all(engine::PrefixFiles& files, const std::vector<BlockId>& ids, size_t bytes) {
  for (size_t i = 0; i < ids.size(); ++i)
    files.keep({ids[i], bytes},
               [&] { return std::make_shared<const std::vector<std::byte>>(made_rows(i, bytes)); });
  files.flush();
}

// Returns whether block i exists; if it does, expects it to have its own rows.
bool has(engine::PrefixFiles& files, const BlockId& id, size_t i, size_t bytes) {
  const auto read = files.read({BlockKey{id, bytes}});
  files.flush();
  if (read->ready() == 0) return false;
  EXPECT_TRUE(std::ranges::equal(read->rows(0), made_rows(i, bytes))) << i;
  return true;
}

class FileFaults : public testing::TestWithParam<FileFault> {};
INSTANTIATE_TEST_SUITE_P(Each, FileFaults,
                         testing::Values(FileFault::kNoSpace, FileFault::kBroken,
                                         FileFault::kShortRead, FileFault::kTorn,
                                         FileFault::kNoRename));

TEST_P(FileFaults, AreNoticedOrComputedAgain) {
  const io::TestFolder folder;
  const std::vector<BlockId> ids = made_ids(16);
  const auto files = open_files(folder.path());
  uint64_t failed = 0;
  {
    const FailingFiles failing(folder.path(), GetParam(), 4, 7);
    put_all(*files, ids, kRowBytes);
    for (size_t i = 0; i < ids.size(); ++i) has(*files, ids[i], i, kRowBytes);
    failed = failing.failed();
  }
  EXPECT_GT(failed, 0U);
  const engine::TierCounts counts = files->counts();
  EXPECT_GT(counts.failed_writes + counts.torn + counts.missing, 0U);
  // Once the disk works again, all blocks can be kept, and the next process reads them.
  put_all(*files, ids, kRowBytes);
  size_t there = 0;
  for (size_t i = 0; i < ids.size(); ++i) there += has(*files, ids[i], i, kRowBytes);
  put_all(*files, ids, kRowBytes);
  const auto again = open_files(folder.path());
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_TRUE(has(*again, ids[i], i, kRowBytes)) << i;
  EXPECT_GT(there, 0U);
}

// Covers the faults that the writer is told of.
TEST(WriteFaults, LeaveNoFileThatIsNotWholeUnderItsName) {
  const io::TestFolder folder;
  const std::string path = folder.path() + "/file";
  const std::string old(30'000, 'o'), fresh(50'000, 'n');
  ASSERT_TRUE(base::write_file(path, old).ok());
  for (const FileFault fault : {FileFault::kNoSpace, FileFault::kBroken, FileFault::kNoRename}) {
    const FailingFiles failing(folder.path(), fault, 1, 1);
    EXPECT_FALSE(base::write_file(path, fresh).ok());
    EXPECT_GT(failing.failed(), 0U);
  }
  std::ifstream in(path, std::ios::binary);
  EXPECT_EQ(std::string((std::istreambuf_iterator<char>(in)), {}), old);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

// Flips a bit of the file, truncates it, or replaces it with another block's file. Each changes the
// file.
void damage(std::mt19937& random, const std::string& folder, const BlockId& id,
            const BlockId& other) {
  const fs::path path = fs::path(folder) / id.name();
  if (random() % 3 == 0) {
    fs::copy_file(fs::path(folder) / other.name(), path, fs::copy_options::overwrite_existing);
    return;
  }
  if (random() % 2 == 0) return fs::resize_file(path, random() % fs::file_size(path));
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto at = static_cast<std::streamoff>(random() % fs::file_size(path));
  file.seekg(at);
  const int byte = file.get() ^ 1 << random() % 8;
  file.seekp(at);
  file.put(static_cast<char>(byte));
}

// KVICK_DAMAGED_BLOCKS: number of blocks, a thousand by default.
TEST(DamagedBlocks, OfAThousandNoneIsTaken) {
  constexpr size_t kBytes = 64, kAtOnce = 50;
  const char* const wanted = std::getenv("KVICK_DAMAGED_BLOCKS");
  const size_t count = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 1000;
  const io::TestFolder folder;
  const std::vector<BlockId> ids = made_ids(kAtOnce + 1);
  const auto files = open_files(folder.path());
  std::mt19937 random(11);
  for (size_t done = 0; done < count; done += kAtOnce) {
    put_all(*files, ids, kBytes);
    for (size_t i = 0; i < kAtOnce; ++i) damage(random, folder.path(), ids[i], ids[kAtOnce]);
    for (size_t i = 0; i < kAtOnce; ++i) EXPECT_FALSE(has(*files, ids[i], i, kBytes)) << i;
    EXPECT_TRUE(has(*files, ids[kAtOnce], kAtOnce, kBytes));
  }
  const engine::TierCounts counts = files->counts();
  EXPECT_EQ(counts.torn + counts.foreign, (count + kAtOnce - 1) / kAtOnce * kAtOnce);
}

}  // namespace
}  // namespace kvick::faults
