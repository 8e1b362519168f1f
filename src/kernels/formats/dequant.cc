#include <cstring>

#include "base/check.h"
#include "kernels/formats/block.h"
#include "kernels/formats/cache_row.h"
#include "kernels/formats/dtype.h"
#include "kernels/formats/kivi.h"
#include "kernels/formats/pack.h"

namespace kvick::kernels {
namespace {

template <typename T>
T load(const std::byte* in, size_t i) {
  T value;
  std::memcpy(&value, in + i * sizeof(T), sizeof(T));
  return value;
}

// Every product is exact in float32, so only the sum with a minimum rounds.
void group_to_f32(const PackFormat& format, const BlockGroup& group, float* out) {
  for (int i = 0; i < 32; ++i) {
    const int u = value_of(format, group.code[i]);
    out[i] = static_cast<float>(u - format.zero) * scale_of(format, group.d, group.scale[i / 16]);
    if (format.has_min) out[i] += f16_to_f32(group.m) * static_cast<float>(group.min[i / 16]);
  }
}

void static_codes(DType type, const float* in, size_t n, std::byte* out) {
  const auto limit = static_cast<float>(static_limit(type));
  const size_t bytes = type == DType::kStatic8 ? 1 : 2;
  for (size_t i = 0; i < n; ++i) {
    const float cut = in[i] > -limit ? std::min(in[i], limit) : -limit;
    const auto code = static_cast<int16_t>(std::nearbyint(cut));
    std::memcpy(out + i * bytes, &code, bytes);  // the low byte comes first
  }
}

}  // namespace

void to_f32(DType type, const std::byte* in, size_t n, float* out) {
  const DTypeInfo& info = dtype_info(type);
  KVICK_CHECK(n % info.block == 0, "{} elements of {}", n, info.name);
  switch (type) {
    case DType::kF32:
      if (n != 0) std::memcpy(out, in, n * sizeof(float));
      return;
    case DType::kF16:
      for (size_t i = 0; i < n; ++i) out[i] = f16_to_f32(load<uint16_t>(in, i));
      return;
    case DType::kBF16:
      for (size_t i = 0; i < n; ++i) out[i] = bf16_to_f32(load<uint16_t>(in, i));
      return;
    case DType::kStatic8:
      for (size_t i = 0; i < n; ++i) out[i] = load<int8_t>(in, i);
      return;
    case DType::kStatic16:
      for (size_t i = 0; i < n; ++i) out[i] = load<int16_t>(in, i);
      return;
    case DType::kQ8:
    case DType::kQ4:
    case DType::kQ3:
    case DType::kQ2:
      return cache_row_to_f32(type, in, n, out);
    case DType::kKivi4V:
      return kivi_row_to_f32(in, n, out);
    default:
      break;
  }
  KVICK_CHECK(rows_together(type) == 1, "one row of {}", info.name);
  const PackFormat& format = pack_format(type);
  const uint32_t groups = info.block / kGroup;
  for (size_t i = 0; i < n / kGroup; ++i) {
    BlockGroup group;
    read_group(type, in + i / groups * info.block_bytes, i % groups, group);
    group_to_f32(format, group, out + i * kGroup);
  }
}

void from_f32(DType type, const float* in, size_t n, std::byte* out) {
  const DTypeInfo& info = dtype_info(type);
  KVICK_CHECK(n % info.block == 0, "{} elements of {}", n, info.name);
  if (is_cache_code(type)) return cache_row_from_f32(type, in, n, out);
  if (type == DType::kKivi4V) return kivi_row_from_f32(in, n, out);
  KVICK_CHECK(info.block == 1, "{} cannot be written", info.name);
  if (type == DType::kF32) {
    if (n != 0) std::memcpy(out, in, n * sizeof(float));
    return;
  }
  if (is_static(type)) return static_codes(type, in, n, out);
  for (size_t i = 0; i < n; ++i) {
    const uint16_t half = type == DType::kF16 ? f32_to_f16(in[i]) : f32_to_bf16(in[i]);
    std::memcpy(out + i * sizeof half, &half, sizeof half);
  }
}

}  // namespace kvick::kernels
