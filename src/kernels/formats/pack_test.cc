#include "kernels/formats/pack.h"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

#include "base/check.h"
#include "kernels/formats/block.h"
#include "kernels/formats/matrix.h"
#include "kernels/formats/test_blocks.h"

namespace kvick::kernels {
namespace {

uint32_t some_inputs(DType type) {
  return whole_blocks(type, dtype_info(type).block == 256 ? 768 : 96);
}

std::vector<std::byte> make_rows(DType type, uint32_t rows, uint32_t inputs, uint64_t seed) {
  return make_blocks(type, size_t{rows} * inputs / dtype_info(type).block, seed);
}

// Compares rows of the matrix with rows of a source that was packed to first_row.
void expect_rows(const Matrix& matrix, const std::vector<std::byte>& source, uint32_t first_row,
                 uint32_t rows) {
  const size_t row_bytes = dtype_bytes(matrix.dtype, matrix.inputs);
  std::vector<float> expected(matrix.inputs), got(matrix.inputs);
  for (uint32_t row = 0; row < rows; ++row) {
    to_f32(matrix.dtype, source.data() + row * row_bytes, matrix.inputs, expected.data());
    unpack_row(matrix, first_row + row, got.data());
    ASSERT_EQ(expected, got) << dtype_info(matrix.dtype).name << " row " << first_row + row;
  }
}

TEST(Pack, every_format_unpacks_to_what_the_file_holds) {
  for (const DType type : all_types()) {
    const uint32_t rows = 37, inputs = some_inputs(type);
    const auto source = make_rows(type, rows, inputs, 7);
    Matrix matrix = make_matrix(type, rows, inputs);
    pack_panels(matrix, source.data(), rows, 0, 0, 1);  // in two calls, as two threads would
    pack_panels(matrix, source.data(), rows, 0, 1, matrix.panels());
    expect_rows(matrix, source, 0, rows);
  }
}

TEST(Pack, stacked_tensors_keep_their_rows_and_are_padded_with_zeros) {
  for (const DType type : all_types()) {
    const uint32_t inputs = some_inputs(type);
    const auto q = make_rows(type, 40, inputs, 1), k = make_rows(type, 16, inputs, 2);
    const auto v = make_rows(type, 21, inputs, 3);
    Matrix matrix = make_matrix(type, 48 + 16 + 32, inputs);
    for (std::byte& byte : std::span(matrix.data.data(), matrix.data.size()))
      byte = std::byte{0x55};
    pack_panels(matrix, q.data(), 40, 0, 0, 3);
    pack_panels(matrix, k.data(), 16, 48, 3, 4);
    pack_panels(matrix, v.data(), 21, 64, 4, 6);
    expect_rows(matrix, q, 0, 40);
    expect_rows(matrix, k, 48, 16);
    expect_rows(matrix, v, 64, 21);
    std::vector<float> out(inputs);
    for (const uint32_t row : {40u, 47u, 85u, 95u}) {
      unpack_row(matrix, row, out.data());
      EXPECT_EQ(out, std::vector<float>(inputs, 0.0f)) << dtype_info(type).name << " row " << row;
    }
  }
}

// Returns the packed size, in bits per weight, of types that files compress further.
double bits_once_unpacked(DType type) {
  switch (type) {
    case DType::kIQ3_S:
    case DType::kIQ3_XXS:
      return 4.375;
    case DType::kIQ2_S:
    case DType::kIQ2_XS:
    case DType::kIQ1_M:
      return 3.625;
    case DType::kIQ2_XXS:
    case DType::kIQ1_S:
      return 3.375;
    case DType::kTQ1_0:
      return 2.125;
    default:
      return 0;
  }
}

TEST(Pack, packed_weights_take_at_most_six_percent_more_than_the_file) {
  for (const DType type : all_types()) {
    const Matrix matrix = make_matrix(type, 64, 4096);
    const auto bytes = static_cast<double>(matrix.data.size());
    if (bits_once_unpacked(type) != 0) {
      EXPECT_EQ(bytes, bits_once_unpacked(type) / 8 * 64 * 4096) << dtype_info(type).name;
      continue;
    }
    const auto file = static_cast<double>(dtype_bytes(type, 64 * 4096));
    EXPECT_LE(bytes, 1.06 * file) << dtype_info(type).name;
  }
}

TEST(Pack, every_group_of_a_panel_starts_on_a_cache_line) {
  for (const DType type : all_types()) {
    const PackFormat& f = pack_format(type);
    if (!f.quantised) continue;
    for (uint32_t g = 0; g < 24; ++g) EXPECT_EQ(block_offset(f, g) % kLine, 0u);
    EXPECT_EQ(header_bytes(f) % kLine, 0u);
    EXPECT_EQ(panel_bytes(f, 24), block_offset(f, 24));
  }
}

// Compares with the scales that read_group() reads, of blocks of any bytes.
TEST(Pack, scales_that_are_no_numbers_are_found_in_every_format) {
  for (const DType type : all_types()) {
    if (!pack_format(type).quantised) continue;
    const size_t bytes = dtype_info(type).block_bytes;
    std::vector<std::byte> block(bytes);
    uint64_t state = 1;
    size_t found = 0;
    for (int turn = 0; turn < 4000; ++turn) {
      for (std::byte& byte : block) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        byte = static_cast<std::byte>(state >> 56);
      }
      bool finite = true;
      for (uint32_t g = 0; g < dtype_info(type).block / kGroup; ++g) {
        BlockGroup group{};
        read_group(type, block.data(), g, group);
        for (const uint16_t half : {group.d, group.m})
          finite = finite && std::isfinite(f16_to_f32(half));
      }
      ASSERT_EQ(finite_scales(type, block.data(), 1), finite) << dtype_info(type).name;
      found += finite ? 0 : 1;
    }
    const bool bytes_only = type == DType::kMXFP4 || type == DType::kNVFP4;
    EXPECT_EQ(found == 0, bytes_only) << dtype_info(type).name;
    // One of several blocks.
    std::vector<std::byte> blocks = make_blocks(type, 9, 3);
    EXPECT_TRUE(finite_scales(type, blocks.data(), 9)) << dtype_info(type).name;
    for (const size_t field : half_fields(type)) {
      std::vector<std::byte> bad = blocks;
      bad[5 * bytes + field] = std::byte{0};
      bad[5 * bytes + field + 1] = std::byte{0xfc};  // minus infinity
      EXPECT_FALSE(finite_scales(type, bad.data(), 9)) << dtype_info(type).name;
      EXPECT_TRUE(finite_scales(type, bad.data(), 5)) << dtype_info(type).name;
    }
  }
}

TEST(Pack, shapes_that_do_not_fit_the_blocks_are_bugs) {
  EXPECT_THROW(make_matrix(DType::kF32, 16, 40), base::Bug);
  EXPECT_THROW(make_matrix(DType::kQ4_K, 16, 288), base::Bug);
  Matrix matrix = make_matrix(DType::kF32, 20, 32);
  std::vector<float> out(32);
  EXPECT_THROW(unpack_row(matrix, 20, out.data()), base::Bug);
  const auto* source = reinterpret_cast<const std::byte*>(out.data());
  EXPECT_THROW(pack_panels(matrix, source, 1, 0, 0, 3), base::Bug);
  EXPECT_THROW(pack_panels(matrix, source, 1, 8, 1, 2), base::Bug);
}

}  // namespace
}  // namespace kvick::kernels
