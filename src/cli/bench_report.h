#pragma once
// What `kvick bench` prints.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/speed.h"

namespace kvick::cli {

struct BenchReport {
  const engine::Engine& engine;
  unsigned threads;
  const engine::KvOptions& kv;
  const engine::Sweep& sweep;
  uint32_t repeats;
  uint64_t peak_rss_bytes;                   // when the last measurement had ended
  std::vector<engine::Measurement> results;  // at least one
};

// {model, kv_type, threads, isa, ..., results: [{phase, tokens, depth, parallel, tok_s, ...}]}. The
// fields outside results are those of the first prefill and the first decode, kv that of the first
// decode, or of the first prefill where there is none; speeds of a phase that was not measured: 0.
nlohmann::ordered_json report_json(const BenchReport& report);

// A table for people, a row per measurement. Ends with a newline.
std::string report_text(const BenchReport& report);

}  // namespace kvick::cli
