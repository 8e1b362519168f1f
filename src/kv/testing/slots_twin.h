#pragma once
// The definition of a memory of slots: token by token, in doubles.

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

#include "kv/testing/memory.h"

namespace kvick::kv::test {

using Doubles = std::vector<double>;

// Returns each slot's weight for a key or query `x`. head: counted over all layers.
inline Doubles softmax(const MadeSlots& made, size_t head, const float* x) {
  const uint32_t dim = made.shape.head_dim;
  Doubles weights(made.facts.slots);
  double sum = 0;
  for (size_t m = 0; m < weights.size(); ++m) {
    double dot = 0;
    for (uint32_t d = 0; d < dim; ++d)
      dot += double{x[d]} * made.keys[(head * weights.size() + m) * dim + d];
    sum += weights[m] = std::exp(dot * made.facts.scale);
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

// Writes a token into the values of one head: [slots][head_dim].
inline void write_head(const MadeSlots& made, size_t head, const float* k, const float* v,
                       double gate, double* values) {
  const uint32_t dim = made.shape.head_dim;
  const Doubles weights = softmax(made, head, k);
  for (uint32_t i = 0; i < weights.size() * dim; ++i)
    values[i] = gate * values[i] + weights[i / dim] * v[i % dim];
}

// Appends what the token's query then reads to `out`: head_dim numbers.
inline void read_head(const MadeSlots& made, size_t head, const float* q, const double* values,
                      Doubles& out) {
  const uint32_t dim = made.shape.head_dim;
  const Doubles weights = softmax(made, head, q);
  for (uint32_t d = 0; d < dim; ++d) {
    out.push_back(0);
    for (size_t m = 0; m < weights.size(); ++m) out.back() += weights[m] * values[m * dim + d];
  }
}

// Returns element i of a fresh row's query.
inline float query_value(Row row, uint32_t layer, uint32_t head, uint32_t i) {
  return value_of(row, layer, head, true, 1000 + i) / 4;
}

// Returns what the last `fresh` rows read in a layer: [fresh][kv_heads][head_dim].
inline Doubles naive_reads(const MadeSlots& made, uint32_t layer, const Rows& rows,
                           uint32_t fresh) {
  const uint32_t heads = made.shape.kv_heads, dim = made.shape.head_dim;
  const size_t head_values = size_t{made.facts.slots} * dim;
  const auto initial = made.initial.begin() + static_cast<ptrdiff_t>(layer * heads * head_values);
  Doubles values(initial, initial + static_cast<ptrdiff_t>(heads * head_values)), out;
  std::vector<float> k(dim), v(dim), q(dim);
  for (size_t r = 0; r < rows.size(); ++r)
    for (uint32_t head = 0; head < heads; ++head) {
      for (uint32_t i = 0; i < dim; ++i) {
        k[i] = value_of(rows[r], layer, head, false, i);
        v[i] = value_of(rows[r], layer, head, true, i);
        q[i] = query_value(rows[r], layer, head, i);
      }
      const size_t at = size_t{layer} * heads + head;
      double* const mine = values.data() + head * head_values;
      write_head(made, at, k.data(), v.data(), 1, mine);
      if (r + fresh >= rows.size()) read_head(made, at, q.data(), mine, out);
    }
  return out;
}

// Returns what all fresh rows of a step read in a layer: [sum of fresh][kv_heads][head_dim].
inline std::vector<float> read_layer(Step& step, const Shape& shape, const Rows& fresh,
                                     uint32_t layer) {
  std::vector<float> q;
  for (const Row row : fresh)
    for (uint32_t head = 0; head < shape.kv_heads; ++head)
      for (uint32_t i = 0; i < shape.head_dim; ++i) q.push_back(query_value(row, layer, head, i));
  std::vector<float> out(q.size(), std::nanf(""));
  step.facets().slots->read(layer, {.group = 1, .q = q.data(), .out = out.data(), .paths = {}});
  return out;
}

}  // namespace kvick::kv::test
