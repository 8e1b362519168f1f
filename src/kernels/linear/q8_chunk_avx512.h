#pragma once
// Internal to kernels/: a chunk of inputs of three panels of Q8_0, and the start values of their
// products with a tile of tokens, for q8_block_avx512.h. Included inside the same target region.

namespace kvick::kernels {
namespace {

constexpr PackFormat kQ8 = kPackFormats[static_cast<size_t>(DType::kQ8_0)];
static_assert(kQ8.bits == 8 && kQ8.scale_group == kGroup && !kQ8.has_min &&
              kQ8.scales == ScaleKind::kHalves);

// Groups of a chunk: their codes of three panels, 12 KiB, stay in L1 for all tokens. 12 and 16
// groups were up to 5 % slower with weights from memory.
constexpr uint32_t kChunk = 8;
constexpr int kWide = kPanelsTogether;

// The weights of a chunk, which are the same for all tokens.
struct Q8Chunk {
  bool first;  // the panels' first chunk: nothing has been summed yet
  uint32_t groups;
  const std::byte* codes[kChunk];  // of the first panel, 8 lines
  alignas(64) float scale[kChunk][kWide][kPanel];
  alignas(64) float shift[kChunk][kWide][kPanel];  // -kFloatStart * scale
};

// The state of prefetching the next chunk: `step` lines of every panel at a time.
struct Asks {
  const std::byte* next;
  size_t panel_bytes;
  uint32_t step;
};

KVICK_INLINE void ask(Asks& asks, uint32_t lines) {
  for (uint32_t i = 0; i < lines; ++i, asks.next += kLine)
    for (size_t p = 0; p < kWide; ++p)
      _mm_prefetch(reinterpret_cast<const char*>(asks.next + p * asks.panel_bytes), _MM_HINT_T1);
}

KVICK_INLINE void scale_chunk(const BlockJob& job, uint32_t first, Q8Chunk& out) {
  for (uint32_t g = 0; g < out.groups; ++g) {
    const uint32_t in_block = (first + g) % groups_per_block(kQ8);
    const std::byte* block = job.panel + block_offset(kQ8, first + g);
    out.codes[g] = block + header_bytes(kQ8) + in_block * plane_bytes(kQ8);
    KVICK_UNROLL for (int p = 0; p < kWide; ++p) {
      const __m512 scale = load_half(block + size_t(p) * job.panel_bytes + in_block * kHalfRow);
      _mm512_store_ps(out.scale[g][p], scale);
      _mm512_store_ps(out.shift[g][p], _mm512_mul_ps(scale, _mm512_set1_ps(-kFloatStart)));
    }
  }
}

// The start values of the dot products of a tile's tokens with a chunk.
using Starts = int32_t[kChunk][kTokenTile];

KVICK_INLINE void start_chunk(const int32_t* sums, uint32_t tokens, uint32_t groups, Starts& out) {
  const auto used = static_cast<__mmask16>((1u << tokens) - 1);
  for (uint32_t g = 0; g < groups; ++g, sums += 2 * size_t{tokens}) {
    const __m512i sum = _mm512_add_epi32(_mm512_maskz_loadu_epi32(used, sums),
                                         _mm512_maskz_loadu_epi32(used, sums + tokens));
    const __m512i zeros = _mm512_mullo_epi32(sum, _mm512_set1_epi32(-zero_left(kQ8)));
    _mm512_store_si512(out[g], _mm512_add_epi32(_mm512_set1_epi32(kFloatStartBits), zeros));
  }
}

}  // namespace
}  // namespace kvick::kernels
