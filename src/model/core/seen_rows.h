#pragma once
// Rows and bytes that the attention of one token reads.

#include "kernels/formats/dtype.h"
#include "model/core/config.h"

namespace kvick::model {

// Returns the number of rows that the last of `tokens` tokens sees in a layer, including its own.
uint32_t seen_rows(const LayerConfig& layer, uint32_t tokens);

// Element types of keys and values, for seen_bytes(). It returns the bytes of these rows in all
// layers. Rows that layers share count once per layer that reads them.
struct RowTypes {
  kernels::DType k = kernels::DType::kF16, v = kernels::DType::kF16;
};
uint64_t seen_bytes(const Config& config, const RowTypes& types, uint32_t tokens);

}  // namespace kvick::model
