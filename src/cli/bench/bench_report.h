#pragma once
// What `kvick bench` prints.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/eval/speed.h"
#include "plan/machine/calibration.h"
#include "plan/machine/roofline.h"

namespace kvick::cli {

// A measurement beside what the machine could do at most.
struct BenchResult {
  engine::Measurement measured;
  plan::Work work;  // of one round
  plan::Bound bound;

  double tok_s() const { return engine::median(measured.tok_s); }
  // Seconds of the round with the median speed.
  double seconds() const { return static_cast<double>(measured.what.all_tokens()) / tok_s(); }
  // Seconds of the fastest round.
  double least_seconds() const;
  double roofline() const { return bound.seconds() / seconds(); }  // 1: no faster is possible
};

struct BenchReport {
  const engine::Engine& engine;
  unsigned threads;
  const engine::KvOptions& kv;  // resolved
  const engine::Sweep& sweep;
  uint32_t repeats;
  uint64_t peak_rss_bytes;       // when the last measurement had ended; at a depth, with the forks
  std::optional<double> others;  // share of the processors that others used during the measurements
  const plan::Calibration& machine;
  std::vector<BenchResult> results;  // at least one
};

// {model, kv_type, threads, isa, ..., others_share, calibration: {...}, results: [{phase, tokens,
// depth, parallel, tok_s, spread, kv, roofline: {bytes, ops, bytes_s, ops_s, memory_s, compute_s,
// measured_s, bound_by, fraction}}]}. The fields outside results are those of the first prefill and
// the first decode, kv that of the first decode, or of the first prefill where there is none;
// speeds of a phase that was not measured: 0.
nlohmann::ordered_json report_json(const BenchReport& report);

// What a measurement had to read and compute, and how fast the machine could have done it. kv:
// resolved.
BenchResult against_roofline(const engine::Engine& engine, const engine::KvOptions& kv,
                             const plan::Calibration& machine, engine::Measurement measured);

// Raises the limits that a measurement has beaten, and finds the bounds of all again: no share of
// the roofline is above 1 then. True: some were raised.
bool raise_to(std::vector<BenchResult>& results, plan::Calibration& machine);

// A table for people, a row per measurement. Ends with a newline.
std::string report_text(const BenchReport& report);

}  // namespace kvick::cli
