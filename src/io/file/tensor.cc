#include "io/file/tensor.h"

#include <algorithm>

namespace kvick::io {

void Tensor::read_rows(uint64_t first, uint64_t count, std::byte* out) const {
  if (source != nullptr) return source->read(first, count, out);
  std::copy_n(data.data() + first * row_bytes(), count * row_bytes(), out);
}

void Tensor::read_floats(float* out) const {
  if (source == nullptr) return kernels::to_f32(dtype, data.data(), elements(), out);
  const uint64_t columns = row_elements(), rows = elements() / columns;
  std::vector<std::byte> row(row_bytes());
  for (uint64_t r = 0; r < rows; ++r) {
    source->read(r, 1, row.data());
    kernels::to_f32(dtype, row.data(), columns, out + r * columns);
  }
}

}  // namespace kvick::io
