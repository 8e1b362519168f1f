#pragma once
// How many blocks of a trace of prompts a cache of `capacity` blocks could have served. A block is
// served if it and all blocks before it in its prompt are cached when the prompt arrives.

#include <span>

#include "lab/data/trace.h"

namespace kvick::lab {

enum class Replacement {
  kOldest,    // the least recently used block; within one prompt, its last
  kForesees,  // the block needed furthest in the future (Belady 1966): an upper bound
};

// Blocks served over all prompts in turn. A prompt's blocks are cached together: `capacity` must
// fit the longest prompt.
uint64_t served_blocks(std::span<const BlockRequest> requests, uint64_t capacity,
                       Replacement replacement);

}  // namespace kvick::lab
