#pragma once
// Events of the prefix cache as vLLM sends them: msgpack of [seconds, [event, ...], rank], and an
// event is one of
//   ["BlockStored", [id, ...], parent id or nil, [token, ...], tokens of a block, nil, "GPU", nil]
//   ["BlockRemoved", [id, ...], "GPU"]
//   ["AllBlocksCleared"]
// The two nils are vLLM's LoRA adapter. "GPU" is its word for the fastest tier.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/prefix/prefix_events.h"

namespace kvick::server {

// seconds: since 1970. Blocks that go on each other are one event.
std::vector<uint8_t> kv_event_batch(std::span<const engine::PrefixEvent> events, double seconds);

}  // namespace kvick::server
