#include "kernels/formats/dtype.h"

#include <array>
#include <bit>
#include <cctype>

namespace kvick::kernels {
namespace {

constexpr std::array<DTypeInfo, kDTypes> kInfo = {{
    {"F32", 1, 4},       {"F16", 1, 2},        {"BF16", 1, 2},       {"Q8_0", 32, 34},
    {"Q4_0", 32, 18},    {"Q4_1", 32, 20},     {"Q5_0", 32, 22},     {"Q5_1", 32, 24},
    {"Q2_K", 256, 84},   {"Q3_K", 256, 110},   {"Q4_K", 256, 144},   {"Q5_K", 256, 176},
    {"Q6_K", 256, 210},  {"IQ4_NL", 32, 18},   {"IQ4_XS", 256, 136}, {"MXFP4", 32, 17},
    {"NVFP4", 64, 36},   {"IQ3_S", 256, 110},  {"IQ3_XXS", 256, 98}, {"IQ2_S", 256, 82},
    {"IQ2_XS", 256, 74}, {"IQ2_XXS", 256, 66}, {"IQ1_S", 256, 50},   {"IQ1_M", 256, 56},
    {"TQ1_0", 256, 54},  {"TQ2_0", 256, 66},   {"Q8", 32, 34},       {"Q4", 32, 18},
    {"STATIC8", 1, 1},   {"STATIC16", 1, 2},   {"KIVI4_K", 32, 20},  {"KIVI4_V", 32, 20},
    {"Q3", 32, 14},      {"Q2", 32, 10},
}};

}  // namespace

const DTypeInfo& dtype_info(DType type) { return kInfo[static_cast<size_t>(type)]; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (int i = 0; i < kDTypes; ++i) {
    const std::string_view known = kInfo[i].name;
    bool same = known.size() == name.size();
    for (size_t c = 0; same && c < name.size(); ++c)
      same = std::toupper(static_cast<unsigned char>(name[c])) == known[c];
    if (same) return static_cast<DType>(i);
  }
  return std::nullopt;
}

float f16_to_f32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu, mantissa = half & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float subnormal = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -subnormal : subnormal;
}

uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)  // NaN: quiet, payload kept as far as it fits
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {                        // below 2^-14: subnormal, in units of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) + 0.5f;  // aligns the last bit to 2^-24
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(scaled) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

float bf16_to_f32(uint16_t half) { return std::bit_cast<float>(static_cast<uint32_t>(half) << 16); }

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace kvick::kernels
