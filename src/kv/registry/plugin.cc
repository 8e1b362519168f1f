#include "kv/registry/plugin.h"

#include <dlfcn.h>
#include <filesystem>

#include "kv/registry/policies.h"
#include "kv/registry/registry.h"
#include "kv/strategy/plugin.h"

namespace kvick::kv {
namespace {

struct Unload {
  void operator()(void* library) const { dlclose(library); }
};

base::Status<> add_all(const StrategyPlugin& plugin) {
  KVICK_TRY_VOID(check_policies(plugin.policies));  // before adding strategies, which stay
  KVICK_TRY_VOID(add_strategies(plugin.strategies));
  return add_policies(plugin.policies);
}

}  // namespace

base::Status<> load_plugin(const std::string& file) {
  // A name without a slash would be searched for in the system's folders.
  const std::string path = std::filesystem::absolute(file).string();
  std::unique_ptr<void, Unload> library(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) return base::fail("cannot load the plugin {}: {}", file, dlerror());
  const auto entry =
      reinterpret_cast<decltype(&kvick_strategies)>(dlsym(library.get(), "kvick_strategies"));
  if (entry == nullptr)
    return base::fail("{} is not a plugin of kvick: it has no function kvick_strategies", file);
  const StrategyPlugin& plugin = *entry();
  if (plugin.interface_id != kInterfaceId)
    return base::fail(
        "{} was compiled with the headers of another kvick than this one: compile it again with "
        "those that were installed with this program",
        file);
  if (auto added = add_all(plugin); !added.ok())
    return base::fail("{}: {}", file, added.error().message);
  (void)library.release();  // the tables point into the library
  return base::Done{};
}

}  // namespace kvick::kv
