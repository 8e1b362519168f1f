#pragma once
// Integers of 4 or 8 bits, packed into words of 32 bits in the layouts of several quantisers.

#include <cstdint>
#include <span>

#include "base/result.h"
#include "io/quantised/scale_grid.h"
#include "io/safetensors/safetensors.h"

namespace kvick::io {

// The layout of integers by row (output) and column (an input, or a group of inputs).
enum class Packing : uint8_t {
  kColumns,       // words [columns / n][rows]: n neighbouring columns of a row share a word (GPTQ)
  kRows,          // words [columns][rows / n]: n neighbouring rows of a column (GPTQ's zero points)
  kInterleaved,   // like kRows, but the eight codes of a word are rows 0, 2, 4, 6, 1, 3, 5, 7 (AWQ)
  kRowMajor,      // words [rows][columns / n] (compressed-tensors)
  kRowMajorRows,  // words [rows / n][columns] (zero points of compressed-tensors)
  kSigned,        // bytes [rows][columns] in two's complement
};

class IntegerCodes {
 public:
  // Codes that are all equal, for values that symmetric quantisers do not store.
  static IntegerCodes constant(uint32_t code);
  // Error: type or shape of `words` do not fit this packing of rows x columns.
  static base::Result<IntegerCodes> of(const StoredTensor& words, Packing packing, uint32_t bits,
                                       MatrixSize size);

  // Returns a code, 0 to 2^bits - 1; for kSigned, the number plus 128.
  uint32_t at(uint64_t row, uint64_t column) const;
  // Writes the codes of `count` rows to out, [count][columns].
  void read(uint64_t first, uint64_t count, uint8_t* out) const;
  // Returns whether all codes equal this one. Stops at the first other code.
  bool all_are(uint32_t code) const;
  // Empty if the codes are constant.
  std::span<const std::byte> bytes() const { return data_; }

 private:
  struct Place {
    uint64_t word;
    uint32_t shift;
  };
  Place place(uint64_t row, uint64_t column) const;
  void read_columns(uint64_t first, uint64_t count, uint8_t* out) const;
  void read_tile(MatrixSize from, MatrixSize size, uint8_t* out) const;

  std::span<const std::byte> data_;
  Packing packing_ = Packing::kSigned;
  uint32_t bits_ = 8, mask_ = 255;
  uint32_t shift_ = 2;   // a word holds 2^shift_ integers
  uint64_t stride_ = 0;  // words (kSigned: bytes) in the tensor's inner dimension
  uint32_t constant_ = 0;
  MatrixSize size_;
};

}  // namespace kvick::io
