// Tests blocks: their rows, their users and their memory.

#include "kv/prefix/block_pool.h"

#include <cstring>
#include <gtest/gtest.h>
#include <set>
#include <sys/mman.h>

#include "base/memory.h"

namespace kvick::kv::test {
namespace {

// A block of 8 rows has 12 KiB of keys and 12 KiB of values.
constexpr Shape kShape = {.layers = 3, .kv_heads = 4, .head_dim = 64, .max_tokens = 1000};

BlockPool pool(uint64_t max_bytes, const Shape& shape = kShape, uint32_t rows = 8) {
  return BlockPool::make({.shape = shape, .limits = {.max_bytes = max_bytes}}, rows, Pages::kSystem)
      .value();
}

// Returns how many pages of a block's keys or values are resident.
size_t resident(const BlockPool& pool, BlockId id, bool is_v, size_t bytes) {
  const size_t page = base::page_bytes();
  const auto at = reinterpret_cast<uintptr_t>(pool.row(id, 0, 0, is_v, 0));
  EXPECT_EQ(at % page, 0u);
  std::vector<unsigned char> in(bytes / page);
  EXPECT_EQ(mincore(reinterpret_cast<void*>(at), bytes, in.data()), 0);
  size_t count = 0;
  for (const unsigned char flag : in) count += flag & 1;
  return count;
}

TEST(BlockPool, ABlockIsMemoryWhileItIsTaken) {
  const Shape whole_pages = {.layers = 2, .kv_heads = 4, .head_dim = 256, .max_tokens = 1000};
  BlockPool blocks = pool(UINT64_MAX, whole_pages);
  const size_t bytes = blocks.block_bytes() / 2;
  ASSERT_EQ(bytes % base::page_bytes(), 0u);
  const BlockId a = blocks.take().value(), b = blocks.take().value();
  EXPECT_EQ(blocks.taken(), 2u);
  blocks.add_user(a);
  blocks.drop_user(a);
  for (const bool is_v : {false, true}) {
    EXPECT_EQ(resident(blocks, a, is_v, bytes), bytes / base::page_bytes());
    std::memset(blocks.row(b, 0, 0, is_v, 0), 1, bytes);
  }
  blocks.drop_user(a);
  for (const bool is_v : {false, true}) {
    EXPECT_EQ(resident(blocks, a, is_v, bytes), 0u);
    EXPECT_EQ(resident(blocks, b, is_v, bytes), bytes / base::page_bytes());
  }
  EXPECT_EQ(blocks.taken(), 1u);
  EXPECT_EQ(blocks.take().value(), a);
  EXPECT_EQ(*blocks.row(a, 0, 0, false, 0), std::byte{0});
}

TEST(BlockPool, GivingBackLeavesNeighboursInTheSamePageAlone) {
  Shape odd = kShape;
  odd.head_dim = 38;  // 10,944 bytes of keys per block of 12 rows: not a multiple of the page size
  BlockPool blocks = pool(UINT64_MAX, odd, 12);
  std::vector<BlockId> ids;
  for (int i = 0; i < 5; ++i) {
    ids.push_back(blocks.take().value());
    for (const bool is_v : {false, true})
      std::memset(blocks.row(ids.back(), 0, 0, is_v, 0), i + 1, blocks.block_bytes() / 2);
  }
  const auto holds = [&](int i) {
    for (const bool is_v : {false, true})
      for (size_t byte = 0; byte < blocks.block_bytes() / 2; ++byte)
        if (blocks.row(ids[i], 0, 0, is_v, 0)[byte] != static_cast<std::byte>(i + 1)) return false;
    return true;
  };
  blocks.drop_user(ids[1]);
  EXPECT_TRUE(holds(0) && holds(2) && holds(3) && holds(4));
  blocks.drop_user(ids[2]);  // its neighbour is free
  EXPECT_TRUE(holds(0) && holds(3) && holds(4));
  blocks.drop_user(ids[4]);
  blocks.drop_user(ids[0]);
  EXPECT_TRUE(holds(3));
}

TEST(BlockPool, EveryRowHasAPlaceOfItsOwn) {
  Shape mixed = kShape;
  mixed.k_type = kernels::DType::kQ8;
  mixed.v_type = kernels::DType::kQ4;
  BlockPool blocks = pool(UINT64_MAX, mixed);
  std::set<std::pair<std::byte*, std::byte*>> step_slots;
  for (int i = 0; i < 3; ++i) {
    const BlockId id = blocks.take().value();
    for (uint32_t layer = 0; layer < mixed.layers; ++layer)
      for (uint32_t head = 0; head < mixed.kv_heads; ++head)
        for (const bool is_v : {false, true})
          for (uint32_t row = 0; row < blocks.rows(); ++row) {
            std::byte* at = blocks.row(id, layer, head, is_v, row);
            EXPECT_EQ(at, blocks.base(layer, head, is_v) +
                              (blocks.first_row(id) + row) * mixed.row_bytes(is_v));
            step_slots.emplace(at, at + mixed.row_bytes(is_v));
          }
  }
  EXPECT_EQ(step_slots.size(), 3u * mixed.layers * mixed.kv_heads * 2 * blocks.rows());
  const std::byte* last = nullptr;
  for (const auto& [begin, end] : step_slots) {
    EXPECT_LE(last, begin);
    last = end;
  }
}

TEST(BlockPool, HoldsWhatTheCapAllows) {
  const uint64_t block = 8 * kShape.token_bytes();
  BlockPool blocks = pool(3 * block + block / 2);
  for (uint32_t left = 3; left > 0; --left) {
    EXPECT_EQ(blocks.free(), left);
    ASSERT_TRUE(blocks.take().has_value());
  }
  EXPECT_EQ(blocks.free(), 0u);
  const auto none =
      BlockPool::make({.shape = kShape, .limits = {.max_bytes = block - 1}}, 8, Pages::kSystem);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("give smaller blocks"), std::string::npos)
      << none.error().message;
}

}  // namespace
}  // namespace kvick::kv::test
