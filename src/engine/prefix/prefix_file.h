#pragma once
// One file of the prefix cache that survives restarts: the rows of kFileTokens tokens, and whose
// they are. Its name says all that the rows depend on, so that a file is right for whoever looks it
// up, or it is not itself.

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

// Tokens of a file. A file of SmolLM2's rows in f16 is 2.9 MB: large enough to be read at the
// disk's speed, and what a prompt ends with beyond whole files is soon computed.
inline constexpr uint32_t kFileTokens = 128;

// XXH3 of 128 bits over everything that decides rows: the model, tokenizer, element types and
// instruction set (the fingerprint), the salt, and all tokens up to the file's last.
struct FileId {
  uint64_t high = 0, low = 0;
  auto operator<=>(const FileId&) const = default;
  std::string name() const;  // 32 hexadecimal digits and ".kv"
};

// The one in front of a prompt's first file. Nothing but hashing tells salts apart.
FileId first_parent(std::string_view fingerprint, std::string_view salt);
// tokens: kFileTokens.
FileId file_id(const FileId& parent, std::span<const Token> tokens);
// Of all whole files of some tokens, in order.
std::vector<FileId> file_ids(const FileId& first_parent, std::span<const Token> tokens);

enum class Damage {
  kTorn,     // shorter or longer than it says, or not what its checksum says
  kForeign,  // sound, but not the one that was asked for, or of another version
};

// rows: as kv::Store::read_rows gives them, of kFileTokens tokens.
std::string encode_file(const FileId& id, std::span<const std::byte> rows);
// The rows in `bytes`, which were found under that id's name; row_bytes: how many there should be.
base::Result<std::span<const std::byte>, Damage> decode_file(const FileId& id, size_t row_bytes,
                                                             std::span<const std::byte> bytes);

// The file's size for so many bytes of rows.
size_t file_bytes(size_t row_bytes);

}  // namespace kvick::engine
