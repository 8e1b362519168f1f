// The linear layers with I8MM. One token is multiplied by USDOT; more of them by USMMLA, an
// instruction that multiplies two rows of weights with two tokens.

#include <arm_neon.h>
#include <utility>

#include "kernels/isa/target.h"
#include "kernels/linear/matmul.h"
#include "kernels/table/linear.h"

KVICK_TARGET_I8MM_BEGIN
// Each header needs the ones before it.
// clang-format off
#include "kernels/neon/dots_i8mm.h"
#include "kernels/neon/codes_neon.h"
#include "kernels/neon/scales_neon.h"
#include "kernels/neon/matmul_neon_impl.h"
// clang-format on
KVICK_TARGET_END

namespace kvick::kernels {

void fill_linear_i8mm(Table& table) {
  table.quantise = quantise;
  table.matmul = matmul;
}

}  // namespace kvick::kernels
