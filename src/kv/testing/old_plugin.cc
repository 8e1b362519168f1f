// A plugin that was compiled with other headers: only its id may be read.

#include "kv/strategy/plugin.h"

extern "C" const kvick::kv::StrategyPlugin* kvick_strategies() {
  static constexpr uint64_t kOther[4] = {kvick::kv::kInterfaceId + 1, 0, 0, 0};
  return reinterpret_cast<const kvick::kv::StrategyPlugin*>(kOther);
}
