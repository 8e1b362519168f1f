#pragma once
// Calls to a store's facets, with a default for stores that lack the facet.

#include "base/check.h"
#include "kv/contract/kv.h"

namespace kvick::kv {

// Returns why a sequence is lost, or "" (Health).
inline std::string failure(Store& store, SeqId seq) {
  const Health* const health = store.facets().health;
  return health != nullptr ? health->failure(seq) : std::string();
}
inline bool ran_out_of_memory(Store& store, SeqId seq) {
  const Health* const health = store.facets().health;
  return health != nullptr && health->ran_out_of_memory(seq);
}
// Returns how many fresh rows its next step may add before rows are copied (Buckets).
inline uint32_t spare_rows(Store& store, SeqId seq) {
  const Buckets* const buckets = store.facets().buckets;
  return buckets != nullptr ? buckets->spare_rows(seq) : UINT32_MAX;
}
// Evicts `bytes` of cached rows and returns the bytes given back (Holdings::shrink).
inline uint64_t shrink(Store& store, uint64_t bytes) {
  Holdings* const holdings = store.facets().holdings;
  return holdings != nullptr ? holdings->shrink(bytes) : 0;
}
inline std::vector<MapEntry> map_of(Store& store) {
  const Holdings* const holdings = store.facets().holdings;
  return holdings != nullptr ? holdings->map() : std::vector<MapEntry>();
}

// The groups whose rows a store's RowMover reads, and their bytes per token.
inline std::span<const Shape> moved_groups(Store& store) {
  const RowMover* const rows = store.facets().rows;
  const std::span<const Shape> own = rows != nullptr ? rows->groups() : std::span<const Shape>();
  return own.empty() ? std::span<const Shape>(store.info().groups) : own;
}
inline uint64_t moved_token_bytes(Store& store) {
  uint64_t bytes = 0;
  for (const Shape& shape : moved_groups(store)) bytes += shape.token_bytes();
  return bytes;
}

// Commits rows that a RowMover has read as the newest rows of a sequence. Commits all of them, or
// returns a Shortage and changes nothing.
inline base::Status<Shortage> append_rows(Store& store, SeqId seq, std::span<const Token> tokens,
                                          std::span<const std::byte> rows) {
  const uint64_t token_bytes = moved_token_bytes(store);
  KVICK_CHECK(rows.size() == tokens.size() * token_bytes, "{} bytes for {} rows of {}", rows.size(),
              tokens.size(), token_bytes);
  if (tokens.empty()) return base::Done{};
  const Slot slot = {.seq = seq,
                     .fresh = static_cast<uint32_t>(tokens.size()),
                     .tokens = tokens,
                     .whole = true,
                     .reads_all = true};
  const Batch batch = {.slots = {&slot, 1}};
  const Kept all = Kept::all(batch);
  KVICK_TRY(const std::unique_ptr<Step> step, store.begin(batch));
  step->facets().sink->put(rows);
  step->commit(all);
  return base::Done{};
}

}  // namespace kvick::kv
