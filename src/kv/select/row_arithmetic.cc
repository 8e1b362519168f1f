#include "kv/select/row_arithmetic.h"

#include <vector>

namespace kvick::kv {
namespace {

// Keys of codes, which no kernel multiplies as they lie but in attention.
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

void add_value(const kernels::Segment& segment, const std::byte* value, std::span<float> scratch,
               std::span<float> sum) {
  kernels::to_f32(segment.v_type, value, scratch.size(), scratch.data());
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += scratch[i] * segment.v_scale;
}

}  // namespace kvick::kv
