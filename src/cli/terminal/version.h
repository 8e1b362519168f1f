#pragma once

#include <string_view>

namespace kvick::cli {

// "0.1.0 (commit 1a2b3c4d5e)", or the number alone where the commit is not known.
// cmake/version.cmake writes the function.
std::string_view program_version();

}  // namespace kvick::cli
