#pragma once
// A low-rank adapter (LoRA, Hu et al. 2021): a term added to a model's linear layers for the tokens
// that use the adapter, y += scale * B (A x) (docs/adr/0050-adapters-at-run-time.md).

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/memory.h"
#include "base/result.h"
#include "io/adapter/adapter_file.h"

namespace kvick::model {

class Model;

// The adapter of one linear layer. Elements are float16. They are scaled by a power of two, so that
// of the file's values (usually BF16 or F16) only those of at most 2^-29 of the largest lose bits.
struct LowRank {
  // B is cut into pieces of kPiece outputs, stored one after the other. A piece has few outputs, so
  // its memory is read from front to back.
  static constexpr uint32_t kPiece = 64;

  uint32_t rank = 0, inputs = 0, outputs = 0;
  float factor = 1;       // factor of B (A x): the file's factor times the inverse of the scaling
  std::span<uint16_t> a;  // [rank][inputs]
  std::span<uint16_t> b;  // [pieces][rank][outputs of the piece]

  uint32_t pieces() const { return (outputs + kPiece - 1) / kPiece; }
  uint32_t outputs_of(uint32_t piece) const { return std::min(kPiece, outputs - piece * kPiece); }
  uint16_t* piece(uint32_t i) const { return b.data() + size_t{i} * kPiece * rank; }
};

// Immutable: any number of threads and sequences may use it.
class Adapter {
 public:
  // Converts the matrices of an adapter file, which is not needed afterwards. Errors: the model
  // runs in several processes, the adapter is for another architecture, a matrix is not in the
  // model or is of a kind that kvick does not adapt, or a shape does not fit.
  static base::Result<Adapter> read(const io::AdapterFile& file, const Model& model);

  // Returns the matrices for the linear layer whose weights are the tensor of this name, or null if
  // the adapter does not change that layer.
  const LowRank* find(std::string_view tensor) const;
  uint64_t bytes() const;  // memory of all matrices

 private:
  // Hashes strings and views of them alike, so that find() allocates nothing.
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  base::Arena memory_;
  std::unordered_map<std::string, LowRank, Hash, std::equal_to<>> layers_;
};

}  // namespace kvick::model
