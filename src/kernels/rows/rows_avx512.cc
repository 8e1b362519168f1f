#include "kernels/table/rows.h"

#if defined(__GNUC__) && !defined(__clang__)
// GCC bug 105593: GCC warns of undefined vectors that its own intrinsics pass on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <immintrin.h>

#include "kernels/attention/attention_rows.h"
#include "kernels/formats/cache_row.h"
#include "kernels/formats/dtype.h"
#include "kernels/formats/kivi.h"
#include "kernels/isa/target.h"

KVICK_TARGET_AVX512_BEGIN
// Each header needs the ones before it.
// clang-format off
#include "kernels/attention/attention_ahead.h"
#include "kernels/attention/attention_codes.h"
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
#include "kernels/rows/quads_impl.h"
#include "kernels/rows/delta_rule_impl.h"
#include "kernels/isa/vec_avx512.h"
// clang-format on
KVICK_TARGET_END

namespace kvick::kernels {

void fill_rows_avx512(Table& table) {
  fill_rows<VecAvx512>(table);
  table.score_quads = score_quads<VecAvx512>;
  table.delta_rule = delta_rule<VecAvx512>;
}

}  // namespace kvick::kernels
