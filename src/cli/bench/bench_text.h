#pragma once

#include <string_view>

namespace kvick::cli {

// What `kvick bench --spec` reads where no file is named: prose that comes back to its own words as
// letters, records and code do.
std::string_view bench_text();

}  // namespace kvick::cli
