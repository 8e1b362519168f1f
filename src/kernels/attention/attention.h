#pragma once
// Attention over a View, in chunks of rows whose bounds depend on nothing but the number of rows:
// the result has the same bits however the rows are laid out, however many threads share the
// chunks, and whichever other queries are computed beside it.

#include <cstdint>
#include <span>

#include "kernels/attention/view.h"

namespace kvick::kernels {

// Rows of one chunk. Long enough that merging is free, short enough that a few threads share a long
// context.
inline constexpr uint32_t kChunkRows = 256;

// The queries of one (sequence, layer, KV head), and who sees which fresh rows.
struct Queries {
  const float* q = nullptr;  // token t, head g of the group: q + t * q_stride + g * head_dim
  uint32_t q_stride = 0;     // floats from one token to the next
  uint32_t first =
      0;  // fresh index of the first token in q: it sees fresh rows [0, first] if causal
  uint32_t tokens = 0;
  uint32_t group = 0;  // query heads that share this KV head
  uint32_t head_dim = 0;
  float scale = 1;  // of the logits, 1/sqrt(head_dim) as a rule
  // Null: token i sees fresh rows 0..i. Else one list of ascending fresh rows per token of the step
  // (a draft tree), indexed by fresh index.
  const std::span<const uint32_t>* visible = nullptr;
  // What the caller reads after this view: its first keys are asked for early. May be null.
  const View* then = nullptr;
};

// The unfinished softmax of some chunks, per query: [tokens][group] of max and sum,
// [tokens][group][head_dim] of acc.
struct Partial {
  float* max;
  float* sum;
  float* acc;
};

// Number of chunks that the longest-seeing query needs: rows are counted past first, then the fresh
// ones it sees.
uint32_t chunk_count(const View& view, const Queries& queries);

// Whether keys and values of these types have an arithmetic of prompts (Table::attend_prompt): the
// float types, which are sums of a few bfloat16 numbers.
bool has_prompt_tiles(DType k_type, DType v_type);

}  // namespace kvick::kernels
