// The linear layers in plain C++: the reference for all others, and the fallback without AVX2.

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/linear/matmul.h"
#include "kernels/table/linear.h"

namespace kvick::kernels {
namespace {

void quantise_group(const float* x, const GroupPlace& out) {
  uint32_t bits = 0;  // bits of max|x|, compared as integers so that NaN wins
  for (uint32_t i = 0; i < kGroup; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu;
    bits = magnitude > bits ? magnitude : bits;
  }
  const float max = std::bit_cast<float>(bits);
  const bool finite = bits < 0x7f800000u, zero = !finite || max < kTinyActivation;
  const float inverse = zero ? 0.0f : 127.0f / max;
  *out.scale = !finite ? std::numeric_limits<float>::quiet_NaN() : zero ? 0.0f : max / 127.0f;
  for (int h = 0; h < 2; ++h) {
    int32_t sum = 0;
    for (uint32_t i = h * 16; i < h * 16 + 16u; ++i) {
      const auto q = zero ? int8_t{0} : static_cast<int8_t>(std::nearbyint(x[i] * inverse));
      out.q[i] = q;
      sum += q;
    }
    *out.sums[h] = sum;
  }
}

void quantise(Activations& a, Range tokens, Range groups) {
  for (uint32_t t = tokens.begin; t < tokens.end; ++t) {
    const TokenPlace place = token_place(a.tokens, t);
    for (uint32_t g = groups.begin; g < groups.end; ++g)
      quantise_group(a.x + size_t{t} * a.inputs + size_t{g} * kGroup, group_place(a, place, g));
  }
}

void plane4(const uint8_t* in, uint8_t* u) {
  for (size_t b = 0; b < 4 * kLine; ++b) {
    u[b] = in[b] & 15;
    u[b + 4 * kLine] = in[b] >> 4;
  }
}
void add_plane2(const uint8_t* in, int shift, uint8_t* u) {
  for (size_t j = 0; j < 8; ++j)
    for (size_t b = 0; b < kLine; ++b)
      u[j * kLine + b] |= static_cast<uint8_t>((in[j / 4 * kLine + b] >> j % 4 * 2 & 3) << shift);
}
void add_plane1(const uint8_t* in, int shift, uint8_t* u) {
  for (size_t j = 0; j < 8; ++j)
    for (size_t b = 0; b < kLine; ++b)
      u[j * kLine + b] |= static_cast<uint8_t>((in[b] >> j & 1) << shift);
}

// Unpacks the stored codes of one group, [8][64].
void unpack_codes(const PackFormat& f, const std::byte* in, uint8_t* u) {
  const auto* planes = reinterpret_cast<const uint8_t*>(in);
  if (f.bits == 8) {
    for (size_t b = 0; b < 8 * kLine; ++b) u[b] = planes[b];
    return;
  }
  if (f.bits >= 4) {
    plane4(planes, u);
    if (f.bits == 5) add_plane1(planes + 4 * kLine, 4, u);
    if (f.bits == 6) add_plane2(planes + 4 * kLine, 4, u);
    return;
  }
  for (size_t b = 0; b < 8 * kLine; ++b) u[b] = 0;
  add_plane2(planes, 0, u);
  if (f.bits == 3) add_plane1(planes + 2 * kLine, 2, u);
}

// Unpacks the values u of one group, [8][64].
void unpack_values(const PackFormat& f, const std::byte* in, uint8_t* u) {
  unpack_codes(f, in, u);
  if (f.codebook == nullptr) return;
  for (size_t b = 0; b < 8 * kLine; ++b) u[b] = f.codebook->u[u[b]];
}

struct Scales {
  float scale[2][kPanel], min[2][kPanel];  // by half of the group
};

void unpack_scales(const PackFormat& f, const std::byte* block, uint32_t group, Scales& out) {
  for (uint32_t row = 0; row < kPanel; ++row)
    for (int h = 0; h < 2; ++h) {
      const RowScale s = read_scale(f, block, row, group, h);
      out.scale[h][row] = s.scale;
      out.min[h][row] = s.min;
    }
}

// acc += one group's weights times one token, for 16 rows.
void add_group(const PackFormat& f, const uint8_t* u, const Scales& scales, const int8_t* q,
               float scale, const int32_t sums[2], float* acc) {
  int32_t dot[2][kPanel];
  for (int h = 0; h < 2; ++h)
    for (uint32_t row = 0; row < kPanel; ++row) {
      dot[h][row] = -f.zero * sums[h];
      for (int i = 0; i < 16; ++i)
        dot[h][row] += u[(4 * h + i / 4) * kLine + 4 * row + i % 4] * q[16 * h + i];
    }
  const int parts = f.scale_group == 32 ? 1 : 2;
  for (int h = 0; h < parts; ++h)
    for (uint32_t row = 0; row < kPanel; ++row) {
      const int32_t value = parts == 1 ? dot[0][row] + dot[1][row] : dot[h][row];
      const int32_t sum = parts == 1 ? sums[0] + sums[1] : sums[h];
      acc[row] += static_cast<float>(value) * (scales.scale[h][row] * scale);
      if (f.has_min) acc[row] += scales.min[h][row] * (scale * static_cast<float>(sum));
    }
}

void quantised_panel(const PackFormat& f, const PanelJob& job) {
  float acc[kTokenTile][kPanel] = {};
  for (uint32_t g = 0; g < job.inputs / kGroup; ++g) {
    const std::byte* block = job.panel + block_offset(f, g);
    const uint32_t in_block = g % groups_per_block(f);
    uint8_t u[8 * kLine];
    unpack_values(f, block + header_bytes(f) + in_block * plane_bytes(f), u);
    Scales scales;
    unpack_scales(f, block, in_block, scales);
    const size_t first = size_t{g} * job.tile_tokens;
    for (uint32_t t = 0; t < job.tokens; ++t) {
      const int32_t sums[2] = {job.sums[2 * first + t], job.sums[2 * first + job.tile_tokens + t]};
      add_group(f, u, scales, job.q + (first + t) * kGroup, job.scale[first + t], sums, acc[t]);
    }
  }
  for (uint32_t t = 0; t < job.tokens; ++t)
    for (uint32_t row = 0; row < job.rows; ++row) job.y[t * job.y_stride + row] = acc[t][row];
}

float widen(DType type, const std::byte* panel, size_t i) {
  switch (type) {
    case DType::kF16:
      return f16_to_f32(reinterpret_cast<const uint16_t*>(panel)[i]);
    case DType::kBF16:
      return bf16_to_f32(reinterpret_cast<const uint16_t*>(panel)[i]);
    default:
      return reinterpret_cast<const float*>(panel)[i];
  }
}

void float_panel(DType type, const PanelJob& job) {
  float acc[kTokenTile][kPanel] = {};
  for (uint32_t i = 0; i < job.inputs; ++i)
    for (uint32_t row = 0; row < kPanel; ++row) {
      const float w = widen(type, job.panel, float_place(type, i, row));
      for (uint32_t t = 0; t < job.tokens; ++t)
        acc[t][row] += w * job.x[size_t{t} * job.inputs + i];
    }
  for (uint32_t t = 0; t < job.tokens; ++t)
    for (uint32_t row = 0; row < job.rows; ++row) job.y[t * job.y_stride + row] = acc[t][row];
}

template <DType kType>
void panel(const PanelJob& job) {
  if constexpr (kPackFormats[static_cast<size_t>(kType)].quantised)
    quantised_panel(kPackFormats[static_cast<size_t>(kType)], job);
  else
    float_panel(kType, job);
}

template <size_t... kType>
PanelFunctions make_functions(std::index_sequence<kType...>) {
  PanelFunctions functions{};
  for (uint32_t n = 0; n < kTokenTile; ++n)
    ((functions.of[kType][n] = panel<static_cast<DType>(kType)>), ...);
  return functions;
}

void matmul(const Matrix& w, const Activations& a, float* y, size_t y_stride, uint32_t begin,
            uint32_t end) {
  static const PanelFunctions kFunctions = make_functions(std::make_index_sequence<kWeightTypes>());
  run_matmul(kFunctions, w, a, y, y_stride, begin, end);
}

}  // namespace

void fill_linear_scalar(Table& table) {
  table.quantise = quantise;
  table.matmul = matmul;
}

}  // namespace kvick::kernels
