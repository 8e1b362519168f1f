// Attention and the choice of rows with AVX-512 VNNI, whose integer products multiply codes. All
// other functions are those of rows_avx512.cc.

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

KVICK_TARGET_VNNI_BEGIN
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
#include "kernels/rows/quads_impl.h"
#include "kernels/isa/vec_avx512.h"
#include "kernels/isa/vec_vnni.h"
// clang-format on
KVICK_TARGET_END

namespace kvick::kernels {

void attend_chunk_vnni(const View& view, const Queries& queries, uint32_t chunk, Partial out,
                       float* probs) {
  attend_chunk<VecVnni>(view, queries, chunk, out, probs);
}

void fill_rows_vnni(Table& table) {
  fill_rows_avx512(table);
  table.attend_chunk = attend_chunk_vnni;
  table.score_quads = score_quads<VecVnni>;
}

}  // namespace kvick::kernels
