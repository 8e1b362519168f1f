#include "io/quantised/fp8_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace kvick::io {
namespace {

std::array<float, 256> all_codes() {
  std::array<float, 256> values{};
  for (size_t code = 0; code < values.size(); ++code)
    values[code] = e4m3_to_f32(static_cast<uint8_t>(code));
  return values;
}

class Fp8Weights final : public RowSource {
 public:
  Fp8Weights(const StoredTensor& codes, const ScaleGrid& scales)
      : codes_(codes.data), inputs_(codes.shape[1]), scales_(scales), values_(all_codes()) {}

  void read(uint64_t first, uint64_t count, std::byte* out) const override {
    const MatrixSize block = scales_.block();
    for (uint64_t row = first; row < first + count; ++row) {
      const auto codes = codes_.subspan(row * inputs_, inputs_);
      for (uint64_t i = 0; i < inputs_;) {
        const float scale = scales_.at(row / block.outputs, i / block.inputs);
        const uint64_t end = std::min(inputs_ - i, block.inputs) + i;
        for (; i < end; ++i, out += sizeof(uint16_t)) {
          const float value = values_[std::to_integer<uint8_t>(codes[i])] * scale;
          const uint16_t half = kernels::f32_to_f16(value);
          std::memcpy(out, &half, sizeof(half));
        }
      }
    }
  }
  std::vector<std::span<const std::byte>> parts() const override {
    return {codes_, scales_.bytes()};
  }

 private:
  std::span<const std::byte> codes_;
  uint64_t inputs_;
  ScaleGrid scales_;
  std::array<float, 256> values_;
};

}  // namespace

float e4m3_to_f32(uint8_t code) {
  const int exponent = code >> 3 & 15, significand = code & 7;
  float value = 0;
  if (exponent == 15 && significand == 7) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(significand), -9);
  } else {
    value = std::ldexp(static_cast<float>(8 + significand), exponent - 10);
  }
  return (code & 0x80) != 0 ? -value : value;
}

base::Result<Tensor> fp8_tensor(const std::string& name, const StoredTensor& codes,
                                const StoredTensor& scales, MatrixSize block) {
  if (codes.shape.size() != 2)
    return base::fail("{}: is FP8 of shape {}; kvick reads matrices", codes.label,
                      shape_text(codes));
  KVICK_TRY(const ScaleGrid grid, ScaleGrid::of(scales, {codes.shape[0], codes.shape[1]}, block));
  return Tensor{.name = name,
                .dtype = kernels::DType::kF16,
                .shape = codes.shape,
                .data = {},
                .source = std::make_shared<Fp8Weights>(codes, grid)};
}

}  // namespace kvick::io
