#pragma once
// Which instance was given which beginnings of prompts: a guess at what its prefix cache holds. It
// may be wrong, since rows go when room is needed; then a prompt is computed anew, as it would be
// anywhere.

#include <cstdint>
#include <list>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kv/contract/kv.h"

namespace kvick::engine {

// From one thread at a time.
class PromptIndex {
 public:
  explicit PromptIndex(size_t instances) : instances_(instances) {}
  // By instance: how many of the first tokens it was given before, in whole pieces.
  std::vector<uint32_t> known(std::string_view salt, std::span<const kv::Token> prompt) const;
  void add(std::string_view salt, std::span<const kv::Token> prompt, size_t instance);

  // Tokens of a piece: two blocks of the usual store. Prompts that share less are soon computed.
  static constexpr uint32_t kPieceTokens = 32;
  // Pieces that are remembered, those used last: two million tokens in some 6 MiB.
  static constexpr size_t kMostPieces = size_t{1} << 16;
  static constexpr size_t kMostInstances = 64;

 private:
  struct Piece {
    uint64_t hash;       // of all tokens up to its last, and the salt
    uint64_t instances;  // a bit for each that was given it
  };
  static std::vector<uint64_t> hashes(std::string_view salt, std::span<const kv::Token> prompt);

  size_t instances_;
  std::list<Piece> pieces_;  // used longest ago first
  std::unordered_map<uint64_t, std::list<Piece>::iterator> by_hash_;
};

}  // namespace kvick::engine
