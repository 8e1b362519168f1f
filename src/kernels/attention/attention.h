#pragma once
// Attention of the queries of one (sequence, layer, KV head) over a View:
//
//   out = softmax(logits) V over the rows that the query sees,
//   logit = softcap(scale * q.k) + row bias - slope * distance,
//   softcap(x) = cap * tanh(x / cap), or x
//
// The rows are divided into chunks that threads may share: call attend_chunk for every chunk, merge
// for the results in order, then finish (functions of Table). The bits of a result depend on the
// query, on the rows that it sees and, with a window or slopes, on their positions. They do not
// depend on how rows are laid out, on threads, on the queries computed beside it, on how its past
// was divided into steps, or on rows outside its window.
//
// So chunk boundaries must not depend on any of that. Without a window, rows are counted, committed
// ones first: chunk c is rows [256 c, 256 c + 256). With a window, a row's place follows from its
// position: chunks end at multiples of 256, and chunk 0 of some queries is the first chunk with a
// row that one of them sees. A window costs only the rows inside it: chunk_count counts no other
// chunks, and rows before the window of the first query are neither read nor prefetched.

#include <cstdint>
#include <span>

#include "kernels/attention/view.h"

namespace kvick::kernels {

// Rows of one chunk: enough that merging costs almost nothing, few enough that several threads can
// share a long context.
inline constexpr uint32_t kChunkRows = 256;

// The queries of one (sequence, layer, KV head), and which rows they see.
struct Queries {
  const float* q = nullptr;  // token t, head g of the group: q + t * q_stride + g * k_dim
  uint32_t q_stride = 0;     // floats from one token to the next
  uint32_t first = 0;        // fresh index (index among the step's tokens) of q's first token
  uint32_t tokens = 0;
  uint32_t group = 0;  // query heads that share this KV head
  // Head dimensions of keys and values, in elements: multiples of 8, or of 32 for types with one
  // scale per 32 elements.
  uint32_t k_dim = 0, v_dim = 0;
  float scale = 1;    // of the logits, usually 1/sqrt(k_dim)
  float softcap = 0;  // 0: none
  // Attention sinks, [group]: logits that count in the softmax's sum but have no value; or null.
  const float* sinks = nullptr;
  // ALiBi slopes (Press et al. 2022), [group], or null. A logit is reduced by the slope times the
  // distance between the positions of query and row, in both directions. Slopes exclude a window
  // and lists, and the view's row i is at position i. Distances are exact below 2^24.
  const float* slopes = nullptr;
  // Null if causal: the token of fresh index i sees fresh rows 0..i. Otherwise (a draft tree) one
  // list per token of the step, by fresh index: its fresh rows, ascending, from the root to the
  // token itself.
  const std::span<const uint32_t>* visible = nullptr;
  // Number of positions that a query sees, its own included; 0: all. A sliding window is the last
  // `window` positions; a chunked one begins at the last multiple of `window`.
  uint32_t window = 0;
  bool chunked = false;
  // Position of the step's first fresh token, behind all of `past`; read only with a window or
  // slopes. A token's position is this plus its fresh index or, in a draft tree, plus its depth.
  uint32_t position = 0;
  // The view that the caller reads next, from position `then_from` on (first_seen() of its
  // queries): its first chunk is prefetched. May be null.
  const View* then = nullptr;
  uint32_t then_from = 0;
};

// Returns the first position that a query at position p sees.
constexpr uint32_t window_begin(const Queries& queries, uint32_t p) {
  if (queries.window == 0) return 0;
  if (queries.chunked) return p / queries.window * queries.window;
  return p < queries.window ? 0 : p + 1 - queries.window;
}
// Returns the position of token t of the queries (not of the step).
uint32_t position_of(const Queries& queries, uint32_t t);
// Returns the first position that any of the queries sees; 0 without a window.
uint32_t first_seen(const Queries& queries);
// Returns the position of place 0 of the queries' chunk 0, if they have a window. Place i of chunk
// c, also in the probabilities of attend_chunk, is position first_place() + 256 c + i.
uint32_t first_place(const Queries& queries);

// The unnormalised softmax state of some chunks, per query: max and sum are [tokens][group], acc is
// [tokens][group][v_dim].
struct Partial {
  float* max;
  float* sum;
  float* acc;
};

// Returns the number of chunks that hold the rows which the queries see.
uint32_t chunk_count(const View& view, const Queries& queries);

// Whether Table::attend_prompt computes keys and values of these types: the float types, which it
// splits into sums of a few bfloat16 numbers.
bool has_prompt_tiles(DType k_type, DType v_type);

}  // namespace kvick::kernels
