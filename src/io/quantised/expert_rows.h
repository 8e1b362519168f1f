#pragma once
// Experts that a folder keeps in one tensor in another order than kvick's [experts][outputs]
// [inputs].

#include <string>
#include <utility>

#include "base/result.h"
#include "io/file/tensor.h"
#include "io/safetensors/safetensors.h"

namespace kvick::io {

// How the outputs of gate and up share one tensor.
enum class GateUp : uint8_t {
  kNone,         // they do not
  kInterleaved,  // gate's are the even ones (gpt-oss)
  kHalves,       // gate's are the first half (Llama 4)
};

// Every `step`-th output beginning at `first`.
struct Outputs {
  uint64_t first = 0, step = 1, count = 0;
};
// Error: the number is odd.
base::Result<std::pair<Outputs, Outputs>> split_gate_up(GateUp gate_up, uint64_t outputs,
                                                        const std::string& label);

// blocks U8 [experts][outputs][groups][16] and scales U8 [experts][outputs][groups], as
// mxfp4_blocks .h has them: MXFP4 [experts][count][groups * 32].
base::Result<Tensor> mxfp4_experts(const std::string& name, const StoredTensor& blocks,
                                   const StoredTensor& scales, Outputs outputs);
// Floats [experts][inputs][outputs]: [experts][count][inputs].
base::Result<Tensor> turned_experts(const std::string& name, const StoredTensor& stored,
                                    Outputs outputs);
// Floats [experts][outputs]: [experts][count].
base::Result<Tensor> expert_biases(const std::string& name, const StoredTensor& stored,
                                   Outputs outputs);

}  // namespace kvick::io
