#include "engine/prefix/prefix_files.h"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/text_file.h"
#include "engine/prefix/test_blocks.h"

namespace kvick::engine {
namespace {

namespace fs = std::filesystem;
using test::made_ids;

constexpr size_t kRowBytes = 4096;

struct Folder {
  Folder()
      : path(fs::temp_directory_path() /
             ("kvick-files-" + std::to_string(::getpid()) + "-" + std::to_string(next++))) {}
  ~Folder() { fs::remove_all(path); }
  static inline int next = 0;
  fs::path path;
};

std::vector<std::byte> rows_of(uint32_t seed) { return test::made_rows(seed, kRowBytes); }

std::unique_ptr<PrefixFiles> open_files(const fs::path& folder, uint64_t max_bytes = 1 << 30) {
  auto files = PrefixFiles::open({.folder = folder, .max_bytes = max_bytes});
  EXPECT_TRUE(files.ok()) << files.error().message;
  return std::move(files).value();
}

std::vector<BlockKey> keys_of(const std::vector<BlockId>& ids) {
  return test::keys_of(ids, kRowBytes);
}

std::shared_ptr<PrefixRead> read_all(PrefixFiles& files, const std::vector<BlockId>& ids) {
  auto read = files.read(keys_of(ids));
  files.flush();
  EXPECT_TRUE(read->done());
  return read;
}

void put(PrefixFiles& files, const BlockId& id, uint32_t seed) {
  files.keep({id, kRowBytes},
             [&] { return std::make_shared<const std::vector<std::byte>>(rows_of(seed)); });
}

void put_all(PrefixFiles& files, const std::vector<BlockId>& ids) {
  for (uint32_t i = 0; i < ids.size(); ++i) put(files, ids[i], i);
  files.flush();
}

void expect_rows(const PrefixRead& read, uint32_t count) {
  ASSERT_EQ(read.ready(), count);
  for (uint32_t i = 0; i < count; ++i)
    EXPECT_TRUE(std::ranges::equal(read.rows(i), rows_of(i))) << "file " << i;
}

TEST(PrefixFiles, GivesBackWhatItWasGivenAlsoAfterARestart) {
  const Folder folder;
  const auto ids = made_ids(3);
  ASSERT_EQ(ids.size(), 3u);
  {
    const auto files = open_files(folder.path);
    EXPECT_EQ(files->known(ids), 0u);
    put_all(*files, ids);
    EXPECT_EQ(files->known(ids), 3u);
    expect_rows(*read_all(*files, ids), 3);
    EXPECT_EQ(files->counts().writes, 3u);
  }
  const auto files = open_files(folder.path);
  EXPECT_EQ(files->known(ids), 3u);
  expect_rows(*read_all(*files, ids), 3);
  EXPECT_EQ(files->counts().hits, 3u);
  EXPECT_EQ(files->counts().bytes, 3 * block_bytes(kRowBytes));
}

TEST(PrefixFiles, TakesNoFileThatIsDamagedForeignOrGoneAndCountsIt) {
  const Folder folder;
  const auto ids = made_ids(4);
  const auto path = [&](int i) { return folder.path / ids[static_cast<size_t>(i)].name(); };
  const auto files = open_files(folder.path);
  put_all(*files, ids);
  fs::resize_file(path(3), 1000);
  fs::copy_file(path(0), path(2), fs::copy_options::overwrite_existing);
  fs::remove(path(1));
  for (int i = 1; i < 4; ++i) {
    const std::vector<BlockId> from(ids.begin() + i, ids.end());
    EXPECT_EQ(read_all(*files, from)->ready(), 0u);
  }
  const TierCounts counts = files->counts();
  EXPECT_EQ(counts.missing, 1u);
  EXPECT_EQ(counts.foreign, 1u);
  EXPECT_EQ(counts.torn, 1u);
  EXPECT_EQ(counts.files, 1u);
  EXPECT_EQ(files->known(ids), 1u);
  EXPECT_FALSE(fs::exists(path(3))) << "a bad file is removed";
  expect_rows(*read_all(*files, ids), 1);
}

TEST(PrefixFiles, StaysBelowItsBoundAndDropsWhatWasUsedLongestAgo) {
  const Folder folder;
  const auto ids = made_ids(6);
  const auto files = open_files(folder.path, 3 * block_bytes(kRowBytes));
  for (uint32_t i = 0; i < 3; ++i) put(*files, ids[i], i);
  files->flush();
  read_all(*files, {ids[0]});
  put(*files, ids[3], 3);
  put(*files, ids[4], 4);
  files->flush();
  EXPECT_EQ(files->counts().evictions, 2u);
  EXPECT_EQ(files->known({&ids[0], 1}), 1u);
  EXPECT_EQ(files->known({&ids[1], 1}), 0u);
  EXPECT_EQ(files->known({&ids[2], 1}), 0u);
  uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder.path)) bytes += entry.file_size();
  EXPECT_EQ(bytes, files->counts().bytes);
  EXPECT_LE(bytes, 3 * block_bytes(kRowBytes));
  const auto small = open_files(folder.path, 10);
  EXPECT_EQ(small->counts().files, 0u) << "a smaller bound holds from the start";
}

