#include "io/packed/packed_file.h"

#include <csignal>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <sys/resource.h>
#include <unistd.h>

#include "io/packed/packed_writer.h"

namespace kvick::io {
namespace {

namespace fs = std::filesystem;

class PackedFiles : public testing::Test {
 protected:
  PackedFiles() {
    fs::create_directories(folder_);
    for (std::vector<std::byte>& data : contents_)
      for (std::byte& byte : data) byte = static_cast<std::byte>(random_());
    for (const std::vector<std::byte>& data : contents_)
      matrices_.push_back({.name = "m" + std::to_string(data.size()), .bytes = data.size()});
  }
  ~PackedFiles() override { fs::remove_all(folder_); }

  PackedPlan plan() const { return {{.high = 1, .low = 2}, "/models/a.gguf", matrices_}; }
  // Appends pieces of `step` bytes.
  void write(size_t step = SIZE_MAX) {
    auto writer = PackedWriter::create(path_, plan());
    ASSERT_TRUE(writer.ok()) << writer.error().message;
    for (const std::vector<std::byte>& data : contents_)
      for (size_t at = 0; at < data.size(); at += std::min(step, data.size())) {
        const auto rest = std::span(data).subspan(at);
        ASSERT_TRUE(writer->append(rest.first(std::min(step, rest.size())), pool_).ok());
      }
    ASSERT_TRUE(writer->finish().ok());
  }
  std::string read_all() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write_all(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  // Returns what is wrong with the file, or "" if it is good.
  std::string wrong() {
    auto file = PackedFile::open(path_, plan());
    if (!file.ok()) return file.error().message;
    const auto checked = file->check(pool_, nullptr);
    return checked.ok() ? "" : checked.error().message;
  }

  fs::path folder_ = testing::TempDir() + "kvick_packed_" + std::to_string(getpid());
  fs::path path_ = folder_ / "a.packed";
  std::mt19937 random_{1};
  base::ThreadPool pool_{2};
  // Sizes: two small ones, and one above two pieces; two are not multiples of 64.
  std::vector<std::vector<std::byte>> contents_ = {std::vector<std::byte>(100),
                                                   std::vector<std::byte>(kPackedPiece * 2 + 65),
                                                   std::vector<std::byte>(64)};
  std::vector<PackedMatrix> matrices_;
};

TEST_F(PackedFiles, GiveBackWhatWasWrittenHoweverItWasCut) {
  std::string first;
  for (const size_t step : {SIZE_MAX, size_t{1} << 20, size_t{12345}}) {
    write(step);
    auto file = PackedFile::open(path_, plan());
    ASSERT_TRUE(file.ok()) << file.error().message;
    uint64_t done = 0, total = 0;
    const auto note = [&](uint64_t now, uint64_t all) { done = now, total = all; };
    PackedFile::Progress progress(note);
    EXPECT_TRUE(file->check(pool_, &progress).ok());
    EXPECT_EQ(done, total);
    EXPECT_EQ(total, plan().data_bytes);
    for (size_t i = 0; i < contents_.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(file->matrix(i), contents_[i]));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(file->matrix(i).data()) % 64, 0U);
    }
    if (first.empty()) first = read_all();
    EXPECT_EQ(read_all(), first);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);  // no other file is left
}

TEST_F(PackedFiles, AreRefusedWithOneByteChangedAnywhere) {
  write();
  const std::string good = read_all();
  std::vector<size_t> places;
  for (size_t i = 0; i < 128; ++i) places.push_back(i);  // the header, the path and checksums
  for (int i = 0; i < 40; ++i) places.push_back(random_() % good.size());
  places.push_back(kPackedUnit - 1);  // the last byte of the head
  places.push_back(good.size() - 1);
  for (const size_t place : places) {
    std::string bad = good;
    bad[place] = static_cast<char>(bad[place] ^ 4);
    write_all(bad);
    EXPECT_NE(wrong(), "") << "byte " << place;
  }
  write_all(good);
  EXPECT_EQ(wrong(), "");
}

TEST_F(PackedFiles, AreRefusedWhenCutShortOrLonger) {
  write();
  const std::string good = read_all();
  for (const size_t bytes :
       {size_t{1}, size_t{63}, size_t{64}, size_t{100}, kPackedUnit, good.size() - 1}) {
    write_all(good.substr(0, bytes));
    EXPECT_NE(wrong(), "") << bytes;
  }
  write_all(good + "more");
  EXPECT_NE(wrong(), "");
  write_all("");
  EXPECT_EQ(wrong(), "it is no regular file, or empty");
}

TEST_F(PackedFiles, OfAnotherKeyOrOtherMatricesAreRefused) {
  write();
  const PackedPlan other({.high = 1, .low = 3}, "", matrices_);
  EXPECT_FALSE(PackedFile::open(path_, other).ok());
  matrices_.pop_back();
  EXPECT_EQ(wrong(), "it has 8388928 bytes of weights, not 8388864");
}

// Heads with a good checksum but a wrong number of pieces, or with numbers that would overflow.
TEST_F(PackedFiles, WhoseHeadLiesAreRefused) {
  write();
  const std::string good = read_all();
  for (const uint64_t bytes : {uint64_t{100}, uint64_t{100} << 20}) {
    const PackedMatrix other{.name = "m", .bytes = bytes};
    PackedPlan lie(plan().key, "", {&other, 1});
    ASSERT_EQ(lie.head_bytes, plan().head_bytes);
    lie.data_bytes = plan().data_bytes;
    const std::vector<std::byte> head = packed_head(lie, std::vector<uint64_t>(lie.pieces));
    std::string bad = good;
    std::copy_n(reinterpret_cast<const char*>(head.data()), head.size(), bad.data());
    write_all(bad);
    EXPECT_EQ(wrong(), fmt::format("it says {} pieces for 8388928 bytes", lie.pieces));
  }
  for (const uint64_t number :
       {uint64_t{1} << 33, UINT64_MAX, UINT64_MAX / 8, UINT64_MAX / 8 + 1}) {
    std::string bad = good;
    std::memcpy(bad.data() + 40, &number, sizeof number);  // the pieces
    EXPECT_FALSE(parse_packed_head(std::as_bytes(std::span(bad)), bad.size()).ok());
  }
}

TEST_F(PackedFiles, HaveOneWriterAndAppearWhole) {
  auto one = PackedWriter::create(path_, plan());
  ASSERT_TRUE(one.ok());
  const auto two = PackedWriter::create(path_, plan());
  ASSERT_FALSE(two.ok());
  EXPECT_EQ(two.error().message, "another process is packing the same weights");
  EXPECT_TRUE(one->append(contents_[0], pool_).ok());
  EXPECT_FALSE(fs::exists(path_));
  *one = *PackedWriter::create(folder_ / "b.packed", plan());  // destroys the first writer
  EXPECT_FALSE(fs::exists(path_.string() + ".part"));
  EXPECT_TRUE(PackedWriter::create(path_, plan()).ok());
}

// A limit on file sizes simulates a full disk.
TEST_F(PackedFiles, ThatCannotBeWrittenToTheirEndLeaveNothing) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = kPackedUnit + kPackedPiece + 100;
  auto writer = PackedWriter::create(path_, plan());
  ASSERT_TRUE(writer.ok());
  EXPECT_TRUE(writer->append(contents_[0], pool_).ok());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto full = writer->append(contents_[1], pool_);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().message, "cannot write " + path_.string() + ".part: File too large");
  { const PackedWriter gone = *std::move(writer); }
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace kvick::io
