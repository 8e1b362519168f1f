#pragma once
// The folders of small models in tests/reference that Python packages wrote, one folder of such
// folders for each kind, and what the packages computed from them.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "reference.h"

namespace kvick::parity {

// Returns tests/reference/KIND.
std::filesystem::path recorded_kind(const std::string& kind);

// Returns the names of the folders of a kind, sorted.
std::vector<std::string> recorded_names(const std::string& kind);

// Returns the first tokens of the text from which all of them were recorded: i * 7 % 64, with i
// from 0.
std::vector<Token> recorded_tokens(uint32_t count);

// Returns the first `count` floats of a recorded file. The test fails if it has fewer.
std::vector<float> recorded_floats(const std::filesystem::path& file, size_t count);

// Returns the largest difference, relative to the largest recorded number; infinity, which is above
// every bound, if the sizes differ or a number is not finite.
double relative_error(const std::vector<float>& ours, const std::vector<float>& recorded);

}  // namespace kvick::parity
