#pragma once
// Computes how many blocks of a trace of prompts a cache of `capacity` blocks could have served. A
// block is served if it and all blocks before it in its prompt are cached when the prompt arrives.

#include <span>

#include "lab/data/trace.h"

namespace kvick::lab {

enum class Replacement {
  kOldest,    // evicts the least recently used block, within one prompt the last one
  kForesees,  // evicts the block needed furthest in the future (Belady 1966): an upper bound
};

// Returns the blocks served over all prompts, in order. A prompt's blocks are cached together, so
// `capacity` must fit the longest prompt.
uint64_t served_blocks(std::span<const BlockRequest> requests, uint64_t capacity,
                       Replacement replacement);

}  // namespace kvick::lab
