#include "io/quantised/scaled_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace kvick::io {
namespace {

using kernels::DType;

class ScaledRows final : public RowSource {
 public:
  ScaledRows(Tensor tensor, std::vector<float> factors)
      : tensor_(std::move(tensor)), factors_(std::move(factors)) {}

  void read(uint64_t first, uint64_t count, std::byte* out) const override {
    const uint64_t columns = tensor_.row_elements();
    std::vector<std::byte> row(tensor_.row_bytes());
    std::vector<float> values(columns);
    for (uint64_t r = first; r < first + count; ++r) {
      tensor_.read_rows(r, 1, row.data());
      kernels::to_f32(tensor_.dtype, row.data(), columns, values.data());
      for (float& value : values) value *= factors_[r];
      out = write(values, out);
    }
  }
  std::vector<std::span<const std::byte>> parts() const override {
    return tensor_.source == nullptr ? std::vector{tensor_.data} : tensor_.source->parts();
  }

 private:
  // Returns the end of what it has written.
  std::byte* write(const std::vector<float>& values, std::byte* out) const {
    if (tensor_.dtype == DType::kF32) {
      std::memcpy(out, values.data(), values.size() * sizeof(float));
      return out + values.size() * sizeof(float);
    }
    for (const float value : values) {
      const uint16_t half = kernels::f32_to_f16(value);
      std::memcpy(out, &half, sizeof(half));
      out += sizeof(half);
    }
    return out;
  }

  Tensor tensor_;
  std::vector<float> factors_;  // [rows]
};

}  // namespace

base::Result<Tensor> scaled_rows(Tensor tensor, const std::vector<RowFactor>& factors,
                                 const std::string& label) {
  const auto is_one = [](const RowFactor& one) { return one.factor == 1; };
  if (std::all_of(factors.begin(), factors.end(), is_one)) return tensor;
  const uint64_t rows = tensor.elements() / std::max<uint64_t>(tensor.row_elements(), 1);
  std::vector<float> each;
  for (const RowFactor& one : factors) {
    const uint64_t left = rows - each.size(), count = one.rows == 0 ? left : one.rows;
    if (count > left)
      return base::fail("{}: has {} rows, fewer than its factors in config.json are for", label,
                        rows);
    each.insert(each.end(), count, one.factor);
  }
  if (each.size() != rows)
    return base::fail("{}: has {} rows, but its factors in config.json are for {}", label, rows,
                      each.size());
  Tensor scaled = {.name = tensor.name,
                   .dtype = tensor.dtype == DType::kF32 ? DType::kF32 : DType::kF16,
                   .shape = tensor.shape,
                   .data = {}};
  scaled.source = std::make_shared<ScaledRows>(std::move(tensor), std::move(each));
  return scaled;
}

}  // namespace kvick::io
