#pragma once
// Internal to kernels/: three panels of any quantised format times the many tokens of a prompt.
// Included by functions_avx512.h and matmul_vbmi.cc, after matmul_avx512_impl.h.
//
// When panels are multiplied one by one, every vpdpbusd loads four inputs of a token again. A
// panel, a token and a group of 32 inputs then take 11 loads or more (a core does two per cycle)
// and 31 to 40 instructions. Here the codes of three panels are unpacked into L1 once for all
// tokens. Four inputs of a token are loaded once for three panels, and a line of codes once for
// four tokens: about 5 loads and 17 instructions. GOP/s of one Zen 5 core, whose vpdpbusd alone
// reach 1090, with 4096 x 4096 weights and 512 tokens:
//
//                   Q4_0  Q8_0  IQ4_XS  Q4_K  Q5_K  Q6_K  Q3_K  Q2_K
//   panel by panel  707   693     695   691   653   566   580   584
//   here            797   775     780   726   713   683   678   608
//
// Whole models read prompts of 512 tokens 1.03 to 1.18 times as fast. Short prompts are slower:
// SmolLM2's shape in Q8_0 read 48 tokens at 0.90 of the rate, 64 at 0.95 and 96 at 1.03. While a
// tile of tokens is multiplied, a part of the next chunk's weights is prefetched, which made Q4_K
// from memory 1.09 times as fast. Not measured on Intel and Zen 4.

#include "kernels/linear/prompt_tile_avx512.h"

namespace kvick::kernels {
namespace {

// Prefetches `lines` lines of each of three panels, from `at` in the first one on.
KVICK_INLINE void ask_for(const std::byte* at, size_t panel_bytes, uint32_t lines) {
  for (uint32_t i = 0; i < lines; ++i)
    for (size_t p = 0; p < kPanelsTogether; ++p)
      _mm_prefetch(reinterpret_cast<const char*>(at + i * kLine + p * panel_bytes), _MM_HINT_T1);
}

template <DType kType>
void prompt_block(const BlockJob& job) {
  const Activations& a = job.a;
  const uint32_t groups = a.groups();
  alignas(64) PromptSums sums[kPromptTokens];
  std::memset(sums, 0, job.tokens * sizeof(PromptSums));
  alignas(64) PromptChunk<kType> w;
  Sums prepared[kUnpacked];
  constexpr auto kLines = static_cast<uint32_t>(
      panel_bytes(kPackFormats[static_cast<size_t>(kType)], kUnpacked) / kLine);
  const uint32_t tiles = (job.tokens + kTokenTile - 1) / kTokenTile;
  const uint32_t step = (kLines + tiles - 1) / tiles;  // lines to prefetch per tile
  for (uint32_t g = 0; g < groups; g += kUnpacked) {
    w.groups = groups - g < kUnpacked ? groups - g : kUnpacked;
    unpack_chunk<kType>(job, g, w);
    // After the last chunk of these panels comes the first of the next three.
    const std::byte* next =
        job.panel + (g + kUnpacked < groups
                         ? block_offset(kPackFormats[static_cast<size_t>(kType)], g + kUnpacked)
                         : kPanelsTogether * job.panel_bytes);
    for (uint32_t t = 0; t < job.tokens; t += kTokenTile) {
      const TokenPlace place = token_place(a.tokens, job.first + t);
      const size_t at = place.first * groups + size_t{g} * place.tile_tokens;
      ask_for(next, job.panel_bytes, step);
      next += step * kLine;
      prepare_tile<kType>(a.sums.data() + 2 * at, place.tile_tokens, w.groups, prepared);
      add_prompt_tile<kType>(w, place.tile_tokens, a.q.data() + at * kGroup, a.scale.data() + at,
                             prepared, sums + t);
    }
  }
  constexpr uint32_t kBefore = (kPanelsTogether - 1) * kPanel;
  const auto last = static_cast<__mmask16>((1u << (job.rows - kBefore)) - 1);
  for (uint32_t t = 0; t < job.tokens; ++t)
    for (uint32_t p = 0; p < kPanelsTogether; ++p)
      _mm512_mask_storeu_ps(job.y + t * job.y_stride + p * kPanel,
                            p + 1 < kPanelsTogether ? __mmask16{0xffff} : last,
                            _mm512_load_ps(sums[t][p]));
}

template <DType kType>
constexpr BlockFunction prompt_function() {
  if constexpr (kPackFormats[static_cast<size_t>(kType)].quantised)
    return prompt_block<kernel_type(kType)>;
  else
    return nullptr;
}

}  // namespace
}  // namespace kvick::kernels
