#pragma once
// Attention of the queries of one (sequence, layer, KV head) over a View:
//
//   out = softmax(logits) V over the rows that the query sees,
//   logit = softcap(scale * q.k) + row bias - slope * distance,
//   softcap(x) = cap * tanh(x / cap), or x
//
// computed in chunks of rows that threads may share: attend_chunk of every chunk, merge in order,
// finish (Table). The rule about bits: a result depends on the query, on the rows that it sees and,
// with a window or slopes, on their positions. It does not depend on how rows are laid out, on
// threads, on the queries computed beside it, on how its past was divided into steps, or on rows
// outside its window.
//
// So chunks are cut where all of that agrees. Without a window rows are counted, committed ones
// first: chunk c is rows [256 c, 256 c + 256). With a window rows have places by their positions:
// chunks end at multiples of 256, and the first chunk of some queries is the first that one of them
// sees a row of. A window costs the rows inside it: chunk_count counts no others, and rows before
// the window of the first query are neither read nor asked for.

#include <cstdint>
#include <span>

#include "kernels/attention/view.h"

namespace kvick::kernels {

// Rows of one chunk. Long enough that merging is free, short enough that a few threads share a long
// context.
inline constexpr uint32_t kChunkRows = 256;

// The queries of one (sequence, layer, KV head), and which rows they see.
struct Queries {
  const float* q = nullptr;  // token t, head g of the group: q + t * q_stride + g * k_dim
  uint32_t q_stride = 0;     // floats from one token to the next
  uint32_t first = 0;        // fresh index of the first token in q
  uint32_t tokens = 0;
  uint32_t group = 0;  // query heads that share this KV head
  // Elements of a key and of a value: multiples of 8, of 32 for types with a scale per 32 elements.
  uint32_t k_dim = 0, v_dim = 0;
  float scale = 1;               // of the logits, 1/sqrt(k_dim) as a rule
  float softcap = 0;             // 0: none
  const float* sinks = nullptr;  // [group]: a logit in the softmax's sum that has no value, or null
  // [group]: what a logit loses with each position between query and row, to both sides (ALiBi,
  // Press et al. 2022), or null. Then there is no window and no list, and the view's row i is at
  // position i; distances are exact below 2^24.
  const float* slopes = nullptr;
  // Null: the token of fresh index i sees fresh rows 0..i. Else one list of ascending fresh rows
  // per token of the step (a draft tree), indexed by fresh index, from the root to the token
  // itself.
  const std::span<const uint32_t>* visible = nullptr;
  // Positions that a query sees, its own included; 0: all. Sliding: the last `window` ones.
  // Chunked: those since the last multiple of `window`.
  uint32_t window = 0;
  bool chunked = false;
  // Where the step's fresh tokens begin, behind all of `past`; read only with a window or slopes. A
  // token's position is this plus its fresh index or, in a draft tree, plus its depth.
  uint32_t position = 0;
  // What the caller reads after this view, from its position `then_from` on (first_seen() of those
  // queries): its first keys are asked for early. May be null.
  const View* then = nullptr;
  uint32_t then_from = 0;
};

// The first position that a query at position p sees.
constexpr uint32_t window_begin(const Queries& queries, uint32_t p) {
  if (queries.window == 0) return 0;
  if (queries.chunked) return p / queries.window * queries.window;
  return p < queries.window ? 0 : p + 1 - queries.window;
}
// The position of token t of the queries (not of the step).
uint32_t position_of(const Queries& queries, uint32_t t);
// The first position that any of the queries sees; 0 without a window.
uint32_t first_seen(const Queries& queries);
// With a window: the position of the first place of the queries' chunk 0. Place i of chunk c, as in
// the probabilities that attend_chunk gives, is position first_place() + 256 c + i.
uint32_t first_place(const Queries& queries);

// The unfinished softmax of some chunks, per query: [tokens][group] of max and sum,
// [tokens][group][v_dim] of acc.
struct Partial {
  float* max;
  float* sum;
  float* acc;
};

// Number of chunks that the queries need, which see rows of no others.
uint32_t chunk_count(const View& view, const Queries& queries);

// Whether keys and values of these types have an arithmetic of prompts (Table::attend_prompt): the
// float types, which are sums of a few bfloat16 numbers.
bool has_prompt_tiles(DType k_type, DType v_type);

}  // namespace kvick::kernels
