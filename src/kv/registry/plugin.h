#pragma once
// Loads strategies that were built outside of kvick (kv/strategy/plugin.h).

#include <string>

#include "base/result.h"

namespace kvick::kv {

// Adds a shared library's strategies to the registry's table; it stays loaded as long as the
// program runs. Errors: no such file or no such library; none with kvick_strategies(); one that was
// compiled with other headers than this program; a strategy that add_strategies refuses. Rules of
// add_strategies.
base::Status<> load_plugin(const std::string& file);

}  // namespace kvick::kv
