#pragma once
// Slower tiers that are memory: a simulated pool, and the memory of another NUMA node.

#include "kv/tier/tier.h"

namespace kvick::kv {

// Memory of this machine, held to a bandwidth and a latency: it shows what a pool behind CXL would
// do, and is none. Error: the system has no such range of addresses.
base::Result<std::unique_ptr<Tier>> make_ram_tier(const TierOptions& options);
// Memory of one node, where a CXL pool appears on machines that have one. Error: no such node.
base::Result<std::unique_ptr<Tier>> make_numa_tier(const TierOptions& options);

}  // namespace kvick::kv
