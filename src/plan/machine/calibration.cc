#include "plan/machine/calibration.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <unistd.h>

#include "base/check.h"
#include "base/cpu.h"
#include "base/memory.h"

namespace kvick::plan {
namespace {

// Bytes that a worker reads at a time: enough for the prefetchers, and so few that a worker which
// loses its core for a moment does not hold up the others.
constexpr size_t kPiece = 256 << 10;
// Larger buffers are timed in windows of at least this many bytes, one after the other: a pass over
// 1 GiB takes 20 to 100 ms, during which busy cores always interrupt some thread.
constexpr size_t kLeastWindow = 16 << 20, kWindowPerThread = 1 << 20;
// Loop iterations of one timed arithmetic region: 0.15 ms to 1.5 ms, short enough that some regions
// run undisturbed even when other processes share the cores.
constexpr uint32_t kRounds = 1 << 16;

// Returns the highest rate of a body, which returns how much it did.
double fastest(const CalibrateOptions& options, base::FunctionRef<uint64_t()> body) {
  const double seconds = options.seconds / options.rounds;
  double best = 0;
  const double begin = options.clock();
  double end = begin;
  do {
    const double start = end;
    const uint64_t done = body();
    end = options.clock();
    if (end > start) best = std::max(best, static_cast<double>(done) / (end - start));
  } while (end - begin < seconds);
  return best;
}

// Returns the highest speed of reading the buffer, timed window by window from `first` on: the
// bytes before it may still be in a cache, from a smaller buffer.
double read_speed(base::ThreadPool& pool, const kernels::Probes& probes,
                  const CalibrateOptions& options, std::span<const std::byte> buffer,
                  size_t first) {
  const size_t window = std::max(kLeastWindow, pool.size() * kWindowPerThread);
  std::atomic<uint64_t> sum{0};  // keeps the compiler from removing the reads
  size_t at = first;
  return fastest(options, [&] {
    const std::byte* const data = buffer.data() + at;
    const size_t bytes = std::min(window, buffer.size() - at);
    pool.parallel_for(bytes / kPiece, 1, [&](size_t begin, size_t end, unsigned) {
      sum += probes.read(data + begin * kPiece, (end - begin) * kPiece);
    });
    at = at + bytes < buffer.size() ? at + bytes : 0;
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

// Writes to every page: pages that were never written may all be the same page of zeros.
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

// Touches the buffer size by size. Returns the sizes that there was time for.
std::vector<uint64_t> touched_sizes(base::ThreadPool& pool, const CalibrateOptions& options,
                                    const std::vector<uint64_t>& sizes, base::Buffer& buffer) {
  std::vector<uint64_t> touched;
  const double begin = options.clock();
  size_t done = 0;
  double touch_s_per_byte = 0;
  for (const size_t size : sizes) {
    const double start = options.clock();
    const double expected = static_cast<double>(size - done) * touch_s_per_byte;
    if (done > 0 && start - begin + expected > options.most_touch_seconds) break;
    touch(pool, buffer.data() + done, size - done);
    touch_s_per_byte = (options.clock() - start) / static_cast<double>(size - done);
    done = size;
    touched.push_back(size);
  }
  return touched;
}

// A limit: where its result goes, how to measure it for one round, and the rates of the rounds.
struct Limit {
  double* to;
  std::function<double()> measure;
  std::vector<double> rates;

  double best() const { return *std::max_element(rates.begin(), rates.end()); }
  // How far the median is below the best, as a share.
  double spread() const {
    std::vector<double> sorted = rates;
    std::sort(sorted.begin(), sorted.end());
    return best() > 0 ? 1 - sorted[sorted.size() / 2] / best() : 0;
  }
};

// Measures every limit once per round. Returns Moment::others.
std::optional<double> measure_rounds(const CalibrateOptions& options, std::vector<Limit>& limits) {
  std::optional<double> others;
  base::CpuTimes before = options.meter();
  for (unsigned round = 0; round < options.rounds; ++round) {
    for (Limit& limit : limits) limit.rates.push_back(limit.measure());
    const base::CpuTimes after = options.meter();
    const std::optional<double> share = base::others_share(before, after);
    if (share) others = std::min(others.value_or(1), *share);
    before = after;
  }
  return others;
}

}  // namespace

Machine this_machine(base::Isa isa, unsigned threads) {
  return {.cpu = base::cpu_name(),
          .cores = static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))),
          .isa = std::string(base::isa_name(isa)),
          .threads = threads};
}

double Calibration::read_bytes_s(uint64_t working_set_bytes) const {
  KVICK_CHECK(!read.empty(), "a calibration without a read speed");
  double speed = read.front().bytes_s;
  for (const ReadSpeed& measured : read)
    if (measured.bytes <= working_set_bytes) speed = measured.bytes_s;
  return speed;
}

Calibration calibrate(base::ThreadPool& pool, const kernels::Probes& probes,
                      const CalibrateOptions& options) {
  KVICK_CHECK(options.rounds > 0, "no round to measure in");
  const std::vector<uint64_t> wanted = sizes_of(options);
  base::Buffer buffer(wanted.back());
  const std::vector<uint64_t> sizes = touched_sizes(pool, options, wanted, buffer);
  Calibration result = {.machine = this_machine(probes.isa, pool.size()),
                        .moment = {.at = options.calendar()}};
  std::vector<Limit> limits;
  const std::pair<uint64_t (*)(uint32_t), double*> operations[] = {
      {probes.int8_dot, &result.int8_ops_s},
      {probes.f32_fma, &result.f32_ops_s},
      {probes.bf16_dot, &result.bf16_ops_s},
      {probes.bf16_tiles, &result.tile_ops_s}};
  for (const auto& [probe, to] : operations)
    if (probe != nullptr)
      limits.push_back(
          {to, [&, probe = probe] { return operation_speed(pool, options, probe); }, {}});
  for (const uint64_t size : sizes) result.read.push_back({.bytes = size});
  size_t smaller = 0;
  for (ReadSpeed& speed : result.read) {
    const std::span<const std::byte> part = {buffer.data(), speed.bytes};
    limits.push_back(
        {&speed.bytes_s,
         [&, part, smaller] { return read_speed(pool, probes, options, part, smaller); },
         {}});
    smaller = speed.bytes;
  }
  result.moment.others = measure_rounds(options, limits);
  for (const Limit& limit : limits) {
    *limit.to = limit.best();
    result.moment.spread = std::max(result.moment.spread, limit.spread());
  }
  return result;
}

bool raise_read(Calibration& calibration, uint64_t working_set_bytes, double bytes_s) {
  bool raised = false;
  for (ReadSpeed& speed : calibration.read) {
    const bool holds = speed.bytes <= working_set_bytes || &speed == &calibration.read.front();
    if (!holds || speed.bytes_s >= bytes_s) continue;
    speed.bytes_s = bytes_s;
    raised = true;
  }
  return raised;
}

Calibration highest_of(Calibration fresh, const Calibration& kept) {
  for (const ReadSpeed& speed : kept.read) raise_read(fresh, speed.bytes, speed.bytes_s);
  fresh.int8_ops_s = std::max(fresh.int8_ops_s, kept.int8_ops_s);
  fresh.f32_ops_s = std::max(fresh.f32_ops_s, kept.f32_ops_s);
  fresh.bf16_ops_s = std::max(fresh.bf16_ops_s, kept.bf16_ops_s);
  fresh.tile_ops_s = std::max(fresh.tile_ops_s, kept.tile_ops_s);
  return fresh;
}

bool taken_at_a_worse_moment(const Calibration& kept, std::optional<double> others_now) {
  const std::optional<double>& then = kept.moment.others;
  return then && others_now && *then > kBusyShare && *others_now < *then / 2;
}

}  // namespace kvick::plan
