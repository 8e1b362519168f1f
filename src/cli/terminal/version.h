#pragma once

#include <string_view>

namespace kvick::cli {

// Returns "0.1.0 (commit 1a2b3c4d5e)", or the number alone if the commit is not known.
// cmake/version.cmake generates the function.
std::string_view program_version();

}  // namespace kvick::cli
