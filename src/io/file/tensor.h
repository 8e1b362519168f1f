#pragma once
// One tensor of a model file: bytes of the mapped file, or rows that are converted as they are
// read.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/formats/dtype.h"

namespace kvick::io {

// Rows that are converted from other bytes on each call. So inspecting a model converts nothing,
// and loading one needs no memory besides its packed weights.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Writes rows first to first + count of the tensor, in its dtype, to `out`. Thread-safe.
  virtual void read(uint64_t first, uint64_t count, std::byte* out) const = 0;
  // Returns the bytes of files that the rows are made from.
  virtual std::vector<std::span<const std::byte>> parts() const = 0;
};

struct Tensor {
  std::string name;
  kernels::DType dtype{};
  std::vector<uint64_t> shape;      // outermost first: {rows, inputs}
  std::span<const std::byte> data;  // borrowed from the ModelFile; empty if there is a source
  std::shared_ptr<const RowSource> source = nullptr;  // also borrows from the ModelFile

  uint64_t elements() const {
    uint64_t n = 1;
    for (const uint64_t d : shape) n *= d;
    return n;
  }
  uint64_t bytes() const { return kernels::dtype_bytes(dtype, elements()); }
  // Elements of one row: the innermost dimension. Rows are counted over all other dimensions.
  uint64_t row_elements() const { return shape.empty() ? 1 : shape.back(); }
  uint64_t row_bytes() const { return kernels::dtype_bytes(dtype, row_elements()); }
  // Copies rows, or converts them if there is a source.
  void read_rows(uint64_t first, uint64_t count, std::byte* out) const;
  // Reads all elements, converted by kernels::to_f32.
  void read_floats(float* out) const;
};

}  // namespace kvick::io
