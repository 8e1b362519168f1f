#pragma once

#include <string_view>

namespace kvick::cli {

// Returns the text that `kvick bench --spec` reads when no file is given: prose that repeats its
// own words, as letters, records and code do.
std::string_view bench_text();

}  // namespace kvick::cli
