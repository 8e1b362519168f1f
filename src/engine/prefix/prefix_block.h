#pragma once
// A block of the prefix cache beyond memory: the rows of up to kBlockTokens tokens. Its id is a
// hash of everything that the rows depend on, so a block with the right id has the right rows.
// Files of a folder and values in a shared store hold the same bytes.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kv/contract/kv.h"

namespace kvick::engine {

using Token = kv::Token;

// Tokens of a whole block. With SmolLM2 in f16 a block has 2.9 MB, large enough to be read at the
// disk's speed. The tokens after a prompt's last whole block are quick to compute.
inline constexpr uint32_t kBlockTokens = 128;

// SHA-256 over everything that decides rows: the model, tokenizer, element types and instruction
// set (the fingerprint), the salt, and all tokens up to the block's last. The hash is cryptographic
// because others may write to a shared store: nobody can make a prompt with another prompt's ids.
struct BlockId {
  std::array<uint8_t, 32> bytes = {};
  auto operator<=>(const BlockId&) const = default;
  std::string hex() const;   // 64 digits
  std::string name() const;  // hex() and ".kv"
};

// Returns the parent of a prompt's first block. Only this hash keeps blocks of different salts
// apart. adapter: AdapterUse::key.
BlockId prefix_root(std::string_view fingerprint, std::string_view salt,
                    std::string_view adapter = {});
// tokens: kBlockTokens, or fewer for the block that ends a prompt.
BlockId block_id(const BlockId& parent, std::span<const Token> tokens);
// Returns the id of the state after some tokens, which is kept with the rows of `rest`: the tokens
// since the last whole block, `before`.
BlockId state_id(const BlockId& before, std::span<const Token> rest);
// Returns the ids of all whole blocks of the tokens, in order.
std::vector<BlockId> block_ids(const BlockId& prefix_root, std::span<const Token> tokens);

enum class Damage {
  kTorn,     // too short for a header, or the magic number or the checksum is wrong
  kForeign,  // sound, but with another id, size or version than asked for
};

// rows: as kv::RowMover::read_rows gives them; of a state's block, after the state.
std::string encode_block(const BlockId& id, std::span<const std::byte> rows);
// Returns the rows in `bytes`, which were found under `id`; row_bytes: their expected size.
base::Result<std::span<const std::byte>, Damage> decode_block(const BlockId& id, size_t row_bytes,
                                                              std::span<const std::byte> bytes);

// Bytes of an encoded block with `row_bytes` bytes of rows.
size_t block_bytes(size_t row_bytes);

}  // namespace kvick::engine
