#pragma once
// Loads strategies and policies that were built outside of kvick (kv/strategy/plugin.h).

#include <string>

#include "base/result.h"

namespace kvick::kv {

// Adds a shared library's strategies and policies to the tables. The library stays loaded until the
// program ends. Errors: the file is missing or not a shared library; it has no kvick_strategies();
// it was compiled with headers other than this program's; a strategy or a policy cannot be added.
// Call it before the program has several threads or stores, as for add_strategies.
base::Status<> load_plugin(const std::string& file);

}  // namespace kvick::kv
