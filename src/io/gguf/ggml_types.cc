#include "io/gguf/ggml_types.h"

#include <array>
#include <fmt/format.h>
#include <string_view>

namespace kvick::io {
namespace {

using kernels::DType;

// Indexed by DType.
constexpr std::array<uint32_t, kernels::kWeightTypes> kNumbers = {
    0,  1,  30, 8,  2,  3,  6,  7,  10, 11, 12, 13, 14,
    20, 23, 39, 40, 21, 18, 22, 17, 16, 19, 29, 34, 35};

// All names that ggml has or had, by number. An empty one was never given.
constexpr std::array<std::string_view, 43> kNames = {
    "F32",   "F16",        "Q4_0",       "Q4_1",       "Q4_2",     "Q4_3",     "Q5_0",
    "Q5_1",  "Q8_0",       "Q8_1",       "Q2_K",       "Q3_K",     "Q4_K",     "Q5_K",
    "Q6_K",  "Q8_K",       "IQ2_XXS",    "IQ2_XS",     "IQ3_XXS",  "IQ1_S",    "IQ4_NL",
    "IQ3_S", "IQ2_S",      "IQ4_XS",     "I8",         "I16",      "I32",      "I64",
    "F64",   "IQ1_M",      "BF16",       "Q4_0_4_4",   "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",
    "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",    "NVFP4",    "Q1_0",
    "Q2_0"};

}  // namespace

std::optional<DType> dtype_of_ggml(uint32_t number) {
  for (int i = 0; i < kernels::kWeightTypes; ++i)
    if (kNumbers[i] == number) return static_cast<DType>(i);
  return std::nullopt;
}

uint32_t ggml_of_dtype(DType type) { return kNumbers[static_cast<size_t>(type)]; }

std::string ggml_type_name(uint32_t number) {
  if (number < kNames.size()) return fmt::format("{} ({})", kNames[number], number);
  return fmt::format("{}, unknown", number);
}

std::string readable_dtypes() {
  std::string names;
  for (int i = 0; i < kernels::kWeightTypes; ++i) {
    if (i != 0) names += ", ";
    names += kernels::dtype_info(static_cast<DType>(i)).name;
  }
  return names;
}

}  // namespace kvick::io
