#pragma once
// Lets kvick's own tests test strategies from a plugin.

#include <cstdlib>
#include <stdexcept>

#include "kv/registry/plugin.h"

namespace kvick::kv::test {

// Loads the plugin that the environment variable KVICK_TEST_PLUGIN names; its strategies are tested
// like all others.
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
