#include "engine/prefix/prefix_block.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace kvick::engine {
namespace {

constexpr size_t kRowBytes = 4096;

std::vector<Token> tokens_of(uint32_t blocks, Token first = 0) {
  std::vector<Token> tokens(blocks * kBlockTokens + 5);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TEST(PrefixBlock, TellsModelsSaltsAndBeginningsApart) {
  const auto tokens = tokens_of(2);
  const auto ids = block_ids(prefix_root("model", ""), tokens);
  for (const auto& other :
       {block_ids(prefix_root("model2", ""), tokens), block_ids(prefix_root("model", "a"), tokens),
        block_ids(prefix_root("mode", "l"), tokens),
        block_ids(prefix_root("model", ""), tokens_of(2, 1))})
    for (const BlockId& id : other) EXPECT_EQ(std::count(ids.begin(), ids.end(), id), 0);
  // The same second block after another first block has another id.
  auto changed = tokens;
  changed[0] = 77;
  EXPECT_NE(block_ids(prefix_root("model", ""), changed)[1], ids[1]);
}

TEST(PrefixBlock, NoticesEveryFlippedByteAndEveryTruncation) {
  const BlockId id = block_ids(prefix_root("model", ""), tokens_of(1))[0];
  std::mt19937 random(5);
  std::vector<std::byte> rows(kRowBytes);
  for (std::byte& byte : rows) byte = static_cast<std::byte>(random());
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
