#pragma once
// Internal to kernels/: a chunk of inputs of three panels, unpacked, and the start values of their
// products with a tile of tokens, for prompt_block_avx512.h. Included inside the same target
// region.

namespace kvick::kernels {
namespace {

// Groups of a chunk: their codes of three panels, 12 KiB, are unpacked into L1 once for all tokens.
constexpr uint32_t kUnpacked = 8;

// The unpacked weights of a chunk of inputs, which are the same for all tokens.
template <DType kType>
struct alignas(64) PromptChunk {
  static constexpr PackFormat kFormat = kPackFormats[static_cast<size_t>(kType)];
  static constexpr int kParts = kFormat.scale_group == 32 ? 1 : 2;
  std::byte codes[kUnpacked][kPanelsTogether][8 * kLine];
  float scale[kUnpacked][kParts][kPanelsTogether][kPanel];
  float shift[kUnpacked][kPanelsTogether][kPanel];  // of the first part: -kFloatStart * scale
  float min[kFormat.has_min ? kUnpacked : 1][kParts][kPanelsTogether][kPanel];
  uint32_t groups;
};

// Unpacks groups [first, first + out.groups). Group `first` begins a block.
template <DType kType>
KVICK_INLINE void unpack_chunk(const BlockJob& job, uint32_t first, PromptChunk<kType>& out) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  constexpr uint32_t kPer = groups_per_block(f);
  for (uint32_t p = 0; p < kPanelsTogether; ++p) {
    const std::byte* panel = job.panel + p * job.panel_bytes;
    Scales super{};
    for (uint32_t g = 0; g < out.groups; ++g) {
      const std::byte* block = panel + block_offset(f, first + g);
      if (g % kPer == 0) super = load_super<kType>(block);
      __m512i w[8];
      load_values<kType>(block + header_bytes(f) + g % kPer * plane_bytes(f), w);
      KVICK_UNROLL for (int j = 0; j < 8; ++j)
          _mm512_store_si512(out.codes[g][p] + j * int{kLine}, w[j]);
      const Scales s = load_scales<kType>(block, super, g % kPer);
      KVICK_UNROLL for (int h = 0; h < PromptChunk<kType>::kParts; ++h) {
        _mm512_store_ps(out.scale[g][h][p], s.scale[h]);
        if constexpr (f.has_min) _mm512_store_ps(out.min[g][h][p], s.min[h]);
      }
      _mm512_store_ps(out.shift[g][p], _mm512_mul_ps(s.scale[0], _mm512_set1_ps(-kFloatStart)));
    }
  }
}

// Computes the Sums of a tile's tokens for each group of a chunk.
template <DType kType>
KVICK_INLINE void prepare_tile(const int32_t* sums, uint32_t tokens, uint32_t groups, Sums* out) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  constexpr int kParts = PromptChunk<kType>::kParts;
  const auto used = static_cast<__mmask16>((1u << tokens) - 1);
  for (uint32_t g = 0; g < groups; ++g, sums += 2 * size_t{tokens}) {
    __m512i part[2] = {_mm512_maskz_loadu_epi32(used, sums),
                       _mm512_maskz_loadu_epi32(used, sums + tokens)};
    if constexpr (kParts == 1) part[0] = _mm512_add_epi32(part[0], part[1]);
    KVICK_UNROLL for (int h = 0; h < kParts; ++h) {
      const __m512i start = _mm512_set1_epi32(start_of(kTokenTile, h));
      const __m512i zeros = _mm512_mullo_epi32(part[h], _mm512_set1_epi32(-zero_left(f)));
      _mm512_store_si512(out[g].start[h], _mm512_add_epi32(start, zeros));
      if constexpr (f.has_min) _mm512_store_ps(out[g].sum[h], _mm512_cvtepi32_ps(part[h]));
    }
  }
}

}  // namespace
}  // namespace kvick::kernels
