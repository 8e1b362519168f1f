#pragma once
// The calibration pass of static quantisation: how large a model's keys and values become on a
// text, kept in a file beside which model it was.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "engine/engine.h"
#include "kv/ranges.h"

namespace kvick::engine {

struct RangesOptions {
  uint32_t window = 512;  // tokens that are read as one sequence; less where the context is
  uint32_t most = 0;      // tokens of the text that count; 0: all
  // Ranges are so much larger than what was seen: 0.1 for a tenth.
  double margin = 0.1;
  std::function<void(uint64_t done, uint64_t total)> progress;  // tokens
};

struct Ranges {
  ModelIdentity model;
  uint64_t tokens = 0;  // that were read
  double margin = 0;
  kv::StaticRanges heads;
};

// Runs the text through the model with a cache of float32 and takes the largest magnitudes of its
// rows. Errors: no token, a margin that is none, a key or value that is not finite.
base::Result<Ranges> measure_ranges(Engine& engine, std::span<const Token> text,
                                    const RangesOptions& options);

// A JSON object: {kvick_ranges: 1, model: {arch, layers, kv_heads, head_dim, weights}, tokens,
// margin, k, v, checksum}, with k and v as [layers][kv_heads] in one list.
std::string ranges_text(const Ranges& ranges);
// The inverse. Errors: what is wrong with the text, without its name.
base::Result<Ranges> parse_ranges(std::string_view text);

// The file appears whole or not at all. Error: what the system says.
base::Status<> write_ranges(const std::string& path, const Ranges& ranges);
// For this model. Errors, all naming the file: it cannot be read, is damaged, or is another
// model's.
base::Result<std::shared_ptr<const kv::StaticRanges>> read_ranges(const std::string& path,
                                                                  const ModelIdentity& model);

}  // namespace kvick::engine
