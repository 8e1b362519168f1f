// The linear layers with AVX-512 VNNI and VBMI (Ice Lake, Zen 4). They differ from matmul_vnni.cc
// only for 4-bit codes that are indices of a table. vpermb looks up by the low six bits of a byte,
// so with four copies of the table codes need no mask, and the look-up takes no more operations
// than unpacking Q4_0. The bits are the same.

#include <cstring>
#include <immintrin.h>

#include "kernels/isa/target.h"
#include "kernels/linear/matmul.h"
#include "kernels/table/linear.h"

#if !defined(__clang__)
// g++ 12 warns of undefined vectors inside its own intrinsics (bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define KVICK_HAS_VBMI
KVICK_TARGET_VBMI_BEGIN
// Each header needs the ones before it.
// clang-format off
#include "kernels/linear/dots_vnni.h"
#include "kernels/linear/matmul_avx512_impl.h"
#include "kernels/linear/prompt_block_avx512.h"
// clang-format on

namespace kvick::kernels {
namespace {

template <DType kType, int... kTokens>
void put_format(PanelFunctions& functions) {
  ((functions.of[static_cast<int>(kType)][kTokens - 1] = panel_function<kType, kTokens>()), ...);
  functions.silent[static_cast<int>(kType)] = silent_function<kType>();
  functions.prompt[static_cast<int>(kType)] = prompt_function<kType>();
}

template <DType... kTypes>
void put_formats(PanelFunctions& functions) {
  (put_format<kTypes, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16>(functions), ...);
}

}  // namespace
}  // namespace kvick::kernels

KVICK_TARGET_END

namespace kvick::kernels {
namespace {

PanelFunctions make_vbmi_functions() {
  PanelFunctions functions = vnni_panel_functions();
  put_formats<DType::kIQ4_NL, DType::kIQ4_XS, DType::kMXFP4, DType::kNVFP4, DType::kIQ3_S,
              DType::kIQ3_XXS>(functions);
  return functions;
}

void matmul(const Matrix& w, const Activations& a, float* y, size_t y_stride, uint32_t begin,
            uint32_t end) {
  run_matmul(vbmi_panel_functions(), w, a, y, y_stride, begin, end);
}

}  // namespace

const PanelFunctions& vbmi_panel_functions() {
  static const PanelFunctions kFunctions = make_vbmi_functions();
  return kFunctions;
}

void fill_linear_vbmi(Table& table) {
  fill_linear_vnni(table);
  table.matmul = matmul;
}

}  // namespace kvick::kernels
