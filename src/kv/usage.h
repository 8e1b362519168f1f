#pragma once
// What a store says of its memory.

#include <cstdint>
#include <string>

namespace kvick::kv {

enum class SeqId : uint32_t {};

// No room: what was asked for, in bytes, against what the store may still take.
struct Shortage {
  uint64_t needed_bytes = 0, available_bytes = 0;
  std::string what;  // "sequence 3: 4097 tokens of a context of 4096"
};

// Bytes, except sequences. used: rows that hold committed tokens; allocated: taken from the system
// and not given back; wasted = allocated - used - cached; copied: moved by growth, forks and
// commits since the store was made; shared: of used, held by more than one sequence, counted once;
// cached: rows of closed sequences, kept for prompts that begin alike until their room is needed;
// page: the unit in which memory is taken (a page of the system, a block of rows), 0 if any size
// is.
struct Usage {
  uint64_t used_bytes = 0, allocated_bytes = 0, wasted_bytes = 0, shared_bytes = 0;
  uint64_t cached_bytes = 0, slow_bytes = 0, copied_bytes = 0, page_bytes = 0;
  uint32_t sequences = 0;
  bool operator==(const Usage&) const = default;
};

}  // namespace kvick::kv
