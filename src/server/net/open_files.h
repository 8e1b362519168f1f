#pragma once
// The limit on the files that this process may have open at once. Each connection is one of them.

#include <cstdint>

namespace kvick::server {

// Raises the limit to `files`, as far as the system lets a process without privileges do so. Never
// lowers it. Returns the limit, which is that of the whole process; 0 if it is not known.
uint64_t allow_open_files(uint64_t files);

}  // namespace kvick::server
