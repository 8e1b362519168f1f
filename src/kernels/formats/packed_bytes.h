#pragma once
// The layout of packed matrices where it is written to files: its version and sizes
// (docs/adr/0040-packed-files.md).

#include <span>

#include "kernels/formats/matrix.h"

namespace kvick::kernels {

// Another number whenever pack_panels gives other bytes for any type: files of packed weights with
// another number are packed again. packed_bytes_test.cc fails if the bytes change and this does
// not.
inline constexpr uint32_t kPackedVersion = 1;

// Bytes of Matrix::data for such a matrix; what make_matrix demands of a shape holds here too.
size_t packed_bytes(DType type, uint32_t rows, uint32_t inputs);

// A matrix over bytes that pack_panels wrote earlier, or over none where only its shape matters.
// KVICK_CHECKs that they are none or packed_bytes. They outlive the matrix and are only read: where
// they are mapped read-only, writing to Matrix::data is a fault.
Matrix matrix_over(DType type, uint32_t rows, uint32_t inputs, std::span<const std::byte> data);

}  // namespace kvick::kernels
