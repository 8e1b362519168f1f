#pragma once
// The importance of weights: for each linear layer, the mean square of each input's activations
// over a text. It determines how much an error in that column's weights matters. Files have
// llama-imatrix's form:
//
//   general.type = "imatrix"; imatrix.datasets (strings), imatrix.chunk_count, imatrix.chunk_size;
//   for each tensor NAME: NAME.in_sum2 [matrices][inputs], sums of squares, and NAME.counts
//   [matrices][1], tokens; matrices: 1, or the number of experts. All F32.
//
// Files of llama-imatrix's older form (importance_dat.h) can be read too.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::quantize {

struct Importance {
  struct Sums {
    std::vector<float> squares;  // [matrices][inputs]
    std::vector<float> tokens;   // [matrices]
    bool one_count = false;      // tokens has a single number for all matrices
  };
  std::map<std::string, Sums, std::less<>> tensors;  // by tensor name: "blk.0.attn_q.weight"
  std::string text;                                  // name of the text that was read
  uint32_t chunks = 0, chunk_tokens = 0;

  // Returns the mean squares of the inputs of one matrix of a tensor. Empty if unknown, for example
  // because no token was routed to that expert.
  std::vector<float> means(std::string_view tensor, uint64_t matrix, uint64_t inputs) const;
};

// Reads a file of either form. Error: it has neither form or cannot be read.
base::Result<Importance> read_importance(const std::string& path);
// Writes a file, which appears complete or not at all.
base::Status<> write_importance(const Importance& importance, const std::string& path);

}  // namespace kvick::quantize
