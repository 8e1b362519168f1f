#include "kv/select/row_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace kvick::kv {
namespace {

// For quantised keys: only the attention kernels multiply with them directly, so each key is
// converted to floats first.
void dot_codes(const kernels::Table& kernels, const kernels::Segment& segment,
               std::span<const float> q, std::span<float> out) {
  std::vector<float> key(q.size());
  size_t i = 0;
  for (const kernels::Run& run : segment.runs)
    for (uint32_t r = 0; r < run.rows; ++r) {
      read_key(segment, segment.k + size_t{run.row + r} * segment.k_stride, key);
      kernels.dot_rows(kernels::DType::kF32, reinterpret_cast<const std::byte*>(key.data()), 0, 1,
                       q.data(), q.size(), &out[i++]);
    }
}

// x = cap * tanh(scale * x / cap)
void cap(const kernels::Table& kernels, std::span<float> x, float scale, float cap) {
  const float twice = 2 * scale / cap, most = twice * *std::max_element(x.begin(), x.end());
  // Uses the kernels' exp: tanh y = (exp(2 y) - 1) / (exp(2 y) + 1), numerator and denominator
  // divided by exp(most). For larger |most|, and for NaN, that would divide by 0.
  if (!(std::abs(most) < 40)) {
    for (float& e : x) e = cap * std::tanh(e * scale / cap);
    return;
  }
  const float one = std::exp(-most);
  kernels.exp_row(x.data(), x.size(), twice);
  for (float& e : x) e = cap * ((e - one) / (e + one));
}

}  // namespace

void dot_keys(const kernels::Table& kernels, const kernels::Segment& segment,
              std::span<const float> q, std::span<float> out) {
  if (kernels::dtype_info(segment.k_type).block > 1) return dot_codes(kernels, segment, q, out);
  size_t i = 0;
  for (const kernels::Run& run : segment.runs) {
    kernels.dot_rows(segment.k_type, segment.k + size_t{run.row} * segment.k_stride,
                     segment.k_stride, run.rows, q.data(), q.size(), out.data() + i);
    i += run.rows;
  }
  if (segment.k_scale != 1)
    for (float& x : out) x *= segment.k_scale;
}

float softmax_weights(const kernels::Table& kernels, std::span<float> dots, const LogitRule& rule) {
  float scale = rule.scale;
  if (rule.softcap != 0) {
    cap(kernels, dots, scale, rule.softcap);
    scale = 1;
  }
  if (rule.sink == nullptr) return kernels.exp_row(dots.data(), dots.size(), scale);
  const float most = scale * *std::max_element(dots.begin(), dots.end());
  return kernels.exp_row(dots.data(), dots.size(), scale) + std::exp(*rule.sink - most);
}

void add_value(const kernels::Segment& segment, const std::byte* value, std::span<float> scratch,
               std::span<float> sum) {
  kernels::to_f32(segment.v_type, value, scratch.size(), scratch.data());
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += scratch[i] * segment.v_scale;
}

}  // namespace kvick::kv
