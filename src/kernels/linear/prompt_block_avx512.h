#pragma once
// Internal to kernels/: three panels of any quantised format times the many tokens of a prompt.
// Included by functions_avx512.h and matmul_vbmi.cc, after matmul_avx512_impl.h.
//
// Panel by panel, every vpdpbusd loads its own broadcast: a token, a panel and a group take 11
// loads or more, two of them a cycle, and 31 to 40 instructions. Here a broadcast serves three
// panels and a line of codes four tokens, for which codes are unpacked into L1 once for all tokens:
// about 5 loads and 17 instructions. One Zen 5 core, 1090 GOP/s of vpdpbusd, 4096 x 4096 weights,
// 512 tokens, GOP/s:
//
//                   Q4_0  Q8_0  IQ4_XS  Q4_K  Q5_K  Q6_K  Q3_K  Q2_K
//   panel by panel  707   693     695   691   653   566   580   584
//   here            797   775     780   726   713   683   678   608
//
// Whole models, prompts of 512 tokens: 1.05 to 1.20 times. Below 96 tokens it is no use: a small
// model's 48 took 0.90 of the rate, its 64 0.95, 96 1.03. Each tile asks for a part of the next
// chunk's lines: weights from memory gained 1.09 times by that.

namespace kvick::kernels {
namespace {

// Groups whose codes of three panels, 12 KiB, are unpacked into L1 before all tokens meet them.
constexpr uint32_t kUnpacked = 8;

// What is the same for all tokens of a chunk of inputs.
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

// Groups [first, first + out.groups), which begin a block.
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

// Sums of a tile's tokens, for each group of a chunk.
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

using PromptSums = float[kPanelsTogether][kPanel];  // of one token

// Dot products that are interleaved, of three panels each: twelve chains hide the latency of one.
constexpr int kTokensTogether = 4;

// sums[kTokens] += a chunk's products with the tokens from `first` on of a tile: what add_group()
// does for one panel, to the same bits. q and scale are at the first token. With scales of 16
// inputs the values of a group take the registers in which sums stay otherwise: Q6_K at 668 GOP/s
// on Zen 5, where sums of two tokens in registers gave 630 one part after the other and 594 both at
// once.
template <DType kType, int kTokens>
KVICK_INLINE void add_tokens(const PromptChunk<kType>& w, uint32_t tile_tokens, const int8_t* q,
                             const float* scale, const Sums* prepared, uint32_t first,
                             PromptSums* sums) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  constexpr int kWide = int{kPanelsTogether}, kParts = PromptChunk<kType>::kParts;
  constexpr int kPart = 8 / kParts;
  __m512 acc[kTokens][kWide];
  const auto load_sums = [&] {
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) KVICK_UNROLL for (int p = 0; p < kWide; ++p)
        acc[t][p] = _mm512_load_ps(sums[t][p]);
  };
  const auto store_sums = [&] {
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) KVICK_UNROLL for (int p = 0; p < kWide; ++p)
        _mm512_store_ps(sums[t][p], acc[t][p]);
  };
  if constexpr (kParts == 1) load_sums();
  for (uint32_t g = 0; g < w.groups; ++g) {
    __m512 value[kTokens][kWide];
    KVICK_UNROLL for (int h = 0; h < kParts; ++h) {
      __m512i dot[kTokens][kWide];
      DotPairs pairs[kTokens][kWide];
      KVICK_UNROLL for (int t = 0; t < kTokens; ++t) KVICK_UNROLL for (int p = 0; p < kWide; ++p)
          dot[t][p] = _mm512_set1_epi32(prepared[g].start[h][first + t]);
      KVICK_UNROLL for (int j = h * kPart; j < (h + 1) * kPart; ++j) {
        DotCodes codes[kWide];
        KVICK_UNROLL for (int p = 0; p < kWide; ++p) codes[p] =
            dot_codes<f.value_bits>(line(w.codes[g][p], j));
        KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
          const __m512i four = _mm512_broadcastd_epi32(_mm_loadu_si32(q + t * int{kGroup} + 4 * j));
          KVICK_UNROLL for (int p = 0; p < kWide; ++p) add_product<f.value_bits, kPart>(
              j - h * kPart, codes[p], four, pairs[t][p], dot[t][p]);
        }
      }
      KVICK_UNROLL for (int p = 0; p < kWide; ++p) {
        const __m512 s = _mm512_load_ps(w.scale[g][h][p]), shift = _mm512_load_ps(w.shift[g][p]);
        KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
          value[t][p] = h == 0 ? _mm512_fmadd_ps(_mm512_castsi512_ps(dot[t][p]), s, shift)
                               : _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[t][p]), s, value[t][p]);
          if constexpr (f.has_min)
            value[t][p] =
                _mm512_fmadd_ps(_mm512_load_ps(w.min[g][h][p]),
                                _mm512_set1_ps(prepared[g].sum[h][first + t]), value[t][p]);
        }
      }
    }
    if constexpr (kParts == 2) load_sums();
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
      const __m512 s = _mm512_set1_ps(scale[t]);
      KVICK_UNROLL for (int p = 0; p < kWide; ++p) acc[t][p] =
          _mm512_fmadd_ps(value[t][p], s, acc[t][p]);
    }
    if constexpr (kParts == 2) {
      store_sums();
      asm volatile("" : : : "memory");  // or g++ keeps them in registers that it does not have
    }
    q += size_t{tile_tokens} * kGroup;
    scale += tile_tokens;
  }
  if constexpr (kParts == 1) store_sums();
}

// A tile's tokens are taken in as few parts as there can be, of about one size.
template <DType kType>
KVICK_INLINE void add_prompt_tile(const PromptChunk<kType>& w, uint32_t tokens, const int8_t* q,
                                  const float* scale, const Sums* prepared, PromptSums* sums) {
  uint32_t parts = (tokens + kTokensTogether - 1) / kTokensTogether;
  for (uint32_t t = 0, n; t < tokens; t += n, --parts) {
    n = (tokens - t + parts - 1) / parts;
    const auto add = [&]<int kTokens>() {
      add_tokens<kType, kTokens>(w, tokens, q + size_t{t} * kGroup, scale + t, prepared, t,
                                 sums + t);
    };
    if (n == 4) add.template operator()<4>();
    if (n == 3) add.template operator()<3>();
    if (n == 2) add.template operator()<2>();
    if (n == 1) add.template operator()<1>();
  }
}

// Asks for `lines` lines of each of three panels, from `at` in the first one on.
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
  const uint32_t step = (kLines + tiles - 1) / tiles;  // lines to ask for in a tile
  for (uint32_t g = 0; g < groups; g += kUnpacked) {
    w.groups = groups - g < kUnpacked ? groups - g : kUnpacked;
    unpack_chunk<kType>(job, g, w);
    // What follows the last chunk of these panels is the first of the next three.
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
