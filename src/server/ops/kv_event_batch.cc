#include "server/ops/kv_event_batch.h"

#include <nlohmann/json.hpp>

namespace kvick::server {
namespace {

using Value = nlohmann::ordered_json;
using Kind = engine::PrefixEvent::Kind;

constexpr const char* kMedium = "GPU";

// Encodes a chain of stored blocks as one event and advances `at` past it.
Value stored(std::span<const engine::PrefixEvent> events, size_t& at) {
  const engine::PrefixEvent& first = events[at];
  Value ids = Value::array(), tokens = Value::array();
  const size_t block = first.tokens.size();
  for (uint64_t parent = first.parent; at < events.size(); ++at) {
    const engine::PrefixEvent& one = events[at];
    const bool next = one.kind == Kind::kStored && one.parent == parent;
    if (!next || one.tokens.size() != block) break;
    ids.push_back(one.id);
    for (const kv::Token token : one.tokens) tokens.push_back(token);
    parent = one.id;
  }
  return {{"type", "BlockStored"},
          {"block_hashes", std::move(ids)},
          {"parent_block_hash", first.parent != 0 ? Value(first.parent) : Value()},
          {"token_ids", std::move(tokens)},
          {"block_size", block},
          {"lora_id", nullptr},
          {"medium", kMedium},
          {"lora_name", nullptr}};
}

Value removed(std::span<const engine::PrefixEvent> events, size_t& at) {
  Value ids = Value::array();
  for (; at < events.size() && events[at].kind == Kind::kRemoved; ++at)
    ids.push_back(events[at].id);
  return {{"type", "BlockRemoved"}, {"block_hashes", std::move(ids)}, {"medium", kMedium}};
}

}  // namespace

std::vector<uint8_t> kv_event_batch(std::span<const engine::PrefixEvent> events, double seconds) {
  Value list = Value::array();
  for (size_t at = 0; at < events.size();) switch (events[at].kind) {
      case Kind::kStored:
        list.push_back(stored(events, at));
        break;
      case Kind::kRemoved:
        list.push_back(removed(events, at));
        break;
      case Kind::kCleared:
        list.push_back({{"type", "AllBlocksCleared"}});
        ++at;
        break;
    }
  return Value::to_msgpack(Value::array({seconds, std::move(list), 0}));
}

}  // namespace kvick::server
