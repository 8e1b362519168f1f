#pragma once
// Reads experts that a folder keeps in one tensor, in an order other than kvick's
// [experts][outputs][inputs].

#include <string>
#include <utility>

#include "base/result.h"
#include "io/file/tensor.h"
#include "io/safetensors/safetensors.h"

namespace kvick::io {

// How the outputs of gate and up are stored in one tensor.
enum class GateUp : uint8_t {
  kNone,         // in separate tensors
  kInterleaved,  // gate has the even outputs, up the odd ones (gpt-oss)
  kHalves,       // gate has the first half (Llama 4)
};

// Every `step`-th output, from `first` on.
struct Outputs {
  uint64_t first = 0, step = 1, count = 0;
};
// Returns the outputs of gate and of up. Error: their number is odd.
base::Result<std::pair<Outputs, Outputs>> split_gate_up(GateUp gate_up, uint64_t outputs,
                                                        const std::string& label);

// Returns MXFP4 [experts][count][groups * 32], of blocks U8 [experts][outputs][groups][16] and
// scales U8 [experts][outputs][groups] (format: mxfp4_blocks.h).
base::Result<Tensor> mxfp4_experts(const std::string& name, const StoredTensor& blocks,
                                   const StoredTensor& scales, Outputs outputs);
// Returns [experts][count][inputs] of floats [experts][inputs][outputs].
base::Result<Tensor> turned_experts(const std::string& name, const StoredTensor& stored,
                                    Outputs outputs);
// Returns [experts][count] of floats [experts][outputs].
base::Result<Tensor> expert_biases(const std::string& name, const StoredTensor& stored,
                                   Outputs outputs);

}  // namespace kvick::io
