#pragma once
// A store's report of its memory.

#include <cstdint>
#include <string>

namespace kvick::kv {

enum class SeqId : uint32_t {};

// No room: the bytes needed against the bytes that the store may still take.
struct Shortage {
  uint64_t needed_bytes = 0, available_bytes = 0;
  std::string what;  // "sequence 3: 4097 tokens of a context of 4096"
  // An allocation failed. No limit of the store was reached, and it is not known how much is
  // missing.
  bool out_of_memory = false;
  static Shortage system(const std::string& what) {
    return {.needed_bytes = 1,
            .what = what + ": the system gives no more memory",
            .out_of_memory = true};
  }
};

// Bytes, unless another unit is named. Totals "since the store was made" never fall.
// used: rows of committed tokens. allocated: taken from the system and not given back. wasted:
// allocated - used - cached. shared: the part of used that more than one sequence holds, counted
// once.
// cached: rows of closed sequences, kept for prompts with the same prefix until memory is needed.
// evicted: cached memory given back since the store was made.
// copied: moved by growth, forks and commits since the store was made.
// page: the unit in which memory is taken (a page of the system, a block of rows); 0: any size.
// slow: taken from a slower tier. slow_read, slow_written: moved from and to it since the store was
// made.
// metadata: approximate bytes of block tables and prefix trees, in addition to all these.
// fallbacks: number of forks copied whole because the system cannot share their rows
// (vm.max_map_count is nearly reached, it refuses a mapping, or vm.overcommit_memory is 2).
// read: by views where a policy chooses rows, with what it reads to choose but without its checks.
// checks: number of times the policy measured the attention that omitted rows would have had
// (meter.h). lost_mass: the sum of these measurements, each from 0 to 1.
// checkpoints: number of states kept for prompts to resume from, of which checkpoint_bytes are
// cached. resumed: number of sequences that did.
// Data that a policy keeps beside the rows counts as allocated, not as used.
struct Usage {
  uint64_t used_bytes = 0, allocated_bytes = 0, wasted_bytes = 0, shared_bytes = 0;
  uint64_t cached_bytes = 0, slow_bytes = 0, copied_bytes = 0, page_bytes = 0;
  uint64_t evicted_bytes = 0;
  uint64_t slow_read_bytes = 0, slow_written_bytes = 0;
  uint64_t fallbacks = 0, metadata_bytes = 0, read_bytes = 0;
  uint64_t checks = 0;
  double lost_mass = 0;
  uint64_t checkpoints = 0, checkpoint_bytes = 0, resumed = 0;
  uint32_t sequences = 0;
  bool operator==(const Usage&) const = default;
  // Adds another store's usage; page_bytes becomes the larger of the two.
  void add(const Usage& other);
};

// A piece of the allocated memory, for a picture of it: one block, or everything of one kind that a
// sequence holds.
struct MapEntry {
  uint64_t bytes = 0;
  uint32_t used_tokens = 0;  // tokens whose rows are in it
  uint32_t tokens = 0;       // tokens that it has room for, used ones included
  uint32_t users = 0;        // sequences that hold it; 0: cached
  SeqId owner{};             // the first of these sequences
  bool operator==(const MapEntry&) const = default;
};

}  // namespace kvick::kv
