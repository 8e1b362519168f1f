#pragma once
// Ranges of static quantisation in a file, with the identity of their model.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/artifacts/identity.h"
#include "kv/strategy/ranges.h"

namespace kvick::engine {

struct Ranges {
  ModelIdentity model;
  uint64_t tokens = 0;  // tokens that were read to measure the ranges
  double margin = 0;
  kv::StaticRanges heads;
};

// A JSON object: {kvick_ranges: 1, model: {arch, layers, kv_heads, head_dim, weights}, tokens,
// margin, k, v, checksum}, with k and v as [layers][kv_heads] in one list.
std::string ranges_text(const Ranges& ranges);
// The inverse of ranges_text. Errors say what is wrong, without the file's name.
base::Result<Ranges> parse_ranges(std::string_view text);

// Writes the whole file or none. Error: what the system reports.
base::Status<> write_ranges(const std::string& path, const Ranges& ranges);
// Reads the ranges for this model. Errors, which name the file: it cannot be read, is damaged, or
// is another model's.
base::Result<std::shared_ptr<const kv::StaticRanges>> read_ranges(const std::string& path,
                                                                  const ModelIdentity& model);

}  // namespace kvick::engine
