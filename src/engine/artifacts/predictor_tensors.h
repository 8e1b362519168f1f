#pragma once
// The tensors of a predictor file: their names, sizes and encoding. Matrices are stored as Q8_0,
// whose rows are padded with zeros to whole blocks; the scores of a document as F16, because the
// smallest of them decide which rows are dropped, and in blocks they would be rounded to zero.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/formats/dtype.h"
#include "kv/select/predictor.h"

namespace kvick::engine {

struct PredictorTensor {
  std::string name;
  uint64_t rows = 0;
};
// Returns the tensors of a layer.
std::vector<PredictorTensor> tensors_of(const kv::PredictorShape& shape, uint32_t layer);

kernels::DType stored_type(const kv::PredictorShape& shape);
// Returns the elements of a stored row.
uint64_t stored_inputs(const kv::PredictorShape& shape);

// Encodes rows of shape.inputs() floats.
std::string encode_rows(const std::vector<float>& rows, const kv::PredictorShape& shape);
std::vector<float> decode_rows(std::span<const std::byte> bytes, uint64_t rows,
                               const kv::PredictorShape& shape);

}  // namespace kvick::engine
