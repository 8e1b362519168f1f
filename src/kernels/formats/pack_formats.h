#pragma once
// Internal to kernels/: the table of pack_format(), for kernels that are compiled for each format.

#include "kernels/formats/codebooks.h"
#include "kernels/formats/pack_format.h"

namespace kvick::kernels {

constexpr PackFormat float_format() {
  return {.quantised = false,
          .bits = 0,
          .scale_group = 0,
          .has_min = false,
          .scales = ScaleKind::kHalves,
          .zero = 0};
}
// Stored codes are u.
constexpr PackFormat linear_format(uint8_t bits, uint8_t scale_group, bool has_min,
                                   ScaleKind scales, int16_t zero) {
  return {.quantised = true,
          .bits = bits,
          .scale_group = scale_group,
          .has_min = has_min,
          .scales = scales,
          .zero = zero};
}
// Stored codes are indices of a table.
constexpr PackFormat table_format(uint8_t bits, uint8_t scale_group, ScaleKind scales,
                                  const Codebook& codebook, float unit = 1) {
  return {.quantised = true,
          .bits = bits,
          .scale_group = scale_group,
          .has_min = false,
          .scales = scales,
          .zero = codebook.zero,
          .value_bits = codebook.value_bits,
          .codebook = &codebook,
          .unit = unit};
}

// Indexed by DType.
inline constexpr PackFormat kPackFormats[kWeightTypes] = {
    float_format(),                                                 // F32
    float_format(),                                                 // F16
    float_format(),                                                 // BF16
    linear_format(8, 32, false, ScaleKind::kHalves, 128),           // Q8_0
    linear_format(4, 32, false, ScaleKind::kHalves, 8),             // Q4_0
    linear_format(4, 32, true, ScaleKind::kHalves, 0),              // Q4_1
    linear_format(5, 32, false, ScaleKind::kHalves, 16),            // Q5_0
    linear_format(5, 32, true, ScaleKind::kHalves, 0),              // Q5_1
    linear_format(2, 16, true, ScaleKind::kTwoLevels, 0),           // Q2_K
    linear_format(3, 16, false, ScaleKind::kTwoLevels, 4),          // Q3_K
    linear_format(4, 32, true, ScaleKind::kTwoLevels, 0),           // Q4_K
    linear_format(5, 32, true, ScaleKind::kTwoLevels, 0),           // Q5_K
    linear_format(6, 16, false, ScaleKind::kTwoLevels, 32),         // Q6_K
    table_format(4, 32, ScaleKind::kHalves, kNonlinear4),           // IQ4_NL
    table_format(4, 32, ScaleKind::kTwoLevels, kNonlinear4),        // IQ4_XS
    table_format(4, 32, ScaleKind::kE8M0, kFloat4),                 // MXFP4
    table_format(4, 16, ScaleKind::kE4M3, kFloat4, 0.5F),           // NVFP4
    table_format(4, 32, ScaleKind::kTwoLevels, kOdd4),              // IQ3_S
    table_format(4, 32, ScaleKind::kTwoLevels, kGrid4, 0.5F),       // IQ3_XXS
    table_format(3, 16, ScaleKind::kTwoLevels, kGrid3, 0.125F),     // IQ2_S
    table_format(3, 16, ScaleKind::kTwoLevels, kGrid3, 0.125F),     // IQ2_XS
    table_format(3, 32, ScaleKind::kTwoLevels, kGrid3, 0.125F),     // IQ2_XXS
    table_format(3, 32, ScaleKind::kTwoLevels, kTernary3, 0.125F),  // IQ1_S
    table_format(3, 16, ScaleKind::kTwoLevels, kTernary3, 0.125F),  // IQ1_M
    linear_format(2, 32, false, ScaleKind::kHalf256, 1),            // TQ1_0
    linear_format(2, 32, false, ScaleKind::kHalf256, 1),            // TQ2_0
};

}  // namespace kvick::kernels
