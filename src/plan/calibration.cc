#include "plan/calibration.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/check.h"
#include "base/cpu.h"
#include "base/memory.h"

namespace kvick::plan {
namespace {

// What one worker reads at a time: long enough for the prefetchers, short enough that a worker
// whose core is taken away for a moment does not hold up the others.
constexpr size_t kPiece = 256 << 10;
// Rounds of one timed region: a millisecond or a few, so that some regions are undisturbed.
constexpr uint32_t kRounds = 1 << 18;

// The highest rate of a body that returns how much it did.
double fastest(const CalibrateOptions& options, base::FunctionRef<uint64_t()> body) {
  double best = 0;
  const double begin = options.clock();
  double end = begin;
  do {
    const double start = end;
    const uint64_t done = body();
    end = options.clock();
    if (end > start) best = std::max(best, static_cast<double>(done) / (end - start));
  } while (end - begin < options.seconds);
  return best;
}

double read_speed(base::ThreadPool& pool, const kernels::Probes& probes,
                  const CalibrateOptions& options, const std::byte* data, size_t bytes) {
  std::atomic<uint64_t> sum{0};  // keeps the reads from being left out
  return fastest(options, [&] {
    pool.parallel_for(bytes / kPiece, 1, [&](size_t begin, size_t end, unsigned) {
      sum += probes.read(data + begin * kPiece, (end - begin) * kPiece);
    });
    return uint64_t{bytes};
  });
}

double operation_speed(base::ThreadPool& pool, const CalibrateOptions& options,
                       uint64_t (*probe)(uint32_t rounds)) {
  return fastest(options, [&] {
    std::atomic<uint64_t> operations{0};
    pool.run([&](unsigned) { operations += probe(kRounds); });
    return operations.load();
  });
}

// Pages that were never written may all be one page of zeros.
void touch(base::ThreadPool& pool, std::byte* data, size_t bytes) {
  pool.parallel_for(bytes / kPiece, 1, [&](size_t begin, size_t end, unsigned) {
    std::memset(data + begin * kPiece, 1, (end - begin) * kPiece);
  });
}

std::vector<uint64_t> sizes_of(const CalibrateOptions& options) {
  std::vector<uint64_t> sizes = options.sizes;
  KVICK_CHECK(!sizes.empty(), "no size to read");
  std::sort(sizes.begin(), sizes.end());
  for (const uint64_t size : sizes) KVICK_CHECK(size > 0 && size % kPiece == 0, "{} bytes", size);
  while (sizes.size() > 1 && sizes.back() > options.most_bytes) sizes.pop_back();
  return sizes;
}

}  // namespace

double Calibration::read_bytes_s(uint64_t working_set_bytes) const {
  KVICK_CHECK(!read.empty(), "a calibration without a read speed");
  double speed = read.front().bytes_s;
  for (const ReadSpeed& measured : read)
    if (measured.bytes <= working_set_bytes) speed = measured.bytes_s;
  return speed;
}

Calibration calibrate(base::ThreadPool& pool, const kernels::Probes& probes,
                      const CalibrateOptions& options) {
  Calibration result = {.machine = {.cpu = base::cpu_name(),
                                    .isa = std::string(base::isa_name(probes.isa)),
                                    .threads = pool.size()}};
  result.int8_ops_s = operation_speed(pool, options, probes.int8_dot);
  result.f32_ops_s = operation_speed(pool, options, probes.f32_fma);
  if (probes.bf16_dot != nullptr)
    result.bf16_ops_s = operation_speed(pool, options, probes.bf16_dot);
  if (probes.bf16_tiles != nullptr)
    result.tile_ops_s = operation_speed(pool, options, probes.bf16_tiles);
  const std::vector<uint64_t> sizes = sizes_of(options);
  base::Buffer buffer(sizes.back());
  const double begin = options.clock();
  size_t touched = 0;
  double touch_s_per_byte = 0;
  for (const size_t size : sizes) {
    const double start = options.clock();
    const double expected = static_cast<double>(size - touched) * touch_s_per_byte;
    if (touched > 0 && start - begin + expected + options.seconds > options.most_seconds) break;
    touch(pool, buffer.data() + touched, size - touched);
    touch_s_per_byte = (options.clock() - start) / static_cast<double>(size - touched);
    touched = size;
    result.read.push_back({size, read_speed(pool, probes, options, buffer.data(), size)});
  }
  return result;
}

}  // namespace kvick::plan
