// Tests what tier.h promises for each kind of tier, and failures of the system's file calls.

#include "kv/tier/tier.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <numa.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "kv/tier/tier_file.h"

namespace kvick::kv {
namespace {

constexpr size_t kUnit = 4096;

TierOptions options_of(const std::string& text) {
  auto options = read_tier(parse_spec(text).value());
  EXPECT_TRUE(options.ok()) << options.error().message;
  return options.value();
}
std::string refusal_of(const std::string& text) {
  const auto options = read_tier(parse_spec(text).value());
  if (!options.ok()) return options.error().message;
  const auto tier = make_tier(*options, kUnit);
  return tier.ok() ? "" : tier.error().message;
}
std::string here() { return std::filesystem::temp_directory_path().string(); }

// Memory like that of frames: whole units, the first at a page boundary.
struct Memory {
  explicit Memory(size_t units) : buffer((units + 1) * kUnit) {
    void* at = buffer.data();
    size_t space = buffer.size();
    first = static_cast<std::byte*>(std::align(kUnit, units * kUnit, at, space));
  }
  std::span<std::byte> unit(size_t i) const { return {first + i * kUnit, kUnit}; }
  base::Buffer buffer;
  std::byte* first;
};

// Waits for all transfers under way and returns their errors by tag.
std::map<uint64_t, std::string> finish_all(Tier& tier, size_t count) {
  std::vector<Moved> ended;
  for (size_t i = 0; i < count + 100 && ended.size() < count; ++i) tier.finish(1, ended);
  EXPECT_EQ(ended.size(), count);
  std::map<uint64_t, std::string> by_tag;
  for (const Moved& one : ended) EXPECT_TRUE(by_tag.emplace(one.tag, one.error).second);
  return by_tag;
}

struct Moves {
  Way way;
  size_t units;
};
std::vector<Transfer> transfers(const Memory& memory, const Moves& moves) {
  std::vector<Transfer> all;
  for (size_t i = 0; i < moves.units; ++i)
    all.push_back(
        {.way = moves.way, .at = (moves.units - 1 - i) * kUnit, .data = memory.unit(i), .tag = i});
  return all;
}

class EachTier : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam().starts_with("numa") && numa_available() < 0) GTEST_SKIP() << "no NUMA here";
  }
};
INSTANTIATE_TEST_SUITE_P(Tiers, EachTier,
                         testing::Values("ram:size=16MiB",
                                         "ram:size=16MiB,bandwidth=2GB/s,latency=50us",
                                         "numa:node=0,size=16MiB", "file:dir=" + here(),
                                         "file:io=pread,dir=" + here(),
                                         "file:direct=off,dir=" + here()));

TEST_P(EachTier, BringsBackWhatWasWrittenInWhateverOrder) {
  auto made = make_tier(options_of(GetParam()), kUnit);
  ASSERT_TRUE(made.ok()) << made.error().message;
  Tier& tier = **made;
  EXPECT_FALSE(tier.description().empty());
  constexpr size_t kUnits = 600;  // more than a ring has slots
  ASSERT_TRUE(tier.reserve(0, kUnits * kUnit).ok());
  const Memory out(kUnits), in(kUnits);
  for (size_t i = 0; i < kUnits; ++i)
    std::memset(out.unit(i).data(), static_cast<int>(i % 251 + 1), kUnit);
  tier.start(transfers(out, {Way::kWrite, kUnits}));
  for (const auto& [tag, error] : finish_all(tier, kUnits)) EXPECT_EQ(error, "");
  tier.start(transfers(in, {Way::kRead, kUnits}));
  for (const auto& [tag, error] : finish_all(tier, kUnits)) EXPECT_EQ(error, "");
  for (size_t i = 0; i < kUnits; ++i)
    ASSERT_EQ(std::memcmp(in.unit(i).data(), out.unit(i).data(), kUnit), 0) << i;
}

TEST_P(EachTier, HasRoomAgainThatWasGivenBack) {
  auto made = make_tier(options_of(GetParam()), kUnit);
  ASSERT_TRUE(made.ok()) << made.error().message;
  Tier& tier = **made;
  const Memory memory(1);
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(tier.reserve(8 * kUnit, kUnit).ok());
    std::memset(memory.unit(0).data(), round + 5, kUnit);
    const Transfer write = {.way = Way::kWrite, .at = 8 * kUnit, .data = memory.unit(0), .tag = 7};
    tier.start({&write, 1});
    EXPECT_EQ(finish_all(tier, 1)[7], "");
    std::memset(memory.unit(0).data(), 0, kUnit);
    Transfer read = write;
    read.way = Way::kRead;
    tier.start({&read, 1});
    EXPECT_EQ(finish_all(tier, 1)[7], "");
    EXPECT_EQ(memory.unit(0)[100], static_cast<std::byte>(round + 5));
    tier.release(8 * kUnit, kUnit);
  }
}