// File times that a wrong clock wrote, far in the future or in 1970: they change which file is
// evicted first and nothing else.
TEST(PrefixFiles, TakesFilesWhoseTimesAreWrong) {
  const Folder folder;
  const auto ids = made_ids(3);
  put_all(*open_files(folder.path), ids);
  using Time = fs::file_time_type;
  const auto now = Time::clock::now();
  const std::chrono::hours years(24 * 365 * 60);
  fs::last_write_time(folder.path / ids[0].name(), now + years);
  fs::last_write_time(folder.path / ids[1].name(), now - years);
  {
    const auto files = open_files(folder.path);
    expect_rows(*read_all(*files, ids), 3);
  }
  fs::last_write_time(folder.path / ids[0].name(), now + years);
  fs::last_write_time(folder.path / ids[1].name(), now - years);
  const auto small = open_files(folder.path, 2 * block_bytes(kRowBytes));
  EXPECT_EQ(small->known({&ids[0], 1}), 1u);
  EXPECT_EQ(small->known({&ids[1], 1}), 0u);
}

TEST(PrefixFiles, WaitsForNoSlowDiskAndSurvivesAFullOne) {
  const Folder folder;
  std::atomic<bool> slow{true};
  PrefixFilesOptions options = {.folder = folder.path};
  options.read = [&](const fs::path&, size_t) -> std::optional<std::string> {
    while (slow) std::this_thread::yield();
    return std::nullopt;
  };
  options.write = [](const fs::path&, std::string_view) { return false; };
  options.most_queued_bytes = 2 * kRowBytes;
  const auto files = std::move(PrefixFiles::open(std::move(options))).value();
  const auto ids = made_ids(4);
  const auto read = files->read(keys_of({ids[0]}));
  EXPECT_FALSE(read->done());
  files->abandon(*read);
  files->abandon(*read);
  EXPECT_EQ(files->counts().late, 1u);
  slow = false;
  for (uint32_t i = 0; i < 4; ++i) put(*files, ids[i], i);
  files->flush();
  const TierCounts counts = files->counts();
  EXPECT_EQ(counts.failed_writes + counts.dropped_writes, 4u);
  EXPECT_GE(counts.failed_writes, 2u);
  EXPECT_EQ(counts.files, 0u);
}

TEST(PrefixFiles, WritesWhatIsQueuedBeforeItEnds) {
  for (const double seconds : {5.0, 0.0}) {
    const Folder folder;
    static std::atomic<bool> ending;  // the clock is first asked when the end begins
    ending = false;
    std::atomic<int> written{0};
    PrefixFilesOptions options = {.folder = folder.path, .closing_seconds = seconds};
    options.clock = [] {
      ending = true;
      return 0.0;
    };
    options.write = [&](const fs::path&, std::string_view) {
      while (!ending) std::this_thread::yield();
      ++written;
      return true;
    };
    auto files = std::move(PrefixFiles::open(std::move(options))).value();
    const auto ids = made_ids(4);
    for (uint32_t i = 0; i < 4; ++i) put(*files, ids[i], i);
    files.reset();
    if (seconds > 0)
      EXPECT_EQ(written, 4);
    else
      EXPECT_LE(written, 1);
  }
}

TEST(PrefixFiles, LetsNobodyWaitWhileAFileIsRemoved) {
  const Folder folder;
  std::atomic<bool> removing{false}, slow{true};
  PrefixFilesOptions options = {.folder = folder.path, .max_bytes = block_bytes(kRowBytes)};
  options.remove = [&](const fs::path& path) {
    removing = true;
    while (slow) std::this_thread::yield();
    fs::remove(path);
  };
  const auto files = std::move(PrefixFiles::open(std::move(options))).value();
  const auto ids = made_ids(2);
  const auto wait_for_removal = [&] {
    while (!removing) std::this_thread::yield();
    removing = false;
  };
  const auto known = [&](size_t i) { return files->known({&ids[i], 1}); };
  // Removes an evicted file, and then a damaged one.
  put(*files, ids[0], 0);
  put(*files, ids[1], 1);
  wait_for_removal();
  EXPECT_EQ(known(0), 0u);
  EXPECT_EQ(known(1), 1u);
  slow = false;
  files->flush();
  EXPECT_FALSE(fs::exists(folder.path / ids[0].name()));
  slow = true;
  removing = false;
  fs::resize_file(folder.path / ids[1].name(), 10);
  const auto read = files->read(keys_of({ids[1]}));
  wait_for_removal();
  EXPECT_EQ(known(1), 0u);
  slow = false;
  files->flush();
  EXPECT_TRUE(read->done());
}

