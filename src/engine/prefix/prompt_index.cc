#include "engine/prefix/prompt_index.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kvick::engine {

std::vector<uint64_t> PromptIndex::hashes(std::string_view salt,
                                          std::span<const kv::Token> prompt) {
  std::vector<uint64_t> all;
  uint64_t parent = XXH3_64bits(salt.data(), salt.size());
  for (; prompt.size() >= kPieceTokens; prompt = prompt.subspan(kPieceTokens)) {
    parent = XXH3_64bits_withSeed(prompt.data(), kPieceTokens * sizeof(kv::Token), parent);
    all.push_back(parent);
  }
  return all;
}

std::vector<uint32_t> PromptIndex::known(std::string_view salt,
                                         std::span<const kv::Token> prompt) const {
  std::vector<uint32_t> known(instances_);
  uint32_t tokens = 0;
  for (const uint64_t hash : hashes(salt, prompt)) {
    const auto found = by_hash_.find(hash);
    if (found == by_hash_.end()) break;
    for (size_t i = 0; i < instances_; ++i)
      if (known[i] == tokens && (found->second->instances >> i & 1) != 0)
        known[i] = tokens + kPieceTokens;
    tokens += kPieceTokens;
  }
  return known;
}

void PromptIndex::add(std::string_view salt, std::span<const kv::Token> prompt, size_t instance) {
  for (const uint64_t hash : hashes(salt, prompt)) {
    const auto known = by_hash_.find(hash);
    std::list<Piece> one;
    if (known == by_hash_.end())
      by_hash_.emplace(hash, one.insert(one.end(), {.hash = hash, .instances = 0}));
    else
      one.splice(one.end(), pieces_, known->second);
    one.front().instances |= uint64_t{1} << instance;
    pieces_.splice(pieces_.end(), one);
  }
  for (; pieces_.size() > kMostPieces; pieces_.pop_front()) by_hash_.erase(pieces_.front().hash);
}

}  // namespace kvick::engine