TEST_P(EachTier, DoesNotWaitWhenNothingIsUnderWay) {
  auto made = make_tier(options_of(GetParam()), kUnit);
  ASSERT_TRUE(made.ok()) << made.error().message;
  std::vector<Moved> ended;
  (*made)->finish(1e9, ended);
  EXPECT_TRUE(ended.empty());
}

TEST(RamTier, IsHeldToItsBandwidthAndLatency) {
  auto tier = make_tier(options_of("ram:size=1MiB,bandwidth=4096KB/s,latency=20ms"), kUnit).value();
  const Memory memory(10);
  const double began = base::steady_seconds();
  tier->start(transfers(memory, {Way::kWrite, 10}));
  finish_all(*tier, 10);
  // 10 units of one millisecond each, one after the other, and one latency.
  EXPECT_GE(base::steady_seconds() - began, 0.03 - 1e-4);
}

TEST(TierSpec, SaysWhatIsWrongAndWhatExists) {
  EXPECT_EQ(refusal_of("disk"), "'disk' is no tier; there are ram, numa, file");
  EXPECT_EQ(refusal_of("file"), "file: needs the folder of a disk: file:dir=PATH");
  EXPECT_EQ(
      refusal_of("ram:node=1"),
      "ram has no option 'node'; it has bandwidth, latency, access, fast, size, unit, timeout");
  EXPECT_EQ(refusal_of("ram:bandwidth=4"),
            "ram: bandwidth='4' is no rate, such as 4GB/s (simulated bandwidth, such as 4GB/s)");
  EXPECT_EQ(refusal_of("ram:latency=3h"),
            "ram: latency='3h' is no time, such as 2us (simulated latency of each transfer, such "
            "as 1us)");
  EXPECT_NE(refusal_of("ram:fast=lots").find("fast='lots' is no number of bytes"),
            std::string::npos);
  EXPECT_NE(refusal_of("ram:unit=0").find("unit='0' is not a whole number from 1"),
            std::string::npos);
  EXPECT_NE(refusal_of("file:dir=/no/such/folder")
                .find("no file can be made in /no/such/folder: No such file or directory"),
            std::string::npos);
  if (numa_available() >= 0) {
    EXPECT_NE(refusal_of("numa:node=1023").find("there is no node 1023"), std::string::npos);
  }
  EXPECT_NE(refusal_of("numa").find("node=''"), std::string::npos);
}

TEST(TierSpec, ReadsAmountsWithUnits) {
  const TierOptions ram = options_of("ram:fast=1.5MiB,bandwidth=4GB/s,latency=2us,size=3KB");
  EXPECT_EQ(ram.fast_bytes, 1572864u);
  EXPECT_EQ(ram.most_bytes, 3000u);
  EXPECT_EQ(ram.bytes_s, 4e9);
  EXPECT_NEAR(ram.latency_s, 2e-6, 1e-12);
  EXPECT_EQ(options_of("ram").fast_bytes, uint64_t{256} << 20);
}

TEST(FileTier, LeavesNoNameInItsFolder) {
  const auto dir = std::filesystem::temp_directory_path() / "kvick-tier-test";
  std::filesystem::create_directory(dir);
  auto tier = make_tier(options_of("file:dir=" + dir.string()), kUnit).value();
  EXPECT_TRUE(std::filesystem::is_empty(dir));
  std::filesystem::remove(dir);
}

TEST(FileTier, SaysWhyUnitsThatAreNoSectorsCannotGoPastThePageCache) {
  auto options = options_of("file:direct=on,dir=" + here());
  const auto refused = make_tier(options, 4097);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("direct=on: "), std::string::npos);
  options.direct = TierOptions::Direct::kAuto;
  const auto made = make_tier(options, 4097);
  ASSERT_TRUE(made.ok());
  EXPECT_NE((*made)->description().find("through the page cache"), std::string::npos);
}

// -- answers of the system --

