#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/attention/attention_rows.h"
#include "kernels/formats/cache_row.h"
#include "kernels/formats/dtype.h"
#include "kernels/formats/kivi.h"
#include "kernels/isa/target.h"
#include "kernels/table/rows.h"

// Each header needs the ones before it.
// clang-format off
#include "kernels/attention/attention_ahead.h"
#include "kernels/attention/attention_kivi.h"
#include "kernels/attention/attention_softmax.h"
#include "kernels/attention/attention_values.h"
#include "kernels/attention/attention_blocks_impl.h"
#include "kernels/attention/attention_columns.h"
#include "kernels/attention/attention_dots.h"
#include "kernels/attention/attention_impl.h"
#include "kernels/attention/attention_memory.h"
#include "kernels/attention/attention_merge.h"
#include "kernels/isa/silu.h"
#include "kernels/isa/partial_vectors.h"
#include "kernels/rows/hadamard_impl.h"
#include "kernels/rows/levels_impl.h"
#include "kernels/rows/token_weights.h"
#include "kernels/rows/elementwise_impl.h"
#include "kernels/rows/delta_rule_impl.h"
#include "kernels/isa/vec_scalar.h"
// clang-format on

namespace kvick::kernels {

void fill_rows_scalar(Table& table) {
  fill_rows<VecScalar>(table);
  table.delta_rule = delta_rule<VecScalar>;
}

}  // namespace kvick::kernels
