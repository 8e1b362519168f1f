#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <immintrin.h>

#include "kernels/attention_rows.h"
#include "kernels/cache_row.h"
#include "kernels/dtype.h"
#include "kernels/kivi.h"
#include "kernels/rows.h"
#include "kernels/target.h"

KVICK_TARGET_AVX2_BEGIN
// Each needs the ones before it.
// clang-format off
#include "kernels/attention_ahead.h"
#include "kernels/attention_kivi.h"
#include "kernels/attention_softmax.h"
#include "kernels/attention_values.h"
#include "kernels/attention_blocks_impl.h"
#include "kernels/attention_impl.h"
#include "kernels/attention_memory.h"
#include "kernels/attention_merge.h"
#include "kernels/silu.h"
#include "kernels/partial_vectors.h"
#include "kernels/token_weights.h"
#include "kernels/elementwise_impl.h"
#include "kernels/vec_avx2.h"
// clang-format on
KVICK_TARGET_END

namespace kvick::kernels {

void fill_rows_avx2(Table& table) { fill_rows<VecAvx2>(table); }

}  // namespace kvick::kernels