// The reader takes a file for damaged or missing, and the block is kept again before the reader has
// removed the file: the new file stays.
TEST(PrefixFiles, KeepsABlockAgainWhileItsFileIsReadOrRemoved) {
  for (const bool damaged : {true, false}) {
    SCOPED_TRACE(damaged);
    const Folder folder;
    const auto ids = made_ids(1);
    std::unique_ptr<PrefixFiles> files;
    std::atomic<int> written = 0;
    std::atomic<bool> again = true;
    // A writer that does not wait for the reader writes meanwhile.
    const auto keep_again = [&] {
      if (!again.exchange(false)) return;
      const int before = written;
      put(*files, ids[0], 0);
      for (int i = 0; i < 100 && written == before; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    PrefixFilesOptions options = {.folder = folder.path};
    options.write = [&](const fs::path& path, std::string_view bytes) {
      const bool good = base::write_file(path, bytes).ok();
      ++written;
      return good;
    };
    options.read = [&](const fs::path& path, size_t) -> std::optional<std::string> {
      const auto bytes = base::read_text(path.string());
      if (!damaged) keep_again();
      return bytes.ok() ? std::optional(*bytes) : std::nullopt;
    };
    options.remove = [&](const fs::path& path) {
      if (damaged) keep_again();
      fs::remove(path);
    };
    files = std::move(PrefixFiles::open(std::move(options))).value();
    if (damaged) {
      put_all(*files, ids);
      fs::resize_file(folder.path / ids[0].name(), 10);
    }
    EXPECT_EQ(read_all(*files, ids)->ready(), 0u);
    EXPECT_EQ(files->known(ids), 1u);
    expect_rows(*read_all(*files, ids), 1);
  }
}

TEST(PrefixFiles, WritesABlockOnceThatIsKeptAgainWhileItIsWritten) {
  const Folder folder;
  const auto ids = made_ids(1);
  std::atomic<bool> writing{false}, slow{true};
  PrefixFilesOptions options = {.folder = folder.path};
  options.write = [&](const fs::path& path, std::string_view bytes) {
    writing = true;
    while (slow) std::this_thread::yield();
    return base::write_file(path, bytes).ok();
  };
  const auto files = std::move(PrefixFiles::open(std::move(options))).value();
  put(*files, ids[0], 0);
  while (!writing) std::this_thread::yield();
  put(*files, ids[0], 0);
  // Its file is not there yet, and nobody waits for it.
  const auto read = files->read(keys_of(ids));
  read->wait(3600);
  EXPECT_EQ(read->ready(), 0u);
  slow = false;
  files->flush();
  EXPECT_EQ(files->counts().writes, 1u);
  expect_rows(*read_all(*files, ids), 1);
}

TEST(PrefixFiles, KeepsAFileThatItHasNoDescriptorFor) {
  const Folder folder;
  const auto ids = made_ids(1);
  const auto files = open_files(folder.path);
  put_all(*files, ids);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto read = read_all(*files, ids);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(read->ready(), 0u);
  EXPECT_EQ(files->counts().missing, 1u);
  expect_rows(*read_all(*files, ids), 1);
}

TEST(PrefixFiles, TriesADiskAgainThatWasSlowOnce) {
  static std::atomic<double> now;  // a clock has no captures
  now = 0;
  const Folder folder;
  const auto ids = made_ids(1);
  PrefixFilesOptions options = {.folder = folder.path};
  options.read = [&](const fs::path&, size_t) -> std::optional<std::string> {
    now = now + 100;
    return encode_block(ids[0], rows_of(0));
  };
  options.clock = [] { return now.load(); };
  const auto files = std::move(PrefixFiles::open(std::move(options))).value();
  expect_rows(*read_all(*files, ids), 1);
  const double slow = files->seconds_per_byte();
  EXPECT_DOUBLE_EQ(slow, 100.0 / static_cast<double>(block_bytes(kRowBytes)));
  now = now + 100;  // in which nothing is read
  EXPECT_GT(files->seconds_per_byte(), 0);
  EXPECT_LT(files->seconds_per_byte(), slow / 1000);
}

TEST(PrefixFiles, SaysThatAFolderCannotBeMadeAndRemovesWhatIsHalfWritten) {
  EXPECT_NE(PrefixFiles::open({.folder = "/proc/none"}).error().message.find("/proc/none"),
            std::string::npos);
  const Folder folder;
  fs::create_directories(folder.path);
  const fs::path half = folder.path / (BlockId{{1, 2}}.name() + ".77.part");
  const fs::path being_written = folder.path / (BlockId{{1, 3}}.name() + ".77.part");
  const fs::path old = folder.path / (std::string(32, 'a') + ".kv");
  const std::vector<fs::path> others = {folder.path / "notes.txt", folder.path / "my.kv.part",
                                        folder.path / (std::string(64, 'a') + ".kv.zip")};
  for (const fs::path& file : {half, being_written, old}) std::ofstream(file) << "x";
  for (const fs::path& file : others) std::ofstream(file) << "x";
  const auto day = fs::file_time_type::clock::now() - std::chrono::hours(24);
  fs::last_write_time(half, day);
  for (const fs::path& file : others) fs::last_write_time(file, day);
  open_files(folder.path);
  EXPECT_FALSE(fs::exists(half));
  EXPECT_TRUE(fs::exists(being_written)) << "by another process";
  EXPECT_FALSE(fs::exists(old)) << "of a version that nobody reads";
  for (const fs::path& file : others) EXPECT_TRUE(fs::exists(file)) << file;
}

}  // namespace
}  // namespace kvick::engine
