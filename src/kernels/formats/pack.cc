#include "kernels/formats/pack.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/formats/block.h"
#include "kernels/formats/packed_bytes.h"

namespace kvick::kernels {
namespace {

using Codes = uint8_t[8][kLine];  // the codes of a group, as registers

void write_half(std::byte* out, uint32_t row, uint16_t half) {
  std::memcpy(out + row * sizeof half, &half, sizeof half);
}
uint16_t half_bits(const std::byte* in, uint32_t row) {
  uint16_t half;
  std::memcpy(&half, in + row * sizeof half, sizeof half);
  return half;
}
float read_half(const std::byte* in, uint32_t row) { return f16_to_f32(half_bits(in, row)); }

void put_codes(const BlockGroup& group, uint32_t row, Codes& codes) {
  for (int j = 0; j < 8; ++j) std::memcpy(codes[j] + 4 * row, group.code + 4 * j, 4);
}

// These write planes of the low 4 bits, of bits [shift, shift+2) and of bit `shift` of every code.
void write_plane4(const Codes& codes, uint8_t* out) {
  for (int j = 0; j < 4; ++j)
    for (size_t b = 0; b < kLine; ++b)
      out[j * kLine + b] = static_cast<uint8_t>((codes[j][b] & 15) | codes[j + 4][b] << 4);
}
void write_plane2(const Codes& codes, int shift, uint8_t* out) {
  for (int l = 0; l < 2; ++l)
    for (size_t b = 0; b < kLine; ++b) {
      unsigned bits = 0;
      for (int i = 0; i < 4; ++i) bits |= (codes[4 * l + i][b] >> shift & 3u) << 2 * i;
      out[l * kLine + b] = static_cast<uint8_t>(bits);
    }
}
void write_plane1(const Codes& codes, int shift, uint8_t* out) {
  for (size_t b = 0; b < kLine; ++b) {
    unsigned bits = 0;
    for (int j = 0; j < 8; ++j) bits |= (codes[j][b] >> shift & 1u) << j;
    out[b] = static_cast<uint8_t>(bits);
  }
}

void write_planes(const PackFormat& f, const Codes& codes, std::byte* out) {
  auto* planes = reinterpret_cast<uint8_t*>(out);
  switch (f.bits) {
    case 8:
      std::memcpy(planes, codes, sizeof(Codes));
      return;
    case 6:
      write_plane4(codes, planes);
      return write_plane2(codes, 4, planes + 4 * kLine);
    case 5:
      write_plane4(codes, planes);
      return write_plane1(codes, 4, planes + 4 * kLine);
    case 4:
      return write_plane4(codes, planes);
    case 3:
      write_plane2(codes, 0, planes);
      return write_plane1(codes, 2, planes + 2 * kLine);
    default:
      return write_plane2(codes, 0, planes);
  }
}

// Returns the code of input i of one row: the inverse of write_planes.
int read_code(const PackFormat& f, const std::byte* in, uint32_t row, uint32_t i) {
  const auto* planes = reinterpret_cast<const uint8_t*>(in);
  const uint32_t j = i / 4, b = 4 * row + i % 4;
  const auto plane4 = [&] { return planes[j % 4 * kLine + b] >> j / 4 * 4 & 15; };
  const auto plane2 = [&](size_t at) { return planes[at + j / 4 * kLine + b] >> j % 4 * 2 & 3; };
  const auto plane1 = [&](size_t at) { return planes[at + b] >> j & 1; };
  switch (f.bits) {
    case 8:
      return planes[j * kLine + b];
    case 6:
      return plane4() | plane2(4 * kLine) << 4;
    case 5:
      return plane4() | plane1(4 * kLine) << 4;
    case 4:
      return plane4();
    case 3:
      return plane2(0) | plane1(2 * kLine) << 2;
    default:
      return plane2(0);
  }
}

// Writes one row's scales to the header of its block; `group` counts within the block.
void write_scales(const PackFormat& f, const BlockGroup& in, uint32_t row, uint32_t group,
                  std::byte* block) {
  if (f.scales == ScaleKind::kHalves) {
    write_half(block + group * kHalfRow, row, in.d);
    if (f.has_min) write_half(block + kLine + group * kHalfRow, row, in.m);
    return;
  }
  if (has_super(f)) {
    write_half(block, row, in.d);
    write_half(block + kHalfRow, row, in.m);
  }
  if (f.scales == ScaleKind::kHalf256) return;
  auto* sub = reinterpret_cast<uint8_t*>(block + sub_offset(f, group)) + row;
  const auto byte = [](int value) { return static_cast<uint8_t>(value); };
  if (f.scale_group == 32) {
    sub[0] = byte(in.scale[0]);
    if (f.has_min) sub[kPanel] = byte(in.min[0]);
  } else {
    for (int h = 0; h < 2; ++h)
      sub[h * kPanel] = f.has_min ? byte(in.scale[h] | in.min[h] << 4) : byte(in.scale[h]);
  }
}

BlockGroup zero_group(const PackFormat& f) {
  BlockGroup group{};
  // Codes of a table stay 0: the table may have no value 0, but the scale is 0.
  for (uint8_t& code : group.code)
    code = f.codebook == nullptr ? static_cast<uint8_t>(f.zero) : uint8_t{0};
  return group;
}

// Rows of one panel in the file's layout; rows past `rows` are zero weights.
struct Source {
  const std::byte* first;
  size_t row_bytes;
  uint32_t rows;
};

void pack_quantised(DType type, uint32_t inputs, const Source& source, std::byte* panel) {
  const PackFormat& f = pack_format(type);
  const DTypeInfo& info = dtype_info(type);
  const uint32_t file_groups = info.block / kGroup;
  std::memset(panel, 0, panel_bytes(f, inputs / kGroup));
  for (uint32_t g = 0; g < inputs / kGroup; ++g) {
    std::byte* block = panel + block_offset(f, g);
    const uint32_t in_block = g % groups_per_block(f);
    Codes codes;
    for (uint32_t row = 0; row < kPanel; ++row) {
      BlockGroup group = zero_group(f);
      if (row < source.rows)
        read_group(type, source.first + row * source.row_bytes + g / file_groups * info.block_bytes,
                   g % file_groups, group);
      put_codes(group, row, codes);
      write_scales(f, group, row, in_block, block);
    }
    write_planes(f, codes, block + header_bytes(f) + in_block * plane_bytes(f));
  }
}

template <typename T>
void pack_floats(DType type, uint32_t inputs, const Source& source, std::byte* panel) {
  auto* out = reinterpret_cast<T*>(panel);
  for (uint32_t row = 0; row < kPanel; ++row)
    for (uint32_t i = 0; i < inputs; ++i) {
      T value{};
      if (row < source.rows)
        std::memcpy(&value, source.first + row * source.row_bytes + i * sizeof(T), sizeof(T));
      out[float_place(type, i, row)] = value;
    }
}

}  // namespace

RowScale read_scale(const PackFormat& f, const std::byte* block, uint32_t row, uint32_t group,
                    int h) {
  if (f.scales == ScaleKind::kHalves)
    return {scale_of(f, half_bits(block + group * kHalfRow, row), 1),
            f.has_min ? read_half(block + kLine + group * kHalfRow, row) : 0.0f};
  const uint16_t d = has_super(f) ? half_bits(block, row) : uint16_t{0};
  if (f.scales == ScaleKind::kHalf256) return {scale_of(f, d, 1), 0.0f};
  const auto* sub = reinterpret_cast<const int8_t*>(block + sub_offset(f, group)) + row;
  const int8_t first = sub[f.scale_group == 32 ? 0 : h * int{kPanel}];
  if (!f.has_min) return {scale_of(f, d, first), 0.0f};
  const float m = read_half(block + kHalfRow, row);
  if (f.scale_group == 32) return {scale_of(f, d, first), m * sub[kPanel]};
  return {scale_of(f, d, static_cast<int8_t>(first & 15)), m * static_cast<float>(first >> 4 & 15)};
}

const PackFormat& pack_format(DType type) { return kPackFormats[static_cast<size_t>(type)]; }

namespace {

// Returns a matrix of this shape, without memory.
Matrix shape_of(DType type, uint32_t rows, uint32_t inputs) {
  const DTypeInfo& info = dtype_info(type);
  KVICK_CHECK(inputs % kGroup == 0 && inputs % info.block == 0, "{} inputs of {}", inputs,
              info.name);
  const PackFormat& f = pack_format(type);
  Matrix matrix;
  matrix.dtype = type;
  matrix.rows = rows;
  matrix.inputs = inputs;
  matrix.panel_bytes =
      f.quantised ? panel_bytes(f, inputs / kGroup) : size_t{inputs} * kPanel * info.block_bytes;
  return matrix;
}

}  // namespace

size_t packed_bytes(DType type, uint32_t rows, uint32_t inputs) {
  const Matrix matrix = shape_of(type, rows, inputs);
  return matrix.panel_bytes * matrix.panels();
}

Matrix matrix_over(DType type, uint32_t rows, uint32_t inputs, std::span<const std::byte> data) {
  Matrix matrix = shape_of(type, rows, inputs);
  KVICK_CHECK(data.empty() || data.size() == matrix.panel_bytes * matrix.panels(),
              "{} bytes for {} panels of {}", data.size(), matrix.panels(), matrix.panel_bytes);
  matrix.data = {const_cast<std::byte*>(data.data()), data.size()};
  return matrix;
}

Matrix make_matrix(DType type, uint32_t rows, uint32_t inputs, base::Arena* arena) {
  Matrix matrix = shape_of(type, rows, inputs);
  const size_t bytes = matrix.panel_bytes * matrix.panels();
  if (arena != nullptr) {
    matrix.data = arena->make<std::byte>(bytes);
  } else {
    matrix.own = base::Buffer(bytes);
    matrix.data = {matrix.own.data(), bytes};
  }
  return matrix;
}

void pack_panels(Matrix& matrix, const std::byte* source, uint32_t source_rows, uint32_t first_row,
                 uint32_t begin, uint32_t end) {
  KVICK_CHECK(first_row % kPanel == 0 && begin * kPanel >= first_row && end <= matrix.panels(),
              "panels {} to {} of {}, first row {}", begin, end, matrix.panels(), first_row);
  const size_t row_bytes = dtype_bytes(matrix.dtype, matrix.inputs);
  for (uint32_t p = begin; p < end; ++p) {
    const uint32_t row = p * kPanel - first_row;
    const uint32_t rows = row < source_rows ? std::min(kPanel, source_rows - row) : 0;
    const Source part{rows == 0 ? source : source + row * row_bytes, row_bytes, rows};
    std::byte* panel = matrix.data.data() + p * matrix.panel_bytes;
    if (pack_format(matrix.dtype).quantised)
      pack_quantised(matrix.dtype, matrix.inputs, part, panel);
    else if (matrix.dtype == DType::kF32)
      pack_floats<float>(matrix.dtype, matrix.inputs, part, panel);
    else
      pack_floats<uint16_t>(matrix.dtype, matrix.inputs, part, panel);
  }
}

void unpack_row(const Matrix& matrix, uint32_t row, float* out) {
  KVICK_CHECK(row < matrix.rows, "row {} of {}", row, matrix.rows);
  const std::byte* panel = matrix.panel(row / kPanel);
  const uint32_t lane = row % kPanel;
  const PackFormat& f = pack_format(matrix.dtype);
  if (!f.quantised) {
    const uint32_t bytes = dtype_info(matrix.dtype).block_bytes;
    for (uint32_t i = 0; i < matrix.inputs; ++i)
      to_f32(matrix.dtype, panel + float_place(matrix.dtype, i, lane) * bytes, 1, out + i);
    return;
  }
  for (uint32_t i = 0; i < matrix.inputs; ++i) {
    const uint32_t g = i / kGroup, in_block = g % groups_per_block(f);
    const std::byte* block = panel + block_offset(f, g);
    const std::byte* planes = block + header_bytes(f) + in_block * plane_bytes(f);
    const RowScale s = read_scale(f, block, lane, in_block, static_cast<int>(i % kGroup / 16));
    const int u = value_of(f, read_code(f, planes, lane, i % kGroup));
    out[i] = static_cast<float>(u - f.zero) * s.scale;
    if (f.has_min) out[i] += s.min;
  }
}

}  // namespace kvick::kernels
