#pragma once
// Encodes float32 to the formats whose codes stand for values of a table, one block at a time for
// encode().

#include <cstdint>

#include "kernels/formats/dtype.h"

namespace kvick::tools {

// type: IQ4_NL or a later type in DType's order.
void encode_table_block(kernels::DType type, const float* x, uint8_t* out);

}  // namespace kvick::tools
