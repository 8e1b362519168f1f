#pragma once
// Remembers which prompt prefixes were sent to which instance: a guess at what its prefix cache
// holds. The guess may be wrong, since rows are evicted; then a prompt is computed anew, as it
// would be on any other instance.

#include <cstdint>
#include <list>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kv/contract/kv.h"

namespace kvick::engine {

// Used by one thread at a time.
class PromptIndex {
 public:
  explicit PromptIndex(size_t instances) : instances_(instances) {}
  // Returns for each instance how many leading tokens it was given before, in whole pieces.
  std::vector<uint32_t> known(std::string_view salt, std::span<const kv::Token> prompt) const;
  void add(std::string_view salt, std::span<const kv::Token> prompt, size_t instance);

  // Tokens of a piece: two blocks of the usual store. Shorter common prefixes are quick to compute.
  static constexpr uint32_t kPieceTokens = 32;
  // The last used pieces that are remembered: two million tokens in about 6 MiB.
  static constexpr size_t kMostPieces = size_t{1} << 16;
  static constexpr size_t kMostInstances = 64;

 private:
  struct Piece {
    uint64_t hash;       // of the salt and all tokens up to the piece's last
    uint64_t instances;  // bit i: instance i was given it
  };
  static std::vector<uint64_t> hashes(std::string_view salt, std::span<const kv::Token> prompt);

  size_t instances_;
  std::list<Piece> pieces_;  // the least recently used first
  std::unordered_map<uint64_t, std::list<Piece>::iterator> by_hash_;
};

}  // namespace kvick::engine
