#pragma once
// Strategies and policies in a shared library of their own, which kvick loads with --kv-plugin
// FILE. The library defines kvick_strategies() and links to nothing of kvick: the program that
// loads it has the functions that these headers declare. See docs/guides/own-strategy.md.

#include <cstdint>
#include <span>

#include "kv/strategy/interface_id.h"
#include "kv/strategy/policy.h"
#include "kv/strategy/strategy.h"

namespace kvick::kv {

struct StrategyPlugin {
  // Of the headers that the library was compiled with. First, whatever else changes: with another
  // value the rest is not looked at.
  uint64_t interface_id = kInterfaceId;
  // As long as the program runs; either may be empty.
  std::span<const Strategy> strategies = {};
  std::span<const Policy> policies = {};
};

}  // namespace kvick::kv

// What a plugin defines; never null.
extern "C" const kvick::kv::StrategyPlugin* kvick_strategies();
