#pragma once
// The ranges of static quantisation in a file, beside which model they belong to.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/artifacts/identity.h"
#include "kv/contract/ranges.h"

namespace kvick::engine {

struct Ranges {
  ModelIdentity model;
  uint64_t tokens = 0;  // that were read
  double margin = 0;
  kv::StaticRanges heads;
};

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
