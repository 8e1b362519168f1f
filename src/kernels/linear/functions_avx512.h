#pragma once
// Internal to kernels/: the functions of matmul_avx512_impl.h for every type and number of tokens.
// Included after it.

#include "kernels/linear/prompt_block_avx512.h"
#include "kernels/linear/q8_block_avx512.h"
#include "kernels/linear/quantise_avx512.h"

namespace kvick::kernels {
namespace {

template <DType kType, int... kTokens>
constexpr void add_format(PanelFunctions& functions) {
  ((functions.of[static_cast<int>(kType)][kTokens - 1] = panel_function<kType, kTokens>()), ...);
  functions.silent[static_cast<int>(kType)] = silent_function<kType>();
  if constexpr (kPanelsTogetherForPrompts)
    functions.prompt[static_cast<int>(kType)] = prompt_function<kType>();
}

template <int... kType>
constexpr PanelFunctions make_functions(std::integer_sequence<int, kType...>) {
  PanelFunctions functions{};
  (add_format<static_cast<DType>(kType), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16>(
       functions),
   ...);
  functions.block[static_cast<int>(DType::kQ8_0)] = q8_block;
  return functions;
}

constexpr PanelFunctions kFunctions =
    make_functions(std::make_integer_sequence<int, kWeightTypes>());

void matmul(const Matrix& w, const Activations& a, float* y, size_t y_stride, uint32_t begin,
            uint32_t end) {
  run_matmul(kFunctions, w, a, y, y_stride, begin, end);
}

}  // namespace
}  // namespace kvick::kernels
