#include "io/quantised/expert_rows.h"

#include <algorithm>

#include "io/quantised/mxfp4_blocks.h"
#include "io/quantised/scale_grid.h"

namespace kvick::io {
namespace {

constexpr uint64_t kHalfBlock = 16, kBlock = 32, kBlockBytes = 17;

class Mxfp4Rows final : public RowSource {
 public:
  Mxfp4Rows(const StoredTensor& blocks, const StoredTensor& scales, Outputs outputs)
      : blocks_(blocks.data),
        scales_(scales.data),
        outputs_(outputs),
        of_(blocks.shape[1]),
        groups_(blocks.shape[2]) {}

  void read(uint64_t first, uint64_t count, std::byte* out) const override {
    for (uint64_t row = first; row < first + count; ++row, out += groups_ * kBlockBytes) {
      const uint64_t expert = row / outputs_.count, i = row % outputs_.count;
      const uint64_t at = (expert * of_ + outputs_.first + i * outputs_.step) * groups_;
      mxfp4_from_halves(blocks_.subspan(at * kHalfBlock, groups_ * kHalfBlock),
                        scales_.subspan(at, groups_), {out, groups_ * kBlockBytes});
    }
  }
  std::vector<std::span<const std::byte>> parts() const override { return {blocks_, scales_}; }

 private:
  std::span<const std::byte> blocks_, scales_;
  Outputs outputs_;
  uint64_t of_, groups_;
};

// Distances, in elements, between neighbouring elements of a row, between rows, and between
// experts.
struct Strides {
  uint64_t element, row, expert;
};

class StridedRows final : public RowSource {
 public:
  StridedRows(const StoredTensor& stored, MatrixSize size, Strides strides, uint64_t first)
      : data_(stored.data),
        bytes_(stored_type_info(stored.type).bytes),
        size_(size),
        strides_(strides),
        first_(first) {}

  // The inner loop is over rows: in a transposed tensor they are adjacent.
  void read(uint64_t first, uint64_t count, std::byte* out) const override {
    for (uint64_t column = 0; column < size_.inputs; ++column)
      for (uint64_t i = 0; i < count; ++i) {
        const uint64_t expert = (first + i) / size_.outputs, row = (first + i) % size_.outputs;
        const uint64_t at =
            first_ + expert * strides_.expert + row * strides_.row + column * strides_.element;
        std::memcpy(out + (i * size_.inputs + column) * bytes_, data_.data() + at * bytes_, bytes_);
      }
  }
  std::vector<std::span<const std::byte>> parts() const override { return {data_}; }

 private:
  std::span<const std::byte> data_;
  uint64_t bytes_;
  MatrixSize size_;
  Strides strides_;
  uint64_t first_;
};

base::Error wrong_shape(const StoredTensor& stored, std::string_view wanted) {
  return base::fail("{}: is {} {}; {} is expected", stored.label,
                    stored_type_info(stored.type).name, shape_text(stored), wanted);
}

}  // namespace

base::Result<std::pair<Outputs, Outputs>> split_gate_up(GateUp gate_up, uint64_t outputs,
                                                        const std::string& label) {
  if (outputs % 2 != 0)
    return base::fail("{}: {} outputs are not those of a gate and as many others", label, outputs);
  const uint64_t half = outputs / 2;
  if (gate_up == GateUp::kInterleaved)
    return std::pair<Outputs, Outputs>({0, 2, half}, {1, 2, half});
  return std::pair<Outputs, Outputs>({0, 1, half}, {half, 1, half});
}

base::Result<Tensor> mxfp4_experts(const std::string& name, const StoredTensor& blocks,
                                   const StoredTensor& scales, Outputs outputs) {
  if (blocks.type != StoredType::kU8 || blocks.shape.size() != 4 || blocks.shape[3] != kHalfBlock)
    return wrong_shape(blocks, "U8 [experts, outputs, groups, 16]");
  if (scales.type != StoredType::kU8 ||
      !has_shape(scales, {blocks.shape[0], blocks.shape[1], blocks.shape[2]}))
    return wrong_shape(scales, "U8 of the blocks' first three sizes");
  return Tensor{.name = name,
                .dtype = kernels::DType::kMXFP4,
                .shape = {blocks.shape[0], outputs.count, blocks.shape[2] * kBlock},
                .data = {},
                .source = std::make_shared<Mxfp4Rows>(blocks, scales, outputs)};
}

base::Result<Tensor> turned_experts(const std::string& name, const StoredTensor& stored,
                                    Outputs outputs) {
  const auto dtype = stored_type_info(stored.type).dtype;
  if (!dtype || stored.shape.size() != 3)
    return wrong_shape(stored, "F32, F16 or BF16 [experts, inputs, outputs]");
  const uint64_t inputs = stored.shape[1], all = stored.shape[2];
  return Tensor{
      .name = name,
      .dtype = *dtype,
      .shape = {stored.shape[0], outputs.count, inputs},
      .data = {},
      .source = std::make_shared<StridedRows>(
          stored, MatrixSize{outputs.count, inputs},
          Strides{.element = all, .row = outputs.step, .expert = inputs * all}, outputs.first)};
}

base::Result<Tensor> expert_biases(const std::string& name, const StoredTensor& stored,
                                   Outputs outputs) {
  const auto dtype = stored_type_info(stored.type).dtype;
  if (!dtype || stored.shape.size() != 2)
    return wrong_shape(stored, "F32, F16 or BF16 [experts, outputs]");
  const uint64_t all = stored.shape[1];
  return Tensor{.name = name,
                .dtype = *dtype,
                .shape = {stored.shape[0], outputs.count},
                .data = {},
                .source = std::make_shared<StridedRows>(
                    stored, MatrixSize{1, outputs.count},
                    Strides{.element = outputs.step, .row = 0, .expert = all}, outputs.first)};
}

}  // namespace kvick::io
