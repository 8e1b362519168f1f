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
  // An allocation failed: no limit of the store was reached, and how much is lacking is not known.
  bool out_of_memory = false;
  static Shortage system(const std::string& what) {
    return {.needed_bytes = 1,
            .what = what + ": the system gives no more memory",
            .out_of_memory = true};
  }
};

// Bytes, except sequences. used: rows that hold committed tokens; allocated: taken from the
// system and not given back; wasted = allocated - used - cached; copied: moved by growth, forks
// and commits since the store was made; shared: of used, held by more than one sequence, counted
// once; cached: rows of closed sequences, kept for prompts that begin alike until their room is
// needed; evicted: such memory given back since the store was made; page: the unit in which
// memory is taken (a page of the system, a block of rows), 0 if any size is; slow: taken of a
// slower tier; slow_read, slow_written: moved from and to it since the store was made; metadata:
// beside all these, about what block tables and prefix trees take, where a strategy has any;
// fallbacks: forks that were copied whole because the system has no way to share their rows
// (vm.max_map_count is near, it refuses a mapping, or vm.overcommit_memory is 2); read: by
// views, where a policy chooses rows, what it read to choose them included, and what it read to
// check itself left out; checks: how often it checked how much attention the rows left out would
// have had (meter.h); lost_mass: the sum of what it found, each 0 to 1; checkpoints: states kept
// for prompts to go on from, of which checkpoint_bytes are cached; resumed: sequences that did.
// What a policy keeps beside the rows is allocated and not used.
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
  // Another store's; the page is that of the larger.
  void add(const Usage& other);
};

// A piece of what is allocated, for a picture of it: a block, or all that one sequence holds of a
// kind.
struct MapEntry {
  uint64_t bytes = 0;
  uint32_t used_tokens = 0;  // whose rows are in it
  uint32_t tokens = 0;       // that it has room for, those included
  uint32_t users = 0;        // sequences that hold it; 0: cached
  SeqId owner{};             // the first of them
  bool operator==(const MapEntry&) const = default;
};

}  // namespace kvick::kv
