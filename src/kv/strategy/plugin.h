#pragma once
// Strategies and policies in a separate shared library, loaded with --kv-plugin FILE. The library
// defines kvick_strategies(). It does not link to kvick: the program that loads it provides the
// functions that these headers declare. See docs/guides/own-strategy.md.

#include <cstdint>
#include <span>

#include "kv/strategy/interface_id.h"
#include "kv/strategy/policy.h"
#include "kv/strategy/strategy.h"

namespace kvick::kv {

struct StrategyPlugin {
  // Identifies the headers that the library was compiled with. Stays the first field in every
  // version: if its value differs, kvick reads no other field.
  uint64_t interface_id = kInterfaceId;
  // Valid until the program ends; either may be empty.
  std::span<const Strategy> strategies = {};
  std::span<const Policy> policies = {};
};

}  // namespace kvick::kv

// The function that a plugin defines; never returns null.
extern "C" const kvick::kv::StrategyPlugin* kvick_strategies();
