#include "engine/artifacts/predictor_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace kvick::engine {
namespace {

constexpr uint32_t kBlock = 32;  // codes of a Q8_0 block, which has one scale
constexpr uint32_t kBlockBytes = 34;

// Encodes rows of `inputs` floats as Q8_0. A block's scale is a 127th of its largest magnitude.
std::string encode_blocks(const std::vector<float>& rows, uint32_t inputs) {
  std::string bytes;
  for (size_t row = 0; row < rows.size(); row += inputs)
    for (uint32_t first = 0; first < inputs; first += kBlock) {
      const uint32_t n = std::min(kBlock, inputs - first);
      float most = 0;
      for (uint32_t i = 0; i < n; ++i) most = std::max(most, std::abs(rows[row + first + i]));
      const uint16_t half = kernels::f32_to_f16(most / 127);
      const float scale = kernels::f16_to_f32(half);
      char block[kBlockBytes] = {};
      std::memcpy(block, &half, sizeof half);
      for (uint32_t i = 0; i < n && scale > 0; ++i) {
        const float code = std::nearbyint(rows[row + first + i] / scale);
        block[2 + i] = static_cast<char>(static_cast<int8_t>(std::clamp(code, -127.0F, 127.0F)));
      }
      bytes.append(block, kBlockBytes);
    }
  return bytes;
}

}  // namespace

std::vector<PredictorTensor> tensors_of(const kv::PredictorShape& shape, uint32_t layer) {
  std::vector<PredictorTensor> named;
  if (shape.form == kv::PredictorForm::kRetrieval) return named;
  if (shape.has_queries())
    named.push_back(
        {fmt::format("blk.{}.predictor_q.weight", layer), uint64_t{shape.heads} * shape.rank});
  named.push_back(
      {fmt::format("blk.{}.predictor_k.weight", layer), uint64_t{shape.kv_heads} * shape.rank});
  return named;
}

kernels::DType stored_type(const kv::PredictorShape& shape) {
  return shape.form == kv::PredictorForm::kDocument ? kernels::DType::kF16 : kernels::DType::kQ8_0;
}

uint64_t stored_inputs(const kv::PredictorShape& shape) {
  if (stored_type(shape) == kernels::DType::kF16) return shape.inputs();
  return (uint64_t{shape.inputs()} + kBlock - 1) / kBlock * kBlock;
}

std::string encode_rows(const std::vector<float>& rows, const kv::PredictorShape& shape) {
  if (stored_type(shape) == kernels::DType::kQ8_0) return encode_blocks(rows, shape.inputs());
  std::string bytes(rows.size() * sizeof(uint16_t), 0);
  kernels::from_f32(kernels::DType::kF16, rows.data(), rows.size(),
                    reinterpret_cast<std::byte*>(bytes.data()));
  return bytes;
}

std::vector<float> decode_rows(std::span<const std::byte> bytes, uint64_t rows,
                               const kv::PredictorShape& shape) {
  const uint64_t width = stored_inputs(shape);
  std::vector<float> row(width), all;
  for (uint64_t i = 0; i < rows; ++i) {
    kernels::to_f32(stored_type(shape), bytes.data() + i * (bytes.size() / rows), width,
                    row.data());
    all.insert(all.end(), row.begin(), row.begin() + shape.inputs());
  }
  return all;
}

}  // namespace kvick::engine
