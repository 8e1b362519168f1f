// Strategies from outside, for a program that is Python's.

#include "kv/registry/plugin.h"

#include <dlfcn.h>

#include "extension/model.h"

namespace kvick::python {

// Python loads modules so that nobody else sees their functions, and a plugin has kvick's from this
// one (docs/guides/own-strategy.md).
void load_plugin(const std::string& file) {
  Dl_info here = {};
  if (dladdr(reinterpret_cast<const void*>(&load_plugin), &here) == 0 ||
      dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL) == nullptr)
    throw Error("plugins cannot be loaded here: the system does not find kvick's own module again");
  value_or_throw(kv::load_plugin(file));
}

}  // namespace kvick::python
