#include "plan/calibration.h"

#include <atomic>
#include <gtest/gtest.h>

#include "base/check.h"

namespace kvick::plan {
namespace {

double g_now = 0;
// A clock that goes on by a second each time it is read.
double ticking() { return g_now += 1; }

constexpr uint64_t kPiece = 256 << 10;

// Probes that count instead of computing: what calibrate() does with them can be told exactly.
std::atomic<uint64_t> g_bytes, g_rounds;
uint64_t count_bytes(const std::byte*, size_t bytes) { return g_bytes += bytes, 0; }
uint64_t ten_a_round(uint32_t rounds) { return g_rounds += rounds, 10 * uint64_t{rounds}; }
uint64_t one_a_round(uint32_t rounds) { return g_rounds += rounds, rounds; }
constexpr kernels::Probes kCounting = {.isa = base::Isa::kScalar,
                                       .read = count_bytes,
                                       .int8_dot = ten_a_round,
                                       .f32_fma = one_a_round,
                                       .bf16_dot = nullptr,
                                       .bf16_tiles = nullptr};

CalibrateOptions quick(std::vector<uint64_t> sizes) {
  CalibrateOptions options;
  options.sizes = std::move(sizes);
  options.seconds = 3;
  options.most_seconds = 1000;
  options.clock = ticking;
  return options;
}

TEST(Calibrate, DividesWhatAllThreadsDidByTheClock) {
  base::ThreadPool pool(3);
  g_bytes = g_rounds = 0;
  const Calibration c = calibrate(pool, kCounting, quick({4 * kPiece, 2 * kPiece}));
  EXPECT_EQ(c.read, (std::vector<ReadSpeed>{{2 * kPiece, 2 * kPiece}, {4 * kPiece, 4 * kPiece}}));
  EXPECT_EQ(g_bytes, 3 * 6 * kPiece) << "three passes over each size";
  EXPECT_EQ(c.int8_ops_s, 10 * c.f32_ops_s);
  EXPECT_EQ(g_rounds, 2 * 3 * static_cast<uint64_t>(c.f32_ops_s));
  EXPECT_EQ(c.machine, (Machine{base::cpu_name(), "scalar", 3}));
}

TEST(Calibrate, MeasuresProductsOfBf16WhereThereAreSome) {
  base::ThreadPool pool(2);
  EXPECT_EQ(calibrate(pool, kCounting, quick({kPiece})).bf16_ops_s, 0);
  kernels::Probes pairs = kCounting;
  pairs.bf16_dot = ten_a_round;
  const Calibration c = calibrate(pool, pairs, quick({kPiece}));
  EXPECT_GT(c.bf16_ops_s, 0);
  EXPECT_EQ(c.bf16_ops_s, c.int8_ops_s);
}

TEST(Calibrate, MeasuresTilesWhereThereAreSome) {
  base::ThreadPool pool(2);
  EXPECT_EQ(calibrate(pool, kCounting, quick({kPiece})).tile_ops_s, 0);
  kernels::Probes tiles = kCounting;
  tiles.bf16_tiles = ten_a_round;
  const Calibration c = calibrate(pool, tiles, quick({kPiece}));
  EXPECT_GT(c.tile_ops_s, 0);
  EXPECT_EQ(c.tile_ops_s, c.int8_ops_s);
}

TEST(Calibrate, LeavesOutSizesAboveTheMost) {
  base::ThreadPool pool(1);
  CalibrateOptions options = quick({kPiece, 2 * kPiece, uint64_t{1} << 60});
  options.most_bytes = 2 * kPiece;
  EXPECT_EQ(calibrate(pool, kCounting, options).read.size(), 2u);
  options.most_bytes = 0;
  EXPECT_EQ(calibrate(pool, kCounting, options).read.size(), 1u);
}

TEST(Calibrate, LeavesOutSizesThatWouldTakeTooLong) {
  base::ThreadPool pool(1);
  CalibrateOptions options = quick({kPiece, 2 * kPiece, 64 * kPiece});
  // The first two sizes are touched in a second each, so the last would take a minute.
  options.most_seconds = 40;
  EXPECT_EQ(calibrate(pool, kCounting, options).read.size(), 2u);
  options.most_seconds = 0;
  EXPECT_EQ(calibrate(pool, kCounting, options).read.size(), 1u);
}

// On the real machine nothing is known but that every number is one.
TEST(Calibrate, FindsPositiveSpeedsForEveryInstructionSet) {
  base::ThreadPool pool(2);
  for (const base::Isa isa : {base::Isa::kScalar, base::best_isa()}) {
    CalibrateOptions options;
    options.sizes = {4 * kPiece};
    options.seconds = 0;
    const Calibration c = calibrate(pool, kernels::probes(isa), options);
    EXPECT_GT(c.read.at(0).bytes_s, 0);
    EXPECT_GT(c.int8_ops_s, 0);
    EXPECT_GT(c.f32_ops_s, 0);
    EXPECT_EQ(c.bf16_ops_s > 0, kernels::probes(isa).bf16_dot != nullptr);
    EXPECT_EQ(c.tile_ops_s > 0, isa == base::Isa::kAmx);
  }
}

TEST(Calibration, TakesTheReadSpeedOfTheSizeBelowTheWorkingSet) {
  Calibration c;
  EXPECT_THROW(c.read_bytes_s(1), base::Bug);
  c.read = {{100, 9}, {200, 5}, {400, 2}};
  for (const auto& [working_set, speed] :
       std::vector<std::pair<uint64_t, double>>{{1, 9}, {100, 9}, {199, 9}, {200, 5}, {5000, 2}})
    EXPECT_EQ(c.read_bytes_s(working_set), speed) << working_set;
}

}  // namespace
}  // namespace kvick::plan
