#include "io/packed/packed_folder.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "io/file/builder.h"
#include "io/packed/packed_key.h"

namespace kvick::io {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kBytes = uint64_t{1} << 20;

class PackedFolders : public testing::Test {
 protected:
  PackedFolders() {
    options_.folder = top_ / "a" / "packed";
    options_.max_bytes = 20 * kBytes;
    options_.say = [this](const std::string& note) { notes_.push_back(note); };
  }
  ~PackedFolders() override { fs::remove_all(top_); }

  // Returns a plan of one matrix; the file has 2 MiB more.
  PackedPlan plan(uint64_t number, uint64_t bytes = kBytes) const {
    const PackedMatrix matrix{.name = "m", .bytes = bytes};
    return {{.high = number, .low = 0}, "/models/" + std::to_string(number), {&matrix, 1}};
  }
  PackedFolder folder() const { return PackedFolder(options_); }
  base::Status<> write(const PackedPlan& plan) {
    KVICK_TRY(PackedWriter writer, folder().begin(plan));
    const std::vector<std::byte> data(plan.sizes[0], std::byte{7});
    KVICK_TRY_VOID(writer.append(data, pool_));
    return writer.finish();
  }
  bool has(uint64_t number) { return folder().find(plan(number), pool_, nullptr).has_value(); }
  // Makes a file's last use earlier by some seconds.
  void age(uint64_t number, int seconds) {
    const fs::path path = folder().path_of(plan(number).key);
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
  }

  fs::path top_ = testing::TempDir() + "kvick_folder_" + std::to_string(getpid());
  base::ThreadPool pool_{2};
  PackedOptions options_;
  std::vector<std::string> notes_;
};

TEST_F(PackedFolders, KeepWhatIsWrittenAndListIt) {
  EXPECT_FALSE(has(1));
  EXPECT_TRUE(packed_entries(options_.folder).empty());
  ASSERT_TRUE(write(plan(1)).ok());
  ASSERT_TRUE(write(plan(2)).ok());
  age(2, 100);
  EXPECT_TRUE(has(1));
  const std::vector<PackedEntry> entries = packed_entries(options_.folder);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].model, "/models/1");
  EXPECT_EQ(entries[0].bytes, plan(1).file_bytes());
  EXPECT_EQ(entries[1].model, "/models/2");
  EXPECT_TRUE(notes_.empty());
}

TEST_F(PackedFolders, DeleteWhatWasUsedLongestAgo) {
  options_.max_bytes = 3 * plan(1).file_bytes();
  for (const uint64_t number : {1, 2, 3}) ASSERT_TRUE(write(plan(number)).ok());
  age(1, 300), age(2, 200), age(3, 100);
  EXPECT_TRUE(has(1));  // now the most recently used
  ASSERT_TRUE(write(plan(4)).ok());
  EXPECT_TRUE(has(1));
  EXPECT_FALSE(has(2));
  EXPECT_TRUE(has(3));
  EXPECT_TRUE(has(4));
}

TEST_F(PackedFolders, RefuseWhatIsLargerThanTheLimitAndKeepTheRest) {
  ASSERT_TRUE(write(plan(1)).ok());
  const auto large = write(plan(2, 40 * kBytes));
  ASSERT_FALSE(large.ok());
  EXPECT_NE(large.error().message.find("may hold 0.0 GB"), std::string::npos)
      << large.error().message;
  EXPECT_TRUE(has(1));
  options_.max_bytes = UINT64_MAX;
  const auto huge = folder().begin(plan(3, uint64_t{1} << 45));
  ASSERT_FALSE(huge.ok());
  EXPECT_NE(huge.error().message.find("free"), std::string::npos) << huge.error().message;
}

TEST_F(PackedFolders, DeleteADamagedFileAndSaySo) {
  ASSERT_TRUE(write(plan(1)).ok());
  const fs::path path = folder().path_of(plan(1).key);
  {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(kPackedUnit) + 1000);
    file.put('x');
  }
  EXPECT_FALSE(has(1));
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_NE(notes_[0].find("is damaged: the checksum of its bytes from 2097152 on is wrong"),
            std::string::npos)
      << notes_[0];
  EXPECT_FALSE(fs::exists(path));
  std::ofstream(path) << "short";
  EXPECT_EQ(packed_entries(options_.folder)[0].model, "");
  EXPECT_FALSE(has(1));
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(PackedFolders, LeaveAFileAloneThatCannotBeOpened) {
  ASSERT_TRUE(write(plan(1)).ok());
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = files.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool found = has(1);
  const auto writer = folder().begin(plan(1));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_FALSE(found);
  ASSERT_FALSE(writer.ok());
  EXPECT_NE(writer.error().message.find("is there, but cannot be opened: Too many open files"),
            std::string::npos)
      << writer.error().message;
  EXPECT_EQ(notes_, std::vector<std::string>()) << "nothing is damaged";
  EXPECT_TRUE(has(1));
}

