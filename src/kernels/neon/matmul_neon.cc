// The linear layers with NEON and DotProd.

#include <arm_neon.h>
#include <utility>

#include "kernels/isa/target.h"
#include "kernels/linear/matmul.h"
#include "kernels/table/linear.h"

KVICK_TARGET_NEON_BEGIN
// Each header needs the ones before it.
// clang-format off
#include "kernels/neon/dots_neon.h"
#include "kernels/neon/codes_neon.h"
#include "kernels/neon/scales_neon.h"
#include "kernels/neon/matmul_neon_impl.h"
// clang-format on
KVICK_TARGET_END

namespace kvick::kernels {

void fill_linear_neon(Table& table) {
  table.quantise = quantise;
  table.matmul = matmul;
}

}  // namespace kvick::kernels
