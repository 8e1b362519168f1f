#include "engine/prefix/prefix_file.h"

#include <cstring>
#include <fmt/format.h>
#include <xxhash.h>

namespace kvick::engine {
namespace {

// All fields little-endian, as on every machine that kvick runs on. The checksum is over all bytes
// but its own.
struct Header {
  std::array<char, 8> magic = {'k', 'v', 'i', 'c', 'k', 'K', 'V', '\n'};
  uint64_t version = 1;
  FileId id;
  uint64_t tokens = kFileTokens;
  uint64_t row_bytes = 0;
  std::array<uint64_t, 2> checksum = {};
};
static_assert(sizeof(Header) == 64);

class Hash {
 public:
  Hash() : state_(XXH3_createState()) { XXH3_128bits_reset(state_); }
  ~Hash() { XXH3_freeState(state_); }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;

  template <typename T>
  Hash& add(std::span<const T> values) {
    XXH3_128bits_update(state_, values.data(), values.size_bytes());
    return *this;
  }
  // With its length, so that two texts are not taken for two others.
  Hash& add_text(std::string_view text) {
    const uint64_t size = text.size();
    return add(std::span(&size, 1)).add(std::span(text));
  }
  FileId finish() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_);
    return {hash.high64, hash.low64};
  }

 private:
  XXH3_state_t* state_;
};

std::array<uint64_t, 2> checksum_of(Header header, std::span<const std::byte> rows) {
  header.checksum = {};
  const FileId sum = Hash().add(std::span<const Header>(&header, 1)).add(rows).finish();
  return {sum.high, sum.low};
}

}  // namespace

std::string FileId::name() const { return fmt::format("{:016x}{:016x}.kv", high, low); }

FileId first_parent(std::string_view fingerprint, std::string_view salt) {
  return Hash().add_text(fingerprint).add_text(salt).finish();
}

FileId file_id(const FileId& parent, std::span<const Token> tokens) {
  return Hash().add(std::span(&parent, 1)).add(tokens).finish();
}

std::vector<FileId> file_ids(const FileId& first_parent, std::span<const Token> tokens) {
  std::vector<FileId> ids;
  FileId parent = first_parent;
  for (size_t at = 0; at + kFileTokens <= tokens.size(); at += kFileTokens) {
    parent = file_id(parent, tokens.subspan(at, kFileTokens));
    ids.push_back(parent);
  }
  return ids;
}

size_t file_bytes(size_t row_bytes) { return sizeof(Header) + row_bytes; }

std::string encode_file(const FileId& id, std::span<const std::byte> rows) {
  Header header = {.id = id, .row_bytes = rows.size()};
  header.checksum = checksum_of(header, rows);
  std::string bytes(file_bytes(rows.size()), '\0');
  std::memcpy(bytes.data(), &header, sizeof(Header));
  std::memcpy(bytes.data() + sizeof(Header), rows.data(), rows.size());
  return bytes;
}

base::Result<std::span<const std::byte>, Damage> decode_file(const FileId& id, size_t row_bytes,
                                                             std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof(Header)) return Damage::kTorn;
  std::memcpy(&header, bytes.data(), sizeof(Header));
  const std::span<const std::byte> rows = bytes.subspan(sizeof(Header));
  if (header.magic != Header().magic) return Damage::kTorn;
  if (header.checksum != checksum_of(header, rows)) return Damage::kTorn;
  if (header.version != Header().version || header.id != id || header.tokens != kFileTokens ||
      header.row_bytes != row_bytes || rows.size() != row_bytes)
    return Damage::kForeign;
  return rows;
}

}  // namespace kvick::engine
