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

TEST(KvEventBatch, IsVllmsArrays) {
  const Value batch = read({{.kind = Kind::kCleared},
                            {.kind = Kind::kStored, .id = 7, .parent = 0, .tokens = {1, 2}},
                            {.kind = Kind::kRemoved, .id = UINT64_MAX}});
  EXPECT_EQ(batch, Value::parse(R"([1.5, [["AllBlocksCleared"],
      ["BlockStored", [7], null, [1, 2], 2, null, "GPU", null],
      ["BlockRemoved", [18446744073709551615], "GPU"]], 0])"));
  EXPECT_EQ(read({}), Value::parse("[1.5, [], 0]"));
}

TEST(KvEventBatch, PutsBlocksThatGoOnEachOtherIntoOneEvent) {
  const auto stored = [](uint64_t id, uint64_t parent) {
    return engine::PrefixEvent{.kind = Kind::kStored, .id = id, .parent = parent, .tokens = {5}};
  };
  const Value events = read({stored(1, 9), stored(2, 1), stored(3, 1), stored(4, 0)})[1];
  EXPECT_EQ(events, Value::parse(R"([["BlockStored", [1, 2], 9, [5, 5], 1, null, "GPU", null],
      ["BlockStored", [3], 1, [5], 1, null, "GPU", null],
      ["BlockStored", [4], null, [5], 1, null, "GPU", null]])"));
  const Value removed =
      read({{.kind = Kind::kRemoved, .id = 1}, {.kind = Kind::kRemoved, .id = 2}});
  EXPECT_EQ(removed[1], Value::parse(R"([["BlockRemoved", [1, 2], "GPU"]])"));
}

}  // namespace
}  // namespace kvick::server
