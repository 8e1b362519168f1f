#pragma once
// What the calls of the contract (kv.h) take: batches of sequences that grow, who asks for what,
// and what is kept.

#include <cstdint>
#include <span>
#include <vector>

#include "kv/values/usage.h"

namespace kvick::kv {

using Token = int32_t;

// On whose behalf a sequence is opened.
struct Owner {
  uint64_t salt = 0;     // rows serve prompts of the same salt only
  int32_t priority = 0;  // of the rows that are kept when it is closed: the lowest may go first
};

struct Opened {
  SeqId seq{};
  uint32_t cached = 0;  // tokens of the prompt whose rows are here already
  // Tokens that some layers know of an earlier prompt, at least `cached`: a checkpoint there
  // (Checkpoints) lets the next prompt that leaves the earlier one at this place go on from it.
  uint32_t seen = 0;
};

struct Slot {
  SeqId seq{};
  uint32_t fresh = 0;  // rows that this step adds, at least 1
  // Whose rows they are, [fresh], until the step ends; or empty: then no other sequence is given
  // this one's rows from here on.
  std::span<const Token> tokens;
  bool whole = false;  // all of them will be kept, or none
  // A policy chooses nothing for it: of a prompt, whose rows must not depend on how it was cut.
  bool reads_all = false;
};
struct Batch {
  std::span<const Slot> slots;  // at least one, each sequence at most once
};

// Who asks for a view: the slot of the batch, and its queries, token t, head g at q + t * q_stride
// + g * head_dim.
struct Query {
  uint32_t slot = 0, layer = 0, head = 0;  // head: of kv_heads
  const float* q = nullptr;
  uint32_t q_stride = 0;
  float scale = 0;  // of the logits; 0: 1 / sqrt(head_dim)
  // As in kernels::Queries: the cap of the logits, 0: none, and what else the softmax sums.
  float softcap = 0;
  const float* sinks = nullptr;  // [group], or null
  // Null: a chain; or per token of the slot the fresh rows on its path, itself last.
  const std::span<const uint32_t>* path = nullptr;
};

// The queries of one layer, of all slots, and where what they read goes.
struct SlotQueries {
  uint32_t group = 0;        // query heads that share a KV head
  const float* q = nullptr;  // [sum of fresh][kv_heads][group][head_dim]
  float* out = nullptr;      // the same; all of it is overwritten
  // Per slot null: a chain; or per token the fresh rows on its path, itself last. Empty: chains.
  std::span<const std::span<const uint32_t>* const> paths;
};

// Per slot, the fresh rows to keep: the path through the slot's tree of tokens, root first.
// Ascending, for a token comes after its parent. An empty list keeps none.
struct Kept {
  std::vector<std::vector<uint32_t>> rows;
  static Kept all(const Batch& batch);
};

}  // namespace kvick::kv
