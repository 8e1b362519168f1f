#pragma once
// Numbers that a user lists behind one option: -p 128,512,2048.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::cli {

struct NumberRange {
  uint32_t low = 0, high = UINT32_MAX;
  bool zero_means_none = false;  // then 0 cannot stand beside other numbers
};

// Most numbers of one list.
inline constexpr size_t kMostNumbers = 64;

// The numbers of "A[,B...]" in their order. Errors, in which the option is named: not decimal
// numbers with single commas between them, out of range, one number twice, too many.
base::Result<std::vector<uint32_t>> parse_numbers(std::string_view option, std::string_view text,
                                                  const NumberRange& range);

}  // namespace kvick::cli
