#pragma once
// A low-rank adapter (LoRA, Hu et al. 2021): what is added to a model's linear layers for the
// tokens that ask for it, y += scale * B (A x) (docs/adr/0050-adapters-at-run-time.md).

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

// The adapter of one linear layer. Elements are float16, scaled so that of the file's values
// (usually BF16 or F16) only those of 2^-29 of the largest one or less are lost.
struct LowRank {
  // B is cut into pieces of kPiece outputs, stored one after the other: few outputs, so that memory
  // is read from front to back.
  static constexpr uint32_t kPiece = 64;

  uint32_t rank = 0, inputs = 0, outputs = 0;
  float factor = 1;       // factor of B (A x): the file's, times what undoes the scaling
  std::span<uint16_t> a;  // [rank][inputs]
  std::span<uint16_t> b;  // [pieces][rank][outputs of the piece]

  uint32_t pieces() const { return (outputs + kPiece - 1) / kPiece; }
  uint32_t outputs_of(uint32_t piece) const { return std::min(kPiece, outputs - piece * kPiece); }
  uint16_t* piece(uint32_t i) const { return b.data() + size_t{i} * kPiece * rank; }
};

// Immutable; any number of threads and sequences use it.
class Adapter {
 public:
  // Errors: a model in several processes, another architecture, a matrix that the model lacks or
  // that kvick does not adapt, a shape that does not fit. The file is not needed afterwards.
  static base::Result<Adapter> read(const io::AdapterFile& file, const Model& model);

  // The matrices for the linear layer whose weights are the tensor of this name; null: the adapter
  // does not change that layer.
  const LowRank* find(std::string_view tensor) const;
  uint64_t bytes() const;  // bytes of memory that it takes

 private:
  // Of strings and of views of them.
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  base::Arena memory_;
  std::unordered_map<std::string, LowRank, Hash, std::equal_to<>> layers_;
};

}  // namespace kvick::model
