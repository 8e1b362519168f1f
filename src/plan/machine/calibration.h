#pragma once
// What a machine can do at most: bytes a second from memory, operations a second of the kernels'
// instructions. The two roofs of the roofline model (Williams, Waterman and Patterson 2009).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/cpu_times.h"
#include "base/thread_pool.h"
#include "kernels/probe/probe.h"

namespace kvick::plan {

// What a calibration holds for.
struct Machine {
  std::string cpu;     // base::cpu_name()
  unsigned cores = 0;  // processors of the whole machine
  std::string isa;     // base::isa_name()
  unsigned threads = 0;
  bool operator==(const Machine&) const = default;
};
Machine this_machine(base::Isa isa, unsigned threads);

// The moment of a calibration, and what can be said against it.
struct Moment {
  int64_t at = 0;                // seconds since 1970
  std::optional<double> others;  // share of the processors that others used, in the quietest round
  double spread = 0;      // how far the median round stayed below the best, where that was most
  int64_t raised_at = 0;  // when a run last beat a limit, which was raised to it; 0: never
  bool operator==(const Moment&) const = default;
};
// Others that use more than this share of the processors spoil a measurement.
inline constexpr double kBusyShare = 0.1;

// Speed at which all threads together read a buffer of `bytes` bytes over and over.
struct ReadSpeed {
  uint64_t bytes = 0;
  double bytes_s = 0;
  bool operator==(const ReadSpeed&) const = default;
};

struct Calibration {
  Machine machine;
  Moment moment;
  std::vector<ReadSpeed> read;  // at least one, ascending in bytes
  double int8_ops_s = 0;        // products of 8 bits and their sums, a multiply-add being two
  double f32_ops_s = 0;         // fused multiply-adds of float32, being two each
  double bf16_ops_s = 0;        // products of bfloat16 in pairs, likewise; 0: there are none
  double tile_ops_s = 0;        // products of bfloat16 on tiles, likewise; 0: there are none

  // Bytes per second at which a working set can be read over and over: that of the largest measured
  // buffer not larger than it, else of the smallest one.
  double read_bytes_s(uint64_t working_set_bytes) const;
  bool operator==(const Calibration&) const = default;
};

struct CalibrateOptions {
  // No single size will do. What caches hold is read faster than what they do not, last-level
  // caches have from 2 MiB to 1 GiB, and a virtual machine has a part of one that nobody knows. So
  // a few sizes are measured, and read_bytes_s() takes the one below the working set in question:
  // it is fast enough to be a bound, and no faster than the caches make it.
  std::vector<uint64_t> sizes = {uint64_t{4} << 20,   uint64_t{16} << 20,  uint64_t{64} << 20,
                                 uint64_t{128} << 20, uint64_t{256} << 20, uint64_t{512} << 20,
                                 uint64_t{1} << 30};
  uint64_t most_bytes = UINT64_MAX;  // sizes above it are left out, but for the smallest
  // Every size and every kind of operation is measured for `seconds` in total, split evenly over
  // `rounds` rounds, and the fastest time counts: a moment in which the cores were busy with
  // something else spoils some rounds, not the result.
  double seconds = 0.2;
  unsigned rounds = 8;
  // The larger sizes are left out when to touch all of them would take longer than this: the first
  // touch of a GiB takes 0.3 s as a rule, and seconds where the system must first find the memory.
  double most_touch_seconds = 1;
  base::Clock clock = base::steady_seconds;
  base::Calendar calendar = base::unix_seconds;
  base::CpuMeter meter = base::cpu_times;
};

// Measures, with all threads of the pool. The buffer has huge pages where the system grants them,
// as the weights have.
Calibration calibrate(base::ThreadPool& pool, const kernels::Probes& probes,
                      const CalibrateOptions& options);

// Raises the read speed of a working set to at least this one, and of smaller ones, which are read
// no slower. True: something was raised.
bool raise_read(Calibration& calibration, uint64_t working_set_bytes, double bytes_s);
// Two calibrations of one machine: the higher of each limit, all else as `fresh` has it.
Calibration highest_of(Calibration fresh, const Calibration& kept);

// Whether to measure again: others used the processors then, and now they do not, or less than half
// as much.
bool taken_at_a_worse_moment(const Calibration& kept, std::optional<double> others_now);

// One line for people: when it was measured, and how sure it is.
std::string moment_text(const Moment& moment);

}  // namespace kvick::plan
