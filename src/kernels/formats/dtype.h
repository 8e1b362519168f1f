#pragma once
// The element and block formats of tensors in files and of cache rows.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kvick::kernels {

// Block formats are GGML's, bit for bit (ggml-common.h of llama.cpp describes the layouts).
enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  // Codes of 4, 3 or 2 bits that are indices of a table of values (codebooks.h). IQ1 to IQ3 pack 4
  // or 8 codes into the index of a grid point and signs.
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kNVFP4,
  kIQ3_S,
  kIQ3_XXS,
  kIQ2_S,
  kIQ2_XS,
  kIQ2_XXS,
  kIQ1_S,
  kIQ1_M,
  kTQ1_0,
  kTQ2_0,
  // Only in cache rows, never in files. A row of n elements is the codes of all n, then n/32
  // float16 scales, one for each 32 elements: the codes are aligned for the dot products.
  kQ8,  // code * scale, one byte, -127 to 127
  kQ4,  // (code - 8) * scale; byte i of each 16 holds elements i (low half) and 16 + i
  // Cache rows of static quantisation: signed codes, and one scale for all rows of a head, which is
  // not in the row (Segment::k_scale, v_scale). Conversions treat an element as its code, -127 to
  // 127 or -32767 to 32767: values beyond are clamped, and NaN becomes the lowest.
  kStatic8,
  kStatic16,
  // Only in older cache rows: code * scale + zero point, both float16. Layout: kivi.h.
  kKivi4K,  // keys: a scale and a zero point for each channel of kGroupRows rows
  kKivi4V,  // values: a pair for each 32 elements of a row
  // Only in cache rows, with the layout of kQ8 and kQ4: level * scale. Codes of 3 and 2 bits are
  // indices of a table of levels (cache_row.h).
  kQ3,
  kQ2,
};
inline constexpr int kWeightTypes = 26;  // types that files hold; they come first
inline constexpr int kDTypes = 34;

struct DTypeInfo {
  std::string_view name;  // as GGUF tools write it: "Q4_K"
  uint32_t block;         // elements in one block
  uint32_t block_bytes;   // bytes of one block
};
const DTypeInfo& dtype_info(DType type);
std::optional<DType> dtype_from_name(std::string_view name);  // "f16", "F16", "q8_0" ...

// Returns the bytes of `elements` elements, which must be a multiple of the block.
inline size_t dtype_bytes(DType type, size_t elements) {
  const DTypeInfo& info = dtype_info(type);
  return elements / info.block * info.block_bytes;
}

// Rows of some types can only be read or written in groups of this many rows, each of them anywhere
// in memory.
inline constexpr uint32_t kGroupRows = 32;
constexpr uint32_t rows_together(DType type) { return type == DType::kKivi4K ? kGroupRows : 1; }

// Converts n elements (a multiple of the block) to float32. This is the definition of every format
// but kKivi4K, not a fast path.
void to_f32(DType type, const std::byte* in, size_t n, float* out);
// The inverse for kF32, kF16 and kBF16 (round to nearest even; NaN stays NaN), for kStatic8 and
// kStatic16 (to nearest even), and for kQ8, kQ4, kQ3, kQ2 and kKivi4V, whose n is one whole row. A
// group of 32 of these that holds NaN or an infinity becomes NaN.
void from_f32(DType type, const float* in, size_t n, std::byte* out);

// Returns the largest code of a static type.
constexpr int static_limit(DType type) { return type == DType::kStatic8 ? 127 : 32767; }
constexpr bool is_static(DType type) { return type == DType::kStatic8 || type == DType::kStatic16; }

// Convert kGroupRows rows of n elements of a type that stores rows in groups. out: [kGroupRows][n];
// in: the same, with `stride` floats from one row to the next.
void group_to_f32(DType type, const std::byte* const* rows, size_t n, float* out);
void group_from_f32(DType type, const float* in, size_t stride, size_t n, std::byte* const* rows);

float f16_to_f32(uint16_t half);
uint16_t f32_to_f16(float value);
float bf16_to_f32(uint16_t half);
uint16_t f32_to_bf16(float value);

}  // namespace kvick::kernels
