#pragma once
// The layout of packed matrices where it is written to files: its version and sizes
// (docs/adr/0040-packed-files.md).

#include <span>

#include "kernels/formats/matrix.h"

namespace kvick::kernels {

// Raise this whenever pack_panels writes other bytes for any type: packed files with another number
// are packed again. packed_bytes_test.cc fails if the bytes change and this does not.
inline constexpr uint32_t kPackedVersion = 1;

// Returns the bytes of Matrix::data for this shape, which must meet the conditions of make_matrix.
size_t packed_bytes(DType type, uint32_t rows, uint32_t inputs);

// Returns a matrix over bytes that pack_panels wrote earlier, or over no bytes where only its shape
// matters. KVICK_CHECKs that there are 0 or packed_bytes() of them. They must outlive the matrix
// and are only read: where they are mapped read-only, writing to Matrix::data is a fault.
Matrix matrix_over(DType type, uint32_t rows, uint32_t inputs, std::span<const std::byte> data);

}  // namespace kvick::kernels
