#pragma once
// The scales of a quantised matrix, one per block of outputs and inputs.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/result.h"
#include "io/safetensors/safetensors.h"

namespace kvick::io {

template <typename T>
T load(std::span<const std::byte> bytes, uint64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

struct MatrixSize {
  uint64_t outputs = 0, inputs = 0;
};

// Blocks have a row (along outputs) and a column (along inputs).
class ScaleGrid {
 public:
  // Accepts these shapes: [], [1] or [1][1]: one scale for all; [outputs] or [outputs][1]: one per
  // output; [a][b]: one per `block` (the last may be incomplete) or, if `block` is 0 or does not
  // fit, one for each of a x b equal parts. Error: another shape, or not floats.
  static base::Result<ScaleGrid> of(const StoredTensor& scales, MatrixSize size, MatrixSize block);
  // Accepts the shape [groups][outputs].
  static base::Result<ScaleGrid> transposed(const StoredTensor& scales, MatrixSize size);

  float at(uint64_t row, uint64_t column) const;
  const MatrixSize& block() const { return block_; }
  uint64_t rows() const { return rows_; }
  uint64_t columns() const { return columns_; }
  std::span<const std::byte> bytes() const { return data_; }

 private:
  std::span<const std::byte> data_;
  StoredType type_{};
  MatrixSize block_;
  uint64_t rows_ = 1, columns_ = 1;
  bool transposed_ = false;
};

// Returns "[2, 3]".
std::string shape_text(const StoredTensor& tensor);
bool has_shape(const StoredTensor& tensor, std::initializer_list<uint64_t> shape);

}  // namespace kvick::io
