#pragma once
// Internal to kernels/: panels of quantised formats times many tokens. Included by
// matmul_avx2_impl.h, after dots_avx2.h or dots_avxvnni.h. Larger than a header should be because
// it is one function in its parts.
//
// Panel by panel, a half of 8 rows, four tokens and a group of 32 inputs take 32 loads of four
// inputs, which are loaded again for the other half, and 60 instructions to multiply and add in 16
// bits. More are needed to unpack codes and for scales, zeros and prefetches. Here codes are
// unpacked into L1 once for up to 64 tokens, and where registers allow, an input that is loaded
// once is multiplied with both halves. GOP/s of one Zen 3 core beside other guests, 2048 x 4096
// weights, 128 tokens, the best of alternating runs:
//
//                     Q4_0  Q4_K  Q5_K  Q6_K  Q3_K  Q8_0  IQ4_XS
//   panel by panel     133   135   116   101   115    98      95
//   here               181   182   140   125   131   117     116
//
// The bound is that Zen 3 multiplies (vpmaddubsw, vpmaddwd) and moves signs (vpsignb) in two of its
// four vector units, and distributes additions over all four. So 8 multiplications and 8 additions
// take 6 cycles and not 4, as a loop of nothing else shows (253 GOP/s). Values of 8 bits take three
// instructions on these two units and an addition: 132 GOP/s in such a loop. Two alternatives reach
// little more there: multiplying nibbles separately (133; up to 140 with six tokens), and products
// of 16 bits (147, with inputs twice as wide). Products in 16 bits of values with fewer bits, or
// with one bit separate, need as many instructions as moving the sign.

namespace kvick::kernels {
namespace {

constexpr int kTokensTogether = 4;
constexpr uint32_t kUnpacked = 8;  // groups of a chunk, whole blocks of every format
// Tokens that are multiplied with an unpacked chunk. Their inputs are in L1 beside it.
constexpr uint32_t kPassTokens = 4 * kTokenTile;

// A few groups of a panel, unpacked.
template <DType kType>
struct PromptChunk {
  static constexpr PackFormat kFormat = kPackFormats[static_cast<size_t>(kType)];
  static constexpr int kParts = kFormat.scale_group == 32 ? 1 : 2;
  static constexpr int kCount = halves_together(kFormat);

  uint32_t groups = 0;
  UnpackedCodes codes[kUnpacked][kHalves];
  Scales scales[kUnpacked][kHalves];
};

template <DType kType>
void unpack_chunk(const std::byte* panel, uint32_t first, PromptChunk<kType>& w) {
  constexpr PackFormat f = PromptChunk<kType>::kFormat;
  for (uint32_t g = 0; g < w.groups; ++g) {
    const std::byte* block = panel + block_offset(f, first + g);
    const uint32_t group = (first + g) % groups_per_block(f);
    const std::byte* planes = block + header_bytes(f) + group * plane_bytes(f);
    for (int half = 0; half < kHalves; ++half) {
      w.scales[g][half] = load_scales<kType>(block, group, half);
      KVICK_UNROLL for (int j = 0; j < 8; ++j) {
        w.codes[g][half][j] =
            factor_of<f.value_bits>(load_values<kType>(planes + half * (kLine / kHalves), j));
      }
    }
  }
}

// Where kTokens tokens of a tile are in Activations, from a chunk's first group on.
struct TileTokens {
  const int8_t* q;
  const float* scale;
  const int32_t* sums;
  uint32_t tile_tokens;
};

// Per part of a group and token: what the zero adds to the dot product, and the sum of the inputs.
template <int kParts>
struct Totals {
  alignas(16) int32_t zero[kParts][kTokensTogether];
  alignas(16) float sum[kParts][kTokensTogether];
};

template <int kTokens>
KVICK_INLINE __m128i load_sums(const int32_t* in) {
  if constexpr (kTokens == 4) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(in));
  alignas(16) int32_t sums[4] = {};
  for (int t = 0; t < kTokens; ++t) sums[t] = in[t];
  return _mm_load_si128(reinterpret_cast<const __m128i*>(sums));
}

template <DType kType, int kTokens>
KVICK_INLINE Totals<PromptChunk<kType>::kParts> totals_of(const TileTokens& in) {
  constexpr int kParts = PromptChunk<kType>::kParts;
  Totals<kParts> totals;
  KVICK_UNROLL for (int h = 0; h < kParts; ++h) {
    __m128i sums = load_sums<kTokens>(in.sums + h * in.tile_tokens);
    if constexpr (kParts == 1)
      sums = _mm_add_epi32(sums, load_sums<kTokens>(in.sums + in.tile_tokens));
    if constexpr (zero_of(PromptChunk<kType>::kFormat) != 0)
      _mm_store_si128(reinterpret_cast<__m128i*>(totals.zero[h]),
                      _mm_mullo_epi32(sums, _mm_set1_epi32(-zero_of(PromptChunk<kType>::kFormat))));
    if constexpr (PromptChunk<kType>::kFormat.has_min)
      _mm_store_ps(totals.sum[h], _mm_cvtepi32_ps(sums));
  }
  return totals;
}

// Adds a chunk's products with kTokens tokens to `acc`. The arithmetic of a token is that of
// add_group of matmul_avx2_impl.h.
template <DType kType, int kTokens>
KVICK_INLINE void add_tokens(const PromptChunk<kType>& w, TileTokens in, float (*acc)[kPanel]) {
  using Chunk = PromptChunk<kType>;
  constexpr PackFormat f = Chunk::kFormat;
  for (uint32_t g = 0; g < w.groups; ++g) {
    const Totals<Chunk::kParts> totals = totals_of<kType, kTokens>(in);
    KVICK_UNROLL for (int half = 0; half < kHalves; half += Chunk::kCount) {
      // Makes g++ load inputs where they are used. It would keep those of the first half on the
      // stack for the second.
      asm("" : : "r"(&totals) : "memory");
      __m256 value[Chunk::kCount][kTokens];
      KVICK_UNROLL for (int h = 0; h < Chunk::kParts; ++h) {
        __m256i products[Chunk::kCount][kTokens];
        constexpr int kStep = 8 / Chunk::kParts;
        const auto* codes = w.codes[g] + half;
        if (h == 0)
          dot_unpacked<kType, Chunk::kCount, kTokens, 0, kStep>(codes, in.q, products);
        else
          dot_unpacked<kType, Chunk::kCount, kTokens, 8 - kStep, 8>(codes, in.q, products);
        KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
          KVICK_UNROLL for (int c = 0; c < Chunk::kCount; ++c) {
            const Scales& s = w.scales[g][half + c];
            __m256i sum = products[c][t];
            if constexpr (zero_of(f) != 0)
              sum = _mm256_add_epi32(sum, _mm256_set1_epi32(totals.zero[h][t]));
            const __m256 product = _mm256_cvtepi32_ps(sum);
            value[c][t] = h == 0 ? _mm256_mul_ps(product, s.scale[h])
                                 : _mm256_fmadd_ps(product, s.scale[h], value[c][t]);
            if constexpr (f.has_min)
              value[c][t] =
                  _mm256_fmadd_ps(s.min[h], _mm256_set1_ps(totals.sum[h][t]), value[c][t]);
          }
        }
      }
      KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
        const __m256 scale = _mm256_set1_ps(in.scale[t]);
        KVICK_UNROLL for (int c = 0; c < Chunk::kCount; ++c) {
          float* const at = acc[t] + (half + c) * kLanes;
          _mm256_store_ps(at, _mm256_fmadd_ps(value[c][t], scale, _mm256_load_ps(at)));
        }
      }
    }
    in.q += size_t{in.tile_tokens} * kGroup;
    in.scale += in.tile_tokens;
    in.sums += 2 * size_t{in.tile_tokens};
  }
}

