#pragma once
// Parses a list of numbers of one option: -p 128,512,2048.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::cli {

struct NumberRange {
  uint32_t low = 0, high = UINT32_MAX;
  bool zero_means_none = false;  // 0 then cannot be combined with other numbers
};

// The largest number of entries in a list.
inline constexpr size_t kMostNumbers = 64;

// Returns the numbers of "A[,B...]" in order. Errors, which name the option: not decimal numbers
// separated by single commas, out of range, a number given twice, too many.
base::Result<std::vector<uint32_t>> parse_numbers(std::string_view option, std::string_view text,
                                                  const NumberRange& range);

}  // namespace kvick::cli
