#pragma once
// How many bytes and multiply-adds a model's weights are: what the roofline and the plan count.

#include <cstdint>

namespace kvick::model {

// A part of the weights: the cost of reading it and of multiplying one token by it.
struct WeightPart {
  uint64_t bytes = 0;  // in memory, as packed, with biases and norms
  // Weights of linear layers by their type, each one multiply-add a token: int8 are those of
  // quantised types, half of F16 and BF16, but those that kernels::Table::matmul_rounded takes are
  // bf16. By the arithmetic of answers, int8 meet activations of 8 bits, bf16 those of bfloat16,
  // the others float32; by that of prompts (Role), all but f32 meet bfloat16.
  uint64_t int8 = 0, half = 0, bf16 = 0, f32 = 0;
};
struct Weights {
  WeightPart layers;  // what every forward reads, once for all tokens of its batch
  // All experts of mixtures. A forward reads only those that its tokens chose; each token uses
  // `experts_used` of the `expert_count`.
  WeightPart experts;
  uint32_t expert_count = 0, experts_used = 0;
  WeightPart output;  // the output layer: read by a forward that wants logits, for these tokens
  // A token's rows of the embedding tables, in the file's format, which are looked up, not
  // multiplied. A table is in the parts above only if it is the output layer too.
  uint64_t lookup_bytes = 0;
  // Keys of a memory of slots, in memory as packed. Attention reads them for each sequence, so
  // kv::Cost counts that and the parts above do not.
  uint64_t key_bytes = 0;
};

}  // namespace kvick::model
