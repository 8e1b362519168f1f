// Loads strategy plugins into a Python program.

#include "kv/registry/plugin.h"

#include <dlfcn.h>

#include "extension/model.h"

namespace kvick::python {

// Python loads modules with private symbols, but a plugin needs kvick's functions from this module
// (docs/guides/own-strategy.md). So the module's symbols are made global first.
void load_plugin(const std::string& file) {
  Dl_info here = {};
  if (dladdr(reinterpret_cast<const void*>(&load_plugin), &here) == 0 ||
      dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL) == nullptr)
    throw Error("plugins cannot be loaded here: the system does not find kvick's own module again");
  value_or_throw(kv::load_plugin(file));
}

}  // namespace kvick::python
