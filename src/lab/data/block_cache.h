#pragma once
// What a cache of so many blocks could have served of a trace of prompts: the measure of a real
// one. A block is served if it and all before it in its prompt are held when the prompt comes.

#include <span>

#include "lab/data/trace.h"

namespace kvick::lab {

enum class Replacement {
  kOldest,    // of blocks, the one that was used least recently; of one prompt's, its last
  kForesees,  // the one that is needed last from now on (Belady 1966): no cache can know it
};

// Blocks served, of all prompts in turn. A prompt's blocks are held at once: `capacity` has room
// for the longest.
uint64_t served_blocks(std::span<const BlockRequest> requests, uint64_t capacity,
                       Replacement replacement);

}  // namespace kvick::lab
