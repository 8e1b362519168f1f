#pragma once
// Measures what a machine can do at most: bytes per second from memory, and operations per second
// of the kernels' instructions, the two roofs of the roofline model (Williams, Waterman and
// Patterson 2009).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/cpu_times.h"
#include "base/thread_pool.h"
#include "kernels/probe/probe.h"

namespace kvick::plan {

// The machine and settings that a calibration is valid for.
struct Machine {
  std::string cpu;     // base::cpu_name()
  unsigned cores = 0;  // processors of the whole machine
  std::string isa;     // base::isa_name()
  unsigned threads = 0;
  bool operator==(const Machine&) const = default;
};
Machine this_machine(base::Isa isa, unsigned threads);

// When a calibration was measured, and how far it can be trusted.
struct Moment {
  int64_t at = 0;                // seconds since 1970
  std::optional<double> others;  // share of the processors used by others, in the quietest round
  double spread = 0;             // how far the median round was below the best, for the worst limit
  int64_t raised_at = 0;         // when a faster run last raised a limit; 0: never
  bool operator==(const Moment&) const = default;
};
// Other programs spoil a measurement if they use more than this share of the processors.
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
  double int8_ops_s = 0;        // 8-bit multiply-adds, counted as two operations each
  double f32_ops_s = 0;         // fused multiply-adds of float32, two each
  double bf16_ops_s = 0;  // products of bfloat16 in pairs, likewise; 0: the processor has none
  double tile_ops_s = 0;  // products of bfloat16 on tiles, likewise; 0: the processor has none

  // Returns the bytes per second at which a working set can be read over and over: the speed of the
  // largest measured buffer that is not larger, or else of the smallest one.
  double read_bytes_s(uint64_t working_set_bytes) const;
  bool operator==(const Calibration&) const = default;
};

struct CalibrateOptions {
  // Sizes of buffers in bytes. No single one suffices: cached data is read faster, last-level
  // caches have from 2 MiB to 1 GiB, and a virtual machine has an unknown part of one.
  // read_bytes_s() takes the measured size below the working set: its speed is an upper bound, and
  // no higher than caches of this machine allow.
  std::vector<uint64_t> sizes = {uint64_t{4} << 20,   uint64_t{16} << 20,  uint64_t{64} << 20,
                                 uint64_t{128} << 20, uint64_t{256} << 20, uint64_t{512} << 20,
                                 uint64_t{1} << 30};
  uint64_t most_bytes = UINT64_MAX;  // larger sizes are left out, except the smallest
  // Every size and every kind of operation is measured for `seconds` in total, split evenly over
  // `rounds` rounds, and the fastest time counts: if the cores are busy with something else for a
  // moment, that spoils some rounds, not the result.
  double seconds = 0.2;
  unsigned rounds = 8;
  // Larger sizes are left out if touching all of their memory would take longer than this. The
  // first touch of 1 GiB usually takes 0.3 s, and several seconds if the system must first find the
  // memory.
  double most_touch_seconds = 1;
  base::Clock clock = base::steady_seconds;
  base::Calendar calendar = base::unix_seconds;
  base::CpuMeter meter = base::cpu_times;
};

// Measures all limits with all threads of the pool. The buffer has huge pages if the system grants
// them, as weights do.
Calibration calibrate(base::ThreadPool& pool, const kernels::Probes& probes,
                      const CalibrateOptions& options);

// Raises the read speed of a working set to at least this one, and that of smaller ones, which are
// read no slower. Returns whether something was raised.
bool raise_read(Calibration& calibration, uint64_t working_set_bytes, double bytes_s);
// Merges two calibrations of one machine: the higher one of each limit, all else from `fresh`.
Calibration highest_of(Calibration fresh, const Calibration& kept);

// Returns whether to measure again: other programs used more than kBusyShare of the processors
// then, and now use less than half as much.
bool taken_at_a_worse_moment(const Calibration& kept, std::optional<double> others_now);

// Returns one line for users: when it was measured, and how far it can be trusted.
std::string moment_text(const Moment& moment);

}  // namespace kvick::plan
