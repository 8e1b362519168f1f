#pragma once
// Slower tiers that are memory: a simulated pool, and the memory of another NUMA node.

#include "kv/tier/tier.h"

namespace kvick::kv {

// Memory of this machine, slowed to a bandwidth and a latency to simulate a pool behind CXL. Error:
// the system has no free address range of this size.
base::Result<std::unique_ptr<Tier>> make_ram_tier(const TierOptions& options);
// Memory of one NUMA node; a CXL pool appears as such a node. Error: no such node.
base::Result<std::unique_ptr<Tier>> make_numa_tier(const TierOptions& options);

}  // namespace kvick::kv
