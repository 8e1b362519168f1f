#pragma once
// Strategies that were built outside, in kvick's own tests.

#include <cstdlib>
#include <stdexcept>

#include "kv/registry/plugin.h"

namespace kvick::kv::test {

// Strategies of a plugin are tested like the others: the environment variable KVICK_TEST_PLUGIN
// names it.
inline void add_plugin_of_environment() {
  static const bool once = [] {
    if (const char* file = std::getenv("KVICK_TEST_PLUGIN"))
      if (const auto loaded = load_plugin(file); !loaded.ok())
        throw std::runtime_error(loaded.error().message);
    return true;
  }();
  (void)once;
}

}  // namespace kvick::kv::test
