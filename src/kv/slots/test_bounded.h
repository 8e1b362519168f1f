#pragma once
// The definition of a memory of slots, token by token in doubles. A number stands for each token.

#include <cmath>
#include <random>
#include <vector>

#include "kv/testing/slots_twin.h"

namespace kvick::kv::test {

inline constexpr uint32_t kSlotGroup = 3;
inline constexpr Shape kSlotShape = {.layers = 2,
                                     .kv_heads = 2,
                                     .head_dim = 20,
                                     .max_tokens = 300,
                                     .k_type = kernels::DType::kF32,
                                     .v_type = kernels::DType::kF32};

using Floats = std::vector<float>;
using Path = std::vector<uint32_t>;

// The inputs of one token in all layers: k, v [layers][kv_heads][head_dim], q
// [layers][kv_heads][group][head_dim], gates [layers][kv_heads] for tests with gates.
struct Input {
  Floats k, v, q, gates;
};

inline Input make_input(uint32_t number) {
  std::mt19937 random(number);
  std::normal_distribution<float> normal;
  const auto floats = [&](size_t n) {
    Floats made(n);
    for (float& x : made) x = normal(random);
    return made;
  };
  const size_t heads = size_t{kSlotShape.layers} * kSlotShape.kv_heads,
               n = heads * kSlotShape.head_dim;
  Input made = {floats(n), floats(n), floats(n * kSlotGroup), floats(heads)};
  for (float& gate : made.gates) gate = 1 / (1 + std::exp(-2 - gate));
  return made;
}

// The definition, for all layers and heads.
inline void write_naive(const MadeSlots& made, const Input& in, Doubles& values, bool gated) {
  const uint32_t dim = kSlotShape.head_dim;
  for (size_t head = 0; head < size_t{kSlotShape.layers} * kSlotShape.kv_heads; ++head)
    write_head(made, head, &in.k[head * dim], &in.v[head * dim], gated ? in.gates[head] : 1,
               values.data() + head * made.facts.slots * dim);
}

inline Doubles read_naive(const MadeSlots& made, const Input& in, const Doubles& values) {
  const uint32_t dim = kSlotShape.head_dim;
  Doubles out;
  for (size_t at = 0; at < size_t{kSlotShape.layers} * kSlotShape.kv_heads * kSlotGroup; ++at)
    read_head(made, at / kSlotGroup, &in.q[at * dim],
              values.data() + at / kSlotGroup * made.facts.slots * dim, out);
  return out;
}

inline Doubles naive(const MadeSlots& made, const Input& in, Doubles& values, bool gated) {
  write_naive(made, in, values, gated);
  return read_naive(made, in, values);
}

// Returns what the last of these tokens reads.
inline Doubles naive(const MadeSlots& made, const std::vector<uint32_t>& tokens, bool gated) {
  Doubles values(made.initial.begin(), made.initial.end());
  for (const uint32_t token : tokens) write_naive(made, make_input(token), values, gated);
  return read_naive(made, make_input(tokens.back()), values);
}

inline std::vector<uint32_t> numbers(uint32_t first, uint32_t count) {
  std::vector<uint32_t> made(count);
  for (uint32_t i = 0; i < count; ++i) made[i] = first + i;
  return made;
}

}  // namespace kvick::kv::test
