#include "engine/prefix/prefix_block.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

#include "engine/prefix/test_blocks.h"

namespace kvick::engine {
namespace {

using test::made_ids;
using test::made_rows;
using test::made_tokens;

constexpr size_t kRowBytes = 4096;

TEST(PrefixBlock, TellsModelsSaltsAndBeginningsApart) {
  const auto tokens = made_tokens(2);
  const auto ids = made_ids(2);
  for (const auto& other :
       {block_ids(prefix_root("model2", ""), tokens), block_ids(prefix_root("model", "a"), tokens),
        block_ids(prefix_root("mode", "l"), tokens), made_ids(2, 1)})
    for (const BlockId& id : other) EXPECT_EQ(std::count(ids.begin(), ids.end(), id), 0);
  // The same second block after another first block has another id.
  auto changed = tokens;
  changed[0] = 77;
  EXPECT_NE(block_ids(prefix_root("model", ""), changed)[1], ids[1]);
}

TEST(PrefixBlock, NoticesEveryFlippedByteAndEveryTruncation) {
  const BlockId id = made_ids(1)[0];
  std::mt19937 random(5);
  const std::vector<std::byte> rows = made_rows(6, kRowBytes);
  const std::string sound = encode_block(id, rows);
  const auto sound_to = [&](const std::string& bytes) {
    return decode_block(id, kRowBytes, std::as_bytes(std::span(bytes))).ok();
  };
  ASSERT_TRUE(sound_to(sound));
  for (size_t i = 0; i < 1000; ++i) {
    std::string bytes = sound;
    bytes[i < 72 ? i : random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
    EXPECT_FALSE(sound_to(bytes));
  }
  for (size_t i = 0; i < 1000; ++i)
    EXPECT_FALSE(sound_to(sound.substr(0, random() % sound.size())));
  EXPECT_FALSE(sound_to(sound + "x"));
}

}  // namespace
}  // namespace kvick::engine