// Files of sysfs are regular and have bytes, but no mappings, as on some network file systems.
TEST_F(PackedFolders, LeaveAFileAloneThatCannotBeMapped) {
  const fs::path unmappable = "/sys/devices/system/cpu/online";
  if (!fs::exists(unmappable)) GTEST_SKIP() << "needs sysfs";
  fs::create_directories(options_.folder);
  const fs::path path = folder().path_of(plan(1).key);
  fs::create_symlink(unmappable, path);
  EXPECT_FALSE(has(1));
  EXPECT_TRUE(fs::is_symlink(path)) << "the file must not be deleted";
  EXPECT_EQ(notes_, std::vector<std::string>()) << "nothing is damaged";
  const auto writer = folder().begin(plan(1));
  ASSERT_FALSE(writer.ok());
  EXPECT_NE(writer.error().message.find("is there, but cannot be mapped: No such device"),
            std::string::npos)
      << writer.error().message;
}

// Sanitizers reserve more address space than any limit here.
#if !defined(KVICK_SANITIZED)
TEST_F(PackedFolders, LeaveAFileAloneThatCannotBeMappedForWantOfMemory) {
  ASSERT_TRUE(write(plan(1)).ok());
  uint64_t pages = 0;  // of address space, in use
  std::ifstream("/proc/self/statm") >> pages;
  ASSERT_GT(pages, 0U);
  rlimit space{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &space), 0);
  const rlimit tight{.rlim_cur = pages * base::page_bytes() + kBytes, .rlim_max = space.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  const bool found = has(1);
  const auto writer = folder().begin(plan(1));
  ASSERT_EQ(setrlimit(RLIMIT_AS, &space), 0);
  EXPECT_FALSE(found);
  ASSERT_FALSE(writer.ok());
  EXPECT_NE(writer.error().message.find("is there, but the system lets this process map no"),
            std::string::npos)
      << writer.error().message;
  EXPECT_EQ(notes_, std::vector<std::string>()) << "nothing is damaged";
  EXPECT_TRUE(has(1));
}
#endif

TEST_F(PackedFolders, RemoveWhatADeadWriterLeftAndNotALivingOnes) {
  ASSERT_TRUE(write(plan(1)).ok());
  const fs::path dead = options_.folder / "dead.packed.part";
  std::ofstream(dead) << "half";
  const auto living = folder().begin(plan(2));
  ASSERT_TRUE(living.ok());
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(write(plan(3)).ok());
  EXPECT_TRUE(fs::exists(folder().path_of(plan(2).key).string() + ".part"));
}

TEST_F(PackedFolders, ThatCannotBeWrittenAreSaid) {
  fs::create_directories(top_);
  std::ofstream(top_ / "a") << "a file where a folder is to be";
  const auto refused = write(plan(1));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("cannot make the folder"), std::string::npos);
}

// Keys differ if anything differs that packed weights depend on.
TEST_F(PackedFolders, KeysFollowTheModelFile) {
  fs::create_directories(top_);
  const fs::path path = top_ / "model.gguf";
  std::ofstream(path) << "weights";
  std::vector<std::byte> bytes(64 * 4, std::byte{1});
  const auto key = [&](const fs::path& of, uint32_t layout, const std::string& matrix) {
    ModelFileBuilder builder(Container::kGguf, of.string());
    Tensor tensor{.name = "t", .dtype = kernels::DType::kF32, .shape = {64}, .data = bytes};
    EXPECT_TRUE(builder.add_tensor(tensor).ok());
    const PackedMatrix one{.name = matrix, .bytes = 64};
    const auto made = packed_key(builder.finish(), layout, {&one, 1});
    return made.ok() ? key_text(*made) : made.error().message;
  };
  const std::string first = key(path, 1, "m");
  EXPECT_EQ(first.size(), 32U);
  EXPECT_EQ(key(path, 1, "m"), first);
  EXPECT_NE(key(path, 2, "m"), first);
  EXPECT_NE(key(path, 1, "n"), first);
  bytes.back() = std::byte{2};
  EXPECT_NE(key(path, 1, "m"), first);
  bytes.back() = std::byte{1};
  fs::rename(path, top_ / "moved.gguf");
  EXPECT_EQ(key(top_ / "moved.gguf", 1, "m"), first);
  fs::last_write_time(top_ / "moved.gguf",
                      fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_NE(key(top_ / "moved.gguf", 1, "m"), first);
  EXPECT_NE(key(path, 1, "m").find("cannot look up"), std::string::npos);
}

}  // namespace
}  // namespace kvick::io
