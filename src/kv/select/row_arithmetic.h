#pragma once
// Arithmetic on keys, values and logits that policies share.

#include <algorithm>
#include <span>

#include "base/memory.h"
#include "kernels/table/table.h"
#include "kv/strategy/strategy.h"

namespace kvick::kv {

inline const kernels::Table& kernels_of(const Setup& setup) {
  return setup.compute.kernels != nullptr ? *setup.compute.kernels
                                          : kernels::table(base::Isa::kScalar);
}

// Reads a key of a segment as floats; a Hadamard transform is not undone.
inline void read_key(const kernels::Segment& segment, const std::byte* key, std::span<float> out) {
  kernels::to_f32(segment.k_type, key, out.size(), out.data());
  if (segment.k_scale != 1)
    for (float& x : out) x *= segment.k_scale;
}

// Applies the Hadamard transform with this block size (Shape::hadamard) to a head's key or query,
// or undoes it: the transform is its own inverse. block 0: no change.
inline void transform(const kernels::Table& kernels, uint32_t block, std::span<float> head) {
  if (block != 0) kernels.hadamard(head.data(), head.size(), block);
}

// out[i] = dot product of q and the i-th key of the segment's runs, for all of its rows.
void dot_keys(const kernels::Table& kernels, const kernels::Segment& segment,
              std::span<const float> q, std::span<float> out);

// How logits are made from a query's dot products, as in kernels::Queries.
struct LogitRule {
  float scale = 1, softcap = 0;
  const float* sink = nullptr;  // of this query's head, or null
};
// Replaces a query's dot products by exp(logit - largest logit). Returns the softmax's denominator.
float softmax_weights(const kernels::Table& kernels, std::span<float> dots, const LogitRule& rule);

// Returns `count` weights: the sums of the queries' probabilities. score(first, n, out) sets out,
// [n][count], to the scores of queries [first, first + n). softmax(query, scores) replaces a
// query's scores by unnormalised probabilities and returns by what to divide them.
template <class Score, class Softmax>
std::span<float> summed_probabilities(const kernels::Table& kernels, size_t queries, uint32_t count,
                                      base::Arena& scratch, const Score& score,
                                      const Softmax& softmax) {
  constexpr size_t kTogether = 4;  // queries per pass over what is scored
  const std::span<float> weights = scratch.make<float>(count);
  const std::span<float> scores = scratch.make<float>(std::min(kTogether, queries) * count);
  std::fill(weights.begin(), weights.end(), 0.0F);
  for (size_t first = 0; first < queries; first += kTogether) {
    const size_t n = std::min(kTogether, queries - first);
    score(first, n, scores.data());
    for (size_t i = 0; i < n; ++i) {
      const std::span<float> row = scores.subspan(i * count, count);
      const float sum = softmax(first + i, row);
      kernels.axpy(weights.data(), 1 / sum, row.data(), row.size());
    }
  }
  return weights;
}

// Adds a value of a segment to `sum`. scratch: [v dim].
void add_value(const kernels::Segment& segment, const std::byte* value, std::span<float> scratch,
               std::span<float> sum);

}  // namespace kvick::kv
