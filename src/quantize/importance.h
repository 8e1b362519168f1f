#pragma once
// How large the inputs of each linear layer are: the mean square of each column's activation over a
// text, which says how much an error of that column's weights counts. In files of the form
// that llama-imatrix writes:
//
//   general.type = "imatrix"; imatrix.datasets (strings), imatrix.chunk_count, imatrix.chunk_size;
//   of each tensor NAME: NAME.in_sum2 [matrices][inputs], sums of squares, and NAME.counts
//   [matrices][1], tokens; matrices: 1, or the experts. All F32.
//
// Files of llama-imatrix's older form (importance_dat.h) are read too.

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
    bool one_count = false;      // tokens has one number for all matrices
  };
  std::map<std::string, Sums, std::less<>> tensors;  // by the whole name: "blk.0.attn_q.weight"
  std::string text;                                  // the name of what was read
  uint32_t chunks = 0, chunk_tokens = 0;

  // Mean squares of the inputs of one matrix of a tensor; empty if unknown, for example because no
  // token went through that expert.
  std::vector<float> means(std::string_view tensor, uint64_t matrix, uint64_t inputs) const;
};

// Of either form. Error: neither, or a file that cannot be read.
base::Result<Importance> read_importance(const std::string& path);
// The file appears whole or not at all.
base::Status<> write_importance(const Importance& importance, const std::string& path);

}  // namespace kvick::quantize
