#pragma once
// The report of `kvick bench`.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/eval/speed.h"
#include "plan/machine/calibration.h"
#include "plan/machine/roofline.h"

namespace kvick::cli {

// A measurement and the machine's upper bound for it.
struct BenchResult {
  engine::Measurement measured;
  plan::Work work;  // of one round
  plan::Bound bound;

  double tok_s() const { return engine::median(measured.tok_s); }
  // Returns the seconds of the round with the median speed.
  double seconds() const { return static_cast<double>(measured.what.all_tokens()) / tok_s(); }
  // Returns the seconds of the fastest round.
  double least_seconds() const;
  // Returns the fraction of the machine's limit that was reached; 1: no faster is possible.
  double roofline() const { return bound.seconds() / seconds(); }
};

struct BenchReport {
  const engine::Engine& engine;
  unsigned threads;
  const engine::KvOptions& kv;  // resolved
  const engine::Sweep& sweep;
  uint32_t repeats;
  uint64_t peak_rss_bytes;  // peak after the last measurement; at a depth it includes the forks
  std::optional<double> others;  // share of CPU time that other programs used meanwhile
  const plan::Calibration& machine;
  std::vector<BenchResult> results;  // at least one
};

// Returns {model, kv_type, threads, isa, ..., others_share, calibration: {...}, results: [{phase,
// tokens, depth, parallel, tok_s, spread, kv, roofline: {bytes, ops, bytes_s, ops_s, memory_s,
// compute_s, measured_s, bound_by, fraction}}]}. The fields outside results come from the first
// prefill and the first decode; kv comes from the first decode, or from the first prefill if there
// is no decode. The speed of a phase that was not measured is 0.
nlohmann::ordered_json report_json(const BenchReport& report);

// Returns the measurement with what it had to read and compute, and how fast the machine could have
// done that. kv must be resolved.
BenchResult against_roofline(const engine::Engine& engine, const engine::KvOptions& kv,
                             const plan::Calibration& machine, engine::Measurement measured);

// Raises each machine limit that a measurement has beaten and computes all bounds again, so that no
// fraction of the roofline exceeds 1. Returns whether a limit was raised.
bool raise_to(std::vector<BenchResult>& results, plan::Calibration& machine);

// Returns a table for people, one row per measurement. Ends with a newline.
std::string report_text(const BenchReport& report);

}  // namespace kvick::cli
