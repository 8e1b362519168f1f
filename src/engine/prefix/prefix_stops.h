#pragma once
// Stops: the places in a prompt where a model with states can resume from what tiers keep. Tiers
// keep such a model's rows in blocks of 128 tokens, like any model's. They keep its states at stops
// only: each in a block of its own, with the rows between the last whole block and the stop. There
// is no list of stops: a state's id is a hash of the tokens before it, so tiers are asked for every
// place where a state may be.

#include <span>
#include <vector>

#include "engine/prefix/prefix_block.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::engine {

struct PrefixStop {
  uint32_t tokens = 0;  // tokens before the stop
  BlockId id = {};
  uint32_t blocks() const { return tokens / kBlockTokens; }  // whole blocks before it
  uint32_t rest() const { return tokens % kBlockTokens; }    // tokens since these blocks
};

// Returns the stop after these tokens. before: the id of the last whole block among them, or
// prefix_root() if there is none.
PrefixStop stop_behind(std::span<const Token> tokens, const BlockId& before);

// Returns, ascending, the stops where an earlier prompt or answer with the same tokens may have
// left a state (prompt_cuts.h): before control tokens, at powers of two and after the last token.
// blocks: block_ids() of the tokens.
std::vector<PrefixStop> stops_in(std::span<const Token> tokens, const BlockId& root,
                                 std::span<const BlockId> blocks, const text::Tokenizer& tokenizer);

}  // namespace kvick::engine
