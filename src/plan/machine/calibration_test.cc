#include "plan/machine/calibration.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <gtest/gtest.h>

#include "base/check.h"
#include "base/cpu.h"

namespace kvick::plan {
namespace {

double g_now = 0;
// A clock that advances by one second per reading.
double ticking() { return g_now += 1; }

constexpr uint64_t kPiece = 256 << 10;

// Probes that count instead of computing, so that the results of calibrate() are known exactly.
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
  options.rounds = 1;
  options.most_touch_seconds = 1000;
  options.clock = ticking;
  return options;
}

TEST(Calibrate, DividesWhatAllThreadsDidByTheClock) {
  base::ThreadPool pool(3);
  g_bytes = g_rounds = 0;
  const Calibration c = calibrate(pool, kCounting, quick({4 * kPiece, 2 * kPiece}));
  EXPECT_EQ(c.read, (std::vector<ReadSpeed>{{2 * kPiece, 2 * kPiece}, {4 * kPiece, 4 * kPiece}}));
  EXPECT_EQ(g_bytes, (3 * 2 + 2 + 4 + 4) * kPiece)
      << "three times each size, of the larger first what is behind the smaller";
  EXPECT_EQ(c.int8_ops_s, 10 * c.f32_ops_s);
  EXPECT_EQ(g_rounds, 2 * 3 * static_cast<uint64_t>(c.f32_ops_s));
  EXPECT_EQ(c.machine, this_machine(base::Isa::kScalar, 3));
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
  options.most_touch_seconds = 40;
  EXPECT_EQ(calibrate(pool, kCounting, options).read.size(), 2u);
  options.most_touch_seconds = 0;
  EXPECT_EQ(calibrate(pool, kCounting, options).read.size(), 1u);
}

// A simulated machine with one core, which other programs use in part, and its clock.
struct Simulated {
  double now = 0, own = 0, busy = 0;
  double (*others)(double now) = [](double) { return 0.0; };

  void work(double amount, double per_second) {
    constexpr double kStep = 1e-5;
    while (amount > 0) {
      const double free = 1 - others(now);
      const double step = std::min(kStep, amount / per_second / free);
      amount -= step * free * per_second;
      now += step, own += step * free, busy += step;
    }
  }
};
Simulated g_machine;
constexpr double kBytesSecond = 2e11, kOpsSecond = 1e9;
uint64_t read_slowly(const std::byte*, size_t bytes) {
  g_machine.work(static_cast<double>(bytes), kBytesSecond);
  return 0;
}
uint64_t operate(uint32_t rounds) {
  g_machine.work(rounds, kOpsSecond);
  return rounds;
}
constexpr kernels::Probes kSimulated = {.isa = base::Isa::kScalar,
                                        .read = read_slowly,
                                        .int8_dot = operate,
                                        .f32_fma = operate,
                                        .bf16_tiles = nullptr};

Calibration calibrate_beside(double (*others)(double now)) {
  g_machine = {};
  g_machine.others = others;
  CalibrateOptions options;
  options.sizes = {4 * kPiece, 256 * kPiece};  // 64 MiB, a pass over which takes 0.3 ms
  options.seconds = 0.04;
  options.rounds = 8;  // 20 ms each, for all limits together
  options.clock = [] { return g_machine.now; };
  options.calendar = [] { return int64_t{1795000000}; };
  options.meter = [] {
    return base::CpuTimes{.now = g_machine.now,
                          .own = g_machine.own,
                          .busy = g_machine.busy,
                          .busy_everywhere = g_machine.busy,
                          .cpus = 1,
                          .cpus_everywhere = 1};
  };
  base::ThreadPool pool(1);
  return calibrate(pool, kSimulated, options);
}

void expect_full_speed(const Calibration& c) {
  EXPECT_NEAR(c.int8_ops_s, kOpsSecond, 0.001 * kOpsSecond);
  EXPECT_NEAR(c.f32_ops_s, kOpsSecond, 0.001 * kOpsSecond);
  for (const ReadSpeed& read : c.read)
    EXPECT_NEAR(read.bytes_s, kBytesSecond, 0.001 * kBytesSecond) << read.bytes;
}

TEST(Calibrate, SaysThatAnIdleMachineWasOne) {
  const Calibration c = calibrate_beside([](double) { return 0.0; });
  expect_full_speed(c);
  EXPECT_EQ(c.moment.at, 1795000000);
  EXPECT_NEAR(c.moment.others.value(), 0, 1e-6);
  EXPECT_NEAR(c.moment.spread, 0, 1e-6);
  EXPECT_EQ(c.moment.raised_at, 0);
}

TEST(Calibrate, IsNotSpoiltByOthersWhoSoonEnd) {
  const Calibration c = calibrate_beside([](double now) { return now < 0.11 ? 0.6 : 0.0; });
  expect_full_speed(c);
  EXPECT_NEAR(c.moment.others.value(), 0, 1e-6) << "the quietest round counts";
  EXPECT_NEAR(c.moment.spread, 0.6, 0.001) << "in most rounds it was slower";
}

TEST(Calibrate, FindsTheGapsOfOthersWhoTakeTurns) {
  // As a system shares a core between two programs: 3 ms each in turn.
  const Calibration c =
      calibrate_beside([](double now) { return std::fmod(now, 0.006) < 0.003 ? 0.999 : 0.0; });
  expect_full_speed(c);
  EXPECT_NEAR(c.moment.others.value(), 0.5, 0.15);
}

TEST(Calibrate, SaysThatOthersNeverStopped) {
  const Calibration c = calibrate_beside([](double) { return 0.5; });
  EXPECT_NEAR(c.int8_ops_s, kOpsSecond / 2, 0.001 * kOpsSecond);
  EXPECT_NEAR(c.moment.others.value(), 0.5, 0.01);
}

// On the real machine only the sign of the results is known.
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
