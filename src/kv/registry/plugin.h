#pragma once
// Loads strategies and policies that were built outside of kvick (kv/strategy/plugin.h).

#include <string>

#include "base/result.h"

namespace kvick::kv {

// Adds a shared library's strategies and policies to the tables; it stays loaded as long as the
// program runs. Errors: no such file or no such library; none with kvick_strategies(); one that was
// compiled with other headers than this program; a strategy or a policy that cannot be added.
// Before a program has several threads or stores, as for add_strategies.
base::Status<> load_plugin(const std::string& file);

}  // namespace kvick::kv
