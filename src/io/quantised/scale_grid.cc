#include "io/quantised/scale_grid.h"

#include <fmt/ranges.h>

namespace kvick::io {
namespace {

uint64_t parts_of(uint64_t whole, uint64_t part) { return whole / part + (whole % part != 0); }

bool is_float(StoredType type) {
  return type == StoredType::kF32 || type == StoredType::kF16 || type == StoredType::kBF16;
}

base::Error wrong_type(const StoredTensor& scales) {
  return base::fail("{}: scales are {}; kvick reads F32, F16 and BF16", scales.label,
                    stored_type_info(scales.type).name);
}

}  // namespace

std::string shape_text(const StoredTensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape, ", "));
}

bool has_shape(const StoredTensor& tensor, std::initializer_list<uint64_t> shape) {
  return std::ranges::equal(tensor.shape, shape);
}

base::Result<ScaleGrid> ScaleGrid::of(const StoredTensor& scales, MatrixSize size,
                                      MatrixSize block) {
  if (!is_float(scales.type)) return wrong_type(scales);
  ScaleGrid grid;
  grid.data_ = scales.data, grid.type_ = scales.type;
  const size_t dims = scales.shape.size();
  if (dims > 0) grid.rows_ = scales.shape[0];
  if (dims > 1) grid.columns_ = scales.shape[1];
  const bool one = grid.rows_ == 1 && grid.columns_ == 1;
  const bool each = grid.rows_ == size.outputs && grid.columns_ == 1;
  const auto wrong = [&] {
    return base::fail("{}: {} scales do not divide a matrix of {} outputs and {} inputs",
                      scales.label, shape_text(scales), size.outputs, size.inputs);
  };
  if (dims > 2 || grid.rows_ > size.outputs || grid.columns_ > size.inputs) return wrong();
  if (one || each) {
    grid.block_ = {.outputs = one ? size.outputs : 1, .inputs = size.inputs};
  } else if (block.outputs != 0 && block.inputs != 0 &&
             grid.rows_ == parts_of(size.outputs, block.outputs) &&
             grid.columns_ == parts_of(size.inputs, block.inputs)) {
    grid.block_ = block;
  } else if (size.outputs % grid.rows_ == 0 && size.inputs % grid.columns_ == 0) {
    grid.block_ = {.outputs = size.outputs / grid.rows_, .inputs = size.inputs / grid.columns_};
  } else {
    return wrong();
  }
  return grid;
}

base::Result<ScaleGrid> ScaleGrid::transposed(const StoredTensor& scales, MatrixSize size) {
  if (!is_float(scales.type)) return wrong_type(scales);
  if (scales.shape.size() != 2 || scales.shape[1] != size.outputs || scales.shape[0] > size.inputs)
    return base::fail("{}: scales are {} for {} outputs and {} inputs", scales.label,
                      shape_text(scales), size.outputs, size.inputs);
  ScaleGrid grid;
  grid.data_ = scales.data, grid.type_ = scales.type;
  grid.rows_ = size.outputs, grid.columns_ = scales.shape[0];
  grid.block_ = {.outputs = 1, .inputs = parts_of(size.inputs, grid.columns_)};
  grid.transposed_ = true;
  return grid;
}

float ScaleGrid::at(uint64_t row, uint64_t column) const {
  const uint64_t index = transposed_ ? column * rows_ + row : row * columns_ + column;
  switch (type_) {
    case StoredType::kF16:
      return kernels::f16_to_f32(load<uint16_t>(data_, index));
    case StoredType::kBF16:
      return kernels::bf16_to_f32(load<uint16_t>(data_, index));
    default:
      return load<float>(data_, index);
  }
}

}  // namespace kvick::io
