#pragma once
// Encodes events of the prefix cache as vLLM 0.28 sends them and its router 0.1.17 reads them:
// msgpack of [seconds, [event, ...], rank]. An event is one of
//   {"type": "BlockStored", "block_hashes": [id, ...], "parent_block_hash": id or nil,
//    "token_ids": [token, ...], "block_size": tokens of a block, "lora_id": nil, "medium": "GPU",
//    "lora_name": nil}
//   {"type": "BlockRemoved", "block_hashes": [id, ...], "medium": "GPU"}
//   {"type": "AllBlocksCleared"}
// "GPU" is vLLM's word for the fastest tier. (Older versions sent events as arrays of these
// values.)

#include <cstdint>
#include <span>
#include <vector>

#include "engine/prefix/prefix_events.h"

namespace kvick::server {

// seconds: since 1970. A chain of consecutive blocks is one event.
std::vector<uint8_t> kv_event_batch(std::span<const engine::PrefixEvent> events, double seconds);

}  // namespace kvick::server
