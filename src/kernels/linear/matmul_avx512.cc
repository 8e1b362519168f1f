// The linear layers with AVX-512 F, BW, DQ and VL, for processors without VNNI (Skylake-X): a
// register holds 16 rows of a panel, 4 inputs of each.

#include <cstring>
#include <immintrin.h>
#include <limits>
#include <utility>

#include "kernels/isa/target.h"
#include "kernels/linear/matmul.h"
#include "kernels/table/linear.h"

#if !defined(__clang__)
// g++ 12 warns of undefined vectors inside its own intrinsics (bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

KVICK_TARGET_AVX512_BEGIN
// Each header needs the ones before it.
// clang-format off
#include "kernels/linear/dots_avx512.h"
#include "kernels/linear/matmul_avx512_impl.h"
#include "kernels/linear/functions_avx512.h"
// clang-format on
KVICK_TARGET_END

namespace kvick::kernels {

void fill_linear_avx512(Table& table) {
  table.quantise = quantise;
  table.matmul = matmul;
}

}  // namespace kvick::kernels
