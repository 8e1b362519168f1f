#pragma once
// Internal to kernels/: unpacks weights to tiles of bfloat16, the right operand of a product: [16
// pairs of inputs][16 rows][2]. Included inside the target region of the files that use them, after
// panel_avx512.h.

namespace kvick::kernels {
namespace {

constexpr size_t kTileBytes = 1024;

// Where the bytes of four vectors of floats are in a line of codes. Vector v holds inputs 2 * (v /
// 2) and 2 * (v / 2) + 1, alternating, of rows 8 * (v % 2) to 8 * (v % 2) + 7.
struct alignas(64) CodePlaces {
  uint8_t of[4][64] = {};
  explicit constexpr CodePlaces(int byte) {
    for (int v = 0; v < 4; ++v)
      for (int i = 0; i < 16; ++i)
        of[v][4 * i + byte] = static_cast<uint8_t>(4 * (v % 2 * 8 + i / 2) + v / 2 * 2 + i % 2);
  }
};
// A code becomes a float when it is put into the significand of one: 2^7 + u if u has at most 7
// bits, else 2^15 + u.
template <int kBits>
struct CodeFloat {
  static constexpr int kByte = kBits < 8 ? 2 : 1;
  static constexpr float kBase = kBits < 8 ? 0x1p7F : 0x1p15F;
  static constexpr CodePlaces kPlaces{kByte};
};

// Repeats each value twice: the lower eight values in out[0], the upper eight in out[1].
KVICK_INLINE void in_pairs(__m512 values, __m512 out[2]) {
  const __m512i low = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
  out[0] = _mm512_permutexvar_ps(low, values);
  out[1] = _mm512_permutexvar_ps(_mm512_add_epi32(low, _mm512_set1_epi32(8)), values);
}

KVICK_INLINE void store_rounded(__m512 first, __m512 second, void* out) {
  const __m512bh both = _mm512_cvtne2ps_pbh(second, first);
  std::memcpy(out, &both, sizeof both);
}

// Unpacks the weights of lines [kFirst, kLast) of codes, which have one scale. Without a minimum
// they are exact until they are rounded: a code times a scale has at most 19 significant bits, and
// so has the base times a scale, which is added and subtracted.
template <DType kType, int kFirst, int kLast>
KVICK_INLINE void unpack_lines(const __m512i w[8], __m512 row_scale, __m512 row_min,
                               std::byte* out) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  using Float = CodeFloat<f.value_bits>;
  __m512 scale[2], shift[2];
  in_pairs(row_scale, scale);
  const __m512 zero = _mm512_set1_ps(-(Float::kBase + static_cast<float>(f.zero)));
  if constexpr (f.has_min)
    in_pairs(_mm512_fmadd_ps(row_scale, zero, row_min), shift);
  else
    in_pairs(_mm512_mul_ps(row_scale, zero), shift);
  const __m512i base = _mm512_castps_si512(_mm512_set1_ps(Float::kBase));
  constexpr __mmask64 kCode = 0x1111111111111111U << Float::kByte;
  KVICK_UNROLL for (int j = kFirst; j < kLast; ++j) {
    __m512 value[4];
    KVICK_UNROLL for (int v = 0; v < 4; ++v) {
      const __m512i code =
          _mm512_mask_permutexvar_epi8(base, kCode, _mm512_load_si512(Float::kPlaces.of[v]), w[j]);
      value[v] = _mm512_fmadd_ps(_mm512_castsi512_ps(code), scale[v % 2], shift[v % 2]);
    }
    store_rounded(value[0], value[1], out + 2 * j * int{kLine});
    store_rounded(value[2], value[3], out + (2 * j + 1) * int{kLine});
  }
}

template <DType kType>
KVICK_INLINE void unpack_codes(const std::byte* panel, uint32_t group, std::byte* out) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  const std::byte* block = panel + block_offset(f, group);
  const uint32_t in_block = group % groups_per_block(f);
  __m512i w[8];
  load_values<kType>(block + header_bytes(f) + in_block * plane_bytes(f), w);
  const Scales s = load_scales<kType>(block, load_super<kType>(block), in_block);
  if constexpr (f.scale_group == kGroup) {
    unpack_lines<kType, 0, 8>(w, s.scale[0], s.min[0], out);
  } else {
    unpack_lines<kType, 0, 4>(w, s.scale[0], s.min[0], out);
    unpack_lines<kType, 4, 8>(w, s.scale[1], s.min[1], out);
  }
}

// Interleaves two rows of 16 numbers.
KVICK_INLINE __m512i alternating(__m256i first, __m256i second) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(first),
                         _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
}

KVICK_INLINE __m256i half_to_bf16(__m256i half) {
  const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_cvtph_ps(half));
  __m256i bits;
  std::memcpy(&bits, &rounded, sizeof bits);
  return bits;
}

template <DType kType>
KVICK_INLINE void unpack_floats(const std::byte* panel, uint32_t group, std::byte* out) {
  static_assert(kType == DType::kF16 || kType == DType::kBF16);
  const std::byte* from = panel + size_t{group} * kGroup * kHalfRow;
  KVICK_UNROLL for (int i = 0; i < int{kGroup} / 2; ++i) {
    __m512i pairs = _mm512_load_si512(from + i * int{kLine});  // packed in a tile's order
    if constexpr (kType == DType::kF16) {
      const __m256i first = half_to_bf16(_mm512_castsi512_si256(pairs));
      pairs = alternating(first, half_to_bf16(_mm512_extracti64x4_epi64(pairs, 1)));
    }
    _mm512_store_si512(out + i * int{kLine}, pairs);
  }
}

// Unpacks group `group` of a panel to a tile.
template <DType kType>
KVICK_INLINE void unpack_tile(const std::byte* panel, uint32_t group, std::byte* out) {
  if constexpr (kPackFormats[static_cast<size_t>(kType)].quantised)
    unpack_codes<kType>(panel, group, out);
  else
    unpack_floats<kType>(panel, group, out);
}

// Prefetches what unpack_tile reads of a group. Both functions must be inlined: g++ 12 takes a
// function of only prefetches to have no effect, and drops the call.
KVICK_INLINE void ask_for_lines(const std::byte* at, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kLine)
    _mm_prefetch(reinterpret_cast<const char*>(at + i), _MM_HINT_T1);
}
template <DType kType>
KVICK_INLINE void ask_for_tile(const std::byte* panel, uint32_t group) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  if constexpr (f.quantised) {
    const std::byte* block = panel + block_offset(f, group);
    const uint32_t in_block = group % groups_per_block(f);
    ask_for_lines(block + in_block * header_bytes(f) / groups_per_block(f), 1);
    ask_for_lines(block + header_bytes(f) + in_block * plane_bytes(f), plane_bytes(f));
  } else {
    ask_for_lines(panel + size_t{group} * kGroup * kHalfRow, kGroup * kHalfRow);
  }
}

}  // namespace
}  // namespace kvick::kernels
