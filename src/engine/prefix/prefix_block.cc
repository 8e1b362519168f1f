#include "engine/prefix/prefix_block.h"

#include <cstring>
#include <memory>
#include <openssl/evp.h>
#include <xxhash.h>

#include "base/check.h"

namespace kvick::engine {
namespace {

// All fields little-endian, as on every machine that kvick runs on. The checksum is XXH3's, 128
// bits, over all bytes but its own.
struct Header {
  std::array<char, 8> magic = {'k', 'v', 'i', 'c', 'k', 'K', 'V', '\n'};
  uint64_t version = 2;
  BlockId id;
  uint64_t row_bytes = 0;
  std::array<uint64_t, 2> checksum = {};
};
static_assert(sizeof(Header) == 72);

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    KVICK_CHECK(
        context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
        "OpenSSL has no SHA-256");
  }
  template <typename T>
  Sha256& add(std::span<const T> values) {
    KVICK_CHECK(EVP_DigestUpdate(context_.get(), values.data(), values.size_bytes()) == 1,
                "SHA-256 takes no bytes");
    return *this;
  }
  // Adds the length as well: otherwise "ab", "c" and "a", "bc" would have the same hash.
  Sha256& add_text(std::string_view text) {
    const uint64_t size = text.size();
    return add(std::span(&size, 1)).add(std::span(text));
  }
  BlockId finish() {
    BlockId id;
    KVICK_CHECK(EVP_DigestFinal_ex(context_.get(), id.bytes.data(), nullptr) == 1,
                "SHA-256 does not end");
    return id;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

std::array<uint64_t, 2> checksum_of(Header header, std::span<const std::byte> rows) {
  header.checksum = {};
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       &XXH3_freeState);
  KVICK_CHECK(state != nullptr, "no memory for a checksum");
  XXH3_128bits_reset(state.get());
  XXH3_128bits_update(state.get(), &header, sizeof(Header));
  XXH3_128bits_update(state.get(), rows.data(), rows.size());
  const XXH128_hash_t sum = XXH3_128bits_digest(state.get());
  return {sum.high64, sum.low64};
}

}  // namespace

std::string BlockId::hex() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string BlockId::name() const { return hex() + ".kv"; }

// Texts are hashed with their lengths, so a root with an adapter never equals one without.
BlockId prefix_root(std::string_view fingerprint, std::string_view salt, std::string_view adapter) {
  Sha256 hash;
  hash.add_text(fingerprint).add_text(salt);
  if (!adapter.empty()) hash.add_text(adapter);
  return hash.finish();
}

BlockId block_id(const BlockId& parent, std::span<const Token> tokens) {
  return Sha256().add(std::span<const uint8_t>(parent.bytes)).add(tokens).finish();
}

BlockId state_id(const BlockId& before, std::span<const Token> rest) {
  return Sha256().add(std::span<const uint8_t>(before.bytes)).add(rest).add_text("state").finish();
}

std::vector<BlockId> block_ids(const BlockId& prefix_root, std::span<const Token> tokens) {
  std::vector<BlockId> ids;
  BlockId parent = prefix_root;
  for (size_t at = 0; at + kBlockTokens <= tokens.size(); at += kBlockTokens) {
    parent = block_id(parent, tokens.subspan(at, kBlockTokens));
    ids.push_back(parent);
  }
  return ids;
}

size_t block_bytes(size_t row_bytes) { return sizeof(Header) + row_bytes; }

std::string encode_block(const BlockId& id, std::span<const std::byte> rows) {
  Header header = {.id = id, .row_bytes = rows.size()};
  header.checksum = checksum_of(header, rows);
  std::string bytes(block_bytes(rows.size()), '\0');
  std::memcpy(bytes.data(), &header, sizeof(Header));
  std::memcpy(bytes.data() + sizeof(Header), rows.data(), rows.size());
  return bytes;
}

base::Result<std::span<const std::byte>, Damage> decode_block(const BlockId& id, size_t row_bytes,
                                                              std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof(Header)) return Damage::kTorn;
  std::memcpy(&header, bytes.data(), sizeof(Header));
  const std::span<const std::byte> rows = bytes.subspan(sizeof(Header));
  if (header.magic != Header().magic) return Damage::kTorn;
  if (header.checksum != checksum_of(header, rows)) return Damage::kTorn;
  if (header.version != Header().version || header.id != id || header.row_bytes != row_bytes ||
      rows.size() != row_bytes)
    return Damage::kForeign;
  return rows;
}

}  // namespace kvick::engine
