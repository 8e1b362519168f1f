#include "server/ops/kv_event_batch.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace kvick::server {
namespace {

using Kind = engine::PrefixEvent::Kind;
using Value = nlohmann::json;

Value read(const std::vector<engine::PrefixEvent>& events) {
  return Value::from_msgpack(kv_event_batch(events, 1.5));
}

TEST(KvEventBatch, HasVllmsNames) {
  const Value batch = read({{.kind = Kind::kCleared},
                            {.kind = Kind::kStored, .id = 7, .parent = 0, .tokens = {1, 2}},
                            {.kind = Kind::kRemoved, .id = UINT64_MAX}});
  EXPECT_EQ(batch, Value::parse(R"([1.5, [{"type": "AllBlocksCleared"},
      {"type": "BlockStored", "block_hashes": [7], "parent_block_hash": null, "token_ids": [1, 2],
       "block_size": 2, "lora_id": null, "medium": "GPU", "lora_name": null},
      {"type": "BlockRemoved", "block_hashes": [18446744073709551615], "medium": "GPU"}], 0])"));
  EXPECT_EQ(read({}), Value::parse("[1.5, [], 0]"));
}

TEST(KvEventBatch, PutsBlocksThatGoOnEachOtherIntoOneEvent) {
  const auto stored = [](uint64_t id, uint64_t parent) {
    return engine::PrefixEvent{.kind = Kind::kStored, .id = id, .parent = parent, .tokens = {5}};
  };
  const Value events = read({stored(1, 9), stored(2, 1), stored(3, 1), stored(4, 0)})[1];
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["block_hashes"], Value::parse("[1, 2]"));
  EXPECT_EQ(events[0]["token_ids"], Value::parse("[5, 5]"));
  EXPECT_EQ(events[0]["parent_block_hash"], 9);
  EXPECT_EQ(events[1]["block_hashes"], Value::parse("[3]"));
  EXPECT_EQ(events[1]["parent_block_hash"], 1);
  EXPECT_EQ(events[2]["parent_block_hash"], nullptr);
  const Value removed =
      read({{.kind = Kind::kRemoved, .id = 1}, {.kind = Kind::kRemoved, .id = 2}});
  EXPECT_EQ(removed[1].size(), 1u);
  EXPECT_EQ(removed[1][0]["block_hashes"], Value::parse("[1, 2]"));
}

}  // namespace
}  // namespace kvick::server