TEST(Settle, GoesOnAfterAShortCallAndAnInterruptedOne) {
  std::byte data[100];
  Transfer transfer = {.way = Way::kRead, .at = 1000, .data = data, .tag = 3};
  std::string error;
  EXPECT_FALSE(settle(transfer, -EINTR, error));
  EXPECT_FALSE(settle(transfer, -EAGAIN, error));
  EXPECT_FALSE(settle(transfer, 30, error));
  EXPECT_EQ(transfer.at, 1030u);
  EXPECT_EQ(transfer.data.data(), data + 30);
  EXPECT_TRUE(settle(transfer, 70, error));
  EXPECT_EQ(error, "");
}

TEST(Settle, SaysWhatFailed) {
  std::byte data[100];
  Transfer read = {.way = Way::kRead, .at = 1000, .data = data}, write = read;
  write.way = Way::kWrite;
  std::string error;
  EXPECT_TRUE(settle(read, -EIO, error));
  EXPECT_EQ(error, "reading 100 bytes of the file tier failed: Input/output error");
  EXPECT_TRUE(settle(write, -ENOSPC, error));
  EXPECT_EQ(error, "writing 100 bytes of the file tier failed: No space left on device");
  EXPECT_TRUE(settle(read, 0, error));
  EXPECT_EQ(error, "reading the file tier: 100 bytes are missing at 1000");
}

std::atomic<int> calls_made = 0;
ssize_t short_read(int file, void* to, size_t bytes, off_t at) {
  if (calls_made++ % 3 == 0) {
    errno = EINTR;
    return -1;
  }
  return pread(file, to, std::min<size_t>(bytes, 1000), at);
}
ssize_t no_write(int, const void*, size_t, off_t) {
  errno = ENOSPC;
  return -1;
}
int no_room(int, int, off_t, off_t) {
  errno = ENOSPC;
  return -1;
}

int interrupted_room(int, int, off_t, off_t) {
  errno = EINTR;
  return calls_made++ % 2 == 0 ? -1 : 0;
}

TEST(FileTier, ReservesAlsoWhereASignalComes) {
  FileCalls calls = system_file_calls();
  calls.allocate = interrupted_room;
  auto tier = make_file_tier(options_of("file:dir=" + here()), kUnit, &calls).value();
  calls_made = 0;
  const auto reserved = tier->reserve(0, kUnit);
  EXPECT_TRUE(reserved.ok()) << reserved.error().message;
  tier->release(0, kUnit);
  EXPECT_EQ(calls_made, 4) << "each of them twice";
}

TEST(FileTier, ReadsAllThoughTheSystemReadsALittleAtATime) {
  FileCalls calls = system_file_calls();
  calls.read = short_read;
  const auto options = options_of("file:direct=off,dir=" + here());
  auto tier = make_file_tier(options, kUnit, &calls).value();
  const Memory out(4), in(4);
  for (size_t i = 0; i < 4 * kUnit; ++i) out.first[i] = static_cast<std::byte>(i * 7 % 253);
  tier->start(transfers(out, {Way::kWrite, 4}));
  finish_all(*tier, 4);
  tier->start(transfers(in, {Way::kRead, 4}));
  for (const auto& [tag, error] : finish_all(*tier, 4)) EXPECT_EQ(error, "");
  EXPECT_EQ(std::memcmp(in.first, out.first, 4 * kUnit), 0);
}

TEST(FileTier, ReportsAFullDiskWhenItReservesAndWhenItWrites) {
  FileCalls calls = system_file_calls();
  calls.write = no_write;
  calls.allocate = no_room;
  auto tier = make_file_tier(options_of("file:dir=" + here()), kUnit, &calls).value();
  const auto reserved = tier->reserve(0, kUnit);
  ASSERT_FALSE(reserved.ok());
  EXPECT_NE(reserved.error().message.find("no room for 4096 more bytes: No space left on device"),
            std::string::npos);
  const Memory memory(2);
  tier->start(transfers(memory, {Way::kWrite, 2}));
  for (const auto& [tag, error] : finish_all(*tier, 2))
    EXPECT_NE(error.find("No space left"), std::string::npos);
}

TEST(FileTier, ReportsBytesThatAreNotThere) {
  for (const char* io : {"uring", "pread"}) {
    const auto text = fmt::format("file:io={},dir={}", io, here());
    if (!refusal_of(text).empty()) continue;  // io_uring may be forbidden
    auto tier = make_tier(options_of(text), kUnit).value();
    const Memory memory(1);
    tier->start(transfers(memory, {Way::kRead, 1}));
    EXPECT_NE(finish_all(*tier, 1)[0].find("bytes are missing"), std::string::npos) << io;
  }
}

}  // namespace
}  // namespace kvick::kv
