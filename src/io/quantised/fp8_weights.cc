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

  // Works block by block: the 256 weights that a scale makes are rounded once per block.
  void read(uint64_t first, uint64_t count, std::byte* out) const override {
    const MatrixSize block = scales_.block();
    std::array<uint16_t, 256> halves{};
    for (uint64_t row = 0, rows = 0; row < count; row += rows) {
      rows = std::min(count - row, block.outputs - (first + row) % block.outputs);
      for (uint64_t i = 0, columns = 0; i < inputs_; i += columns) {
        columns = std::min(inputs_ - i, block.inputs);
        const float scale = scales_.at((first + row) / block.outputs, i / block.inputs);
        for (size_t code = 0; code < halves.size(); ++code)
          halves[code] = kernels::f32_to_f16(values_[code] * scale);
        for (uint64_t r = row; r < row + rows; ++r)
          copy(halves, (first + r) * inputs_ + i, columns,
               out + (r * inputs_ + i) * sizeof(uint16_t));
      }
    }
  }
  std::vector<std::span<const std::byte>> parts() const override {
    return {codes_, scales_.bytes()};
  }

 private:
  void copy(const std::array<uint16_t, 256>& halves, uint64_t first, uint64_t count,
            std::byte* out) const {
    for (uint64_t i = first; i < first + count; ++i, out += sizeof(uint16_t))
      std::memcpy(out, &halves[std::to_integer<uint8_t>(codes_[i])], sizeof(uint16_t));
  }

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
