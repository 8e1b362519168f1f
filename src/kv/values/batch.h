#pragma once
// The arguments of the calls in the contract (kv.h): batches of sequences, queries, and the rows
// that a commit keeps.

#include <cstdint>
#include <span>
#include <vector>

#include "kv/values/usage.h"

namespace kvick::kv {

using Token = int32_t;

// The client for whom a sequence is opened.
struct Owner {
  uint64_t salt = 0;     // only prompts with the same salt reuse its rows
  int32_t priority = 0;  // of its cached rows once it is closed; lower priorities are evicted first
};

struct Opened {
  SeqId seq{};
  uint32_t cached = 0;  // prompt tokens whose rows the store already has
  // Prompt tokens that some layers know from an earlier prompt, at least `cached`. A checkpoint
  // here (Checkpoints) lets the next prompt that diverges from the earlier one at this point resume
  // there.
  uint32_t seen = 0;
};

struct Slot {
  SeqId seq{};
  uint32_t fresh = 0;  // rows that this step adds, at least 1
  // The tokens of these rows: [fresh], valid until the step ends. Empty if unknown: then no other
  // sequence may reuse this sequence's rows from here on.
  std::span<const Token> tokens;
  bool whole = false;  // commit keeps all of these rows or none
  // No policy selects rows for it: the slot is part of a prompt, whose rows must not depend on how
  // the prompt was cut into steps.
  bool reads_all = false;
};
struct Batch {
  std::span<const Slot> slots;  // at least one, each sequence at most once
};

// A view's slot in the batch and its queries. The query of token t and head g of the group is at q
// + t * q_stride + g * head_dim.
struct Query {
  uint32_t slot = 0, layer = 0, head = 0;  // head: KV head
  const float* q = nullptr;
  uint32_t q_stride = 0;
  float scale = 0;  // factor on the logits; 0: 1 / sqrt(head_dim)
  // As in kernels::Queries: softcap caps the logits (0: no cap), sinks are extra terms of the
  // softmax.
  float softcap = 0;
  const float* sinks = nullptr;  // [group], or null
  // Null: the tokens form a chain. Else, per token of the slot: the fresh rows on its path, ending
  // with its own.
  const std::span<const uint32_t>* path = nullptr;
};

// The queries of one layer for all slots, and where the results go.
struct SlotQueries {
  uint32_t group = 0;        // query heads that share a KV head
  const float* q = nullptr;  // [sum of fresh][kv_heads][group][head_dim]
  float* out = nullptr;      // of the shape of q; overwritten completely
  // Per slot: null for a chain, else per token the fresh rows on its path, ending with its own.
  // Empty: all slots are chains.
  std::span<const std::span<const uint32_t>* const> paths;
};

// Per slot, the fresh rows to keep: the accepted path through the slot's tree of tokens, root
// first. Ascending, because a token comes after its parent. An empty list keeps none.
struct Kept {
  std::vector<std::vector<uint32_t>> rows;
  static Kept all(const Batch& batch);
};

}  // namespace kvick::kv
