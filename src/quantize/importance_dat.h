#pragma once
// The older form of llama-imatrix's files, usually named .dat, little-endian:
//
//   int32 entries; for each: int32 length, name, int32 calls, int32 values, float32 sums[values];
//   optionally int32 chunks, int32 length, name of the text.
//
// sums / calls are the mean squares. A tensor of experts has the sums of all its experts in a row.

#include <cstddef>
#include <span>
#include <string>

#include "quantize/importance.h"

#include "base/result.h"

namespace kvick::quantize {

// Parses a file. path: only for error messages. Errors: the bytes end too soon or contain an
// impossible number, such as a negative length or a sum that is not finite.
base::Result<Importance> parse_importance_dat(std::span<const std::byte> bytes,
                                              const std::string& path);

}  // namespace kvick::quantize