// Prefetches `lines` lines.
KVICK_INLINE void ask_for(const std::byte* at, uint32_t lines) {
  for (uint32_t i = 0; i < lines; ++i)
    _mm_prefetch(reinterpret_cast<const char*>(at + i * kLine), _MM_HINT_T1);
}

// Multiplies one panel with some tokens of a block.
template <DType kType>
void prompt_panel(const BlockJob& job, const std::byte* panel, Range tokens, float (*acc)[kPanel]) {
  const Activations& a = job.a;
  const uint32_t groups = a.groups();
  PromptChunk<kType> w;
  constexpr auto kLines =
      static_cast<uint32_t>(panel_bytes(PromptChunk<kType>::kFormat, kUnpacked) / kLine);
  const uint32_t steps = (tokens.end - tokens.begin + kTokensTogether - 1) / kTokensTogether;
  const uint32_t step = (kLines + steps - 1) / steps;  // lines to prefetch per step
  for (uint32_t g = 0; g < groups; g += kUnpacked) {
    w.groups = groups - g < kUnpacked ? groups - g : kUnpacked;
    unpack_chunk<kType>(panel, g, w);
    // After the last chunk of a panel comes the first of the next one.
    const std::byte* next =
        panel + (g + kUnpacked < groups ? block_offset(PromptChunk<kType>::kFormat, g + kUnpacked)
                                        : job.panel_bytes);
    for (uint32_t t = tokens.begin; t < tokens.end;) {
      const TokenPlace place = token_place(a.tokens, job.first + t);
      const size_t tile = place.first * groups + size_t{g} * place.tile_tokens;
      const size_t at = tile + place.index;
      const TileTokens in = {a.q.data() + at * kGroup, a.scale.data() + at,
                             a.sums.data() + 2 * tile + place.index, place.tile_tokens};
      ask_for(next, step);
      next += step * kLine;
      const uint32_t left = place.tile_tokens - place.index;
      float(*const sums)[kPanel] = acc + (t - tokens.begin);
      if (left >= 4) {
        add_tokens<kType, 4>(w, in, sums);
        t += 4;
      } else if (left >= 2) {
        add_tokens<kType, 2>(w, in, sums);
        t += 2;
      } else {
        add_tokens<kType, 1>(w, in, sums);
        t += 1;
      }
    }
  }
}

template <DType kType>
void prompt_block(const BlockJob& job) {
  alignas(64) float acc[kPassTokens][kPanel];
  for (uint32_t first = 0; first < job.tokens; first += kPassTokens) {
    const uint32_t end = job.tokens - first < kPassTokens ? job.tokens : first + kPassTokens;
    for (uint32_t p = 0; p < kPanelsTogether; ++p) {
      std::memset(acc, 0, sizeof acc);
      prompt_panel<kType>(job, job.panel + p * job.panel_bytes, {first, end}, acc);
      const uint32_t rows = job.rows - p * kPanel < kPanel ? job.rows - p * kPanel : kPanel;
      for (uint32_t t = first; t < end; ++t)
        std::memcpy(job.y + t * job.y_stride + p * kPanel, acc[t - first], rows * sizeof(float));
    }
  }
}

template <DType kType>
constexpr BlockFunction prompt_function() {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  if constexpr (f.quantised)
    return prompt_block<kernel_type(kType)>;
  else
    return nullptr;
}

}  // namespace
}  // namespace kvick::kernels
