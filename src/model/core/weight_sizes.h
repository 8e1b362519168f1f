#pragma once
// Bytes and multiply-adds of a model's weights, for the roofline and the planner.

#include <cstdint>

namespace kvick::model {

// A part of the weights: the cost of reading it and of multiplying one token by it.
struct WeightPart {
  uint64_t bytes = 0;  // in memory, packed, including biases and norms
  // Number of weights of linear layers by type; each is one multiply-add per token. int8: quantised
  // types; half: F16 and BF16, except those that kernels::Table::matmul_rounded takes, which are
  // bf16. In the arithmetic of answers, activations are 8-bit integers for int8, bfloat16 for bf16,
  // and float32 for the others. In that of prompts (Role) they are bfloat16 for all but f32.
  uint64_t int8 = 0, half = 0, bf16 = 0, f32 = 0;
};
struct Weights {
  WeightPart layers;  // read by every forward, once for all tokens of its batch
  // All experts of mixtures. A forward reads only those that its tokens chose; each token uses
  // `experts_used` of the `expert_count` experts.
  WeightPart experts;
  uint32_t expert_count = 0, experts_used = 0;
  WeightPart
      output;  // the output layer: read by a forward that wants logits, multiplied for those tokens
  // Bytes of one token's rows of the embedding tables, in the file's format. They are looked up,
  // not multiplied. The parts above include a table only if it is also the output layer.
  uint64_t lookup_bytes = 0;
  // Bytes of the keys of slots in memory, packed. Attention reads them for each sequence, so
  // kv::Cost counts them and the parts above do not.
  uint64_t key_bytes = 0;
};

}  // namespace kvick::model
