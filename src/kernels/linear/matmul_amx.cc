// The linear layers with AMX: a tile instruction multiplies 16 rows with 16 tokens over a group of
// 32 inputs, and AVX-512 scales and adds up the products. docs/adr/0006-amx.md has the figures.
//
// The bits are those of matmul_avx512_impl.h, which computes small batches, the last tokens of a
// batch and formats without tiles: integer sums are exact in any order, and the operations after
// them are the same.

#include <immintrin.h>
#include <utility>

#include "base/check.h"
#include "kernels/isa/target.h"
#include "kernels/linear/matmul.h"
#include "kernels/table/linear.h"

#if !defined(__clang__)
// g++ 12 warns of undefined vectors inside its own intrinsics (bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define KVICK_HAS_VBMI
KVICK_TARGET_AMX_BEGIN
#include "kernels/isa/amx_tiles.h"
#include "kernels/linear/panel_avx512.h"

namespace kvick::kernels {
namespace {

// Tiles of tokens that are multiplied with unpacked weights before these are overwritten.
constexpr uint32_t kBlockTiles = 4;
constexpr int kTileFloats = kTokenTile * kPanel;

constexpr PackFormat format_of(DType type) { return kPackFormats[static_cast<size_t>(type)]; }
// Groups whose products are kept in L1 at a time: 12 KiB for two panels. Q4_K with 128 tokens ran
// at 491, 546, 604 and 526 GOP/s with 2, 4, 6 and 8.
constexpr uint32_t kChunk = 6;
// Batches of fewer tokens are left to AVX-512: with 16 tokens, tiles are 1.2 to 1.35 times as fast
// with weights in L2 but 1.1 times with others, and decoding 16 sequences of SmolLM2 took 6 %
// longer.
constexpr uint32_t kMinTokens = 2 * kTokenTile;
// The last tokens of a batch are left to AVX-512 too if they are fewer: unpacking takes the time
// that tiles save.
constexpr uint32_t kMinRest = 12;
// Formats with a scale per 16 inputs stay with AVX-512 too: tile products of 16 inputs take as long
// as those of 32, and Q6_K reached 0.9 to 1.1 times the speed.
constexpr bool has_tiles(const PackFormat& f) { return f.quantised && f.scale_group == kGroup; }

// The tiles. tmm0 to 3: products, [16 tokens][16 rows]. tmm4, 5: activations, [16 tokens][32].
// tmm6, 7: codes, [8 lines][16 rows][4 inputs].
void configure_products() {
  TileConfig config;
  for (int i = 0; i < 8; ++i)
    config.set(i, i < 6 ? kTokenTile : 8, i == 4 || i == 5 ? kGroup : kLine);
  configure_tiles(config);
}

// -- scratch --------------------------------------------------------------------------------------

// Unpacked weights of some groups of kPanels panels.
template <int kPanels>
struct alignas(64) Weights {
  int8_t codes[kChunk][kPanels][8][kLine];  // u - zero
  float scale[kChunk][kPanels][kPanel];
  float shift[kChunk][kPanels][kPanel];  // -kFloatStart * scale
  float min[kChunk][kPanels][kPanel];
};

// The same groups of a tile of tokens, padded to 16 tokens with zeros.
struct alignas(64) TokenValues {
  float scale[kChunk][kTokenTile];
  float sum[kChunk][kTokenTile];
  int8_t q[kChunk][kTokenTile][kGroup];  // used only if the tile is not full
};

template <int kPanels>
struct alignas(64) Scratch {
  Weights<kPanels> weights;
  TokenValues tokens;
  float products[kChunk * kPanels][kTileFloats];  // [groups][panels] of [tokens][rows]
  float sum[kBlockTiles][kTokenTile][kPanels][kPanel];
  float start[kPanel];
};

// The weights of each panel that are unpacked next. They are prefetched while products are added
// up: unpacking requests lines faster than memory delivers them, and then waits for a free buffer.
template <int kPanels>
struct Next {
  const std::byte* at[kPanels] = {};  // where they begin

  // Prefetches the part of panel p that belongs to this group.
  template <DType kType>
  KVICK_INLINE void ask(uint32_t p, uint32_t group) const {
    constexpr PackFormat f = format_of(kType);
    constexpr size_t kStep =
        (block_offset(f, groups_per_block(f)) / groups_per_block(f) + kLine - 1) / kLine * kLine;
    const auto* from = reinterpret_cast<const char*>(at[p] + group * kStep);
    KVICK_UNROLL for (size_t i = 0; i < kStep; i += kLine) _mm_prefetch(from + i, _MM_HINT_T1);
  }
};

template <DType kType, int kPanels>
void unpack(const std::byte* panel, uint32_t first, uint32_t n, int p, Weights<kPanels>& out) {
  constexpr PackFormat f = format_of(kType);
  for (uint32_t i = 0; i < n; ++i) {
    const std::byte* block = panel + block_offset(f, first + i);
    const uint32_t in_block = (first + i) % groups_per_block(f);
    const std::byte* planes = block + header_bytes(f) + in_block * plane_bytes(f);
    __m512i w[8];
    load_values<kType>(planes, w);
    KVICK_UNROLL for (int j = 0; j < 8; ++j) {
      if constexpr (f.zero != 0)
        w[j] = _mm512_sub_epi8(w[j], _mm512_set1_epi8(static_cast<char>(f.zero)));
      _mm512_store_si512(out.codes[i][p][j], w[j]);
    }
    const Scales scales = load_scales<kType>(block, load_super<kType>(block), in_block);
    _mm512_store_ps(out.scale[i][p], scales.scale[0]);
    _mm512_store_ps(out.shift[i][p], _mm512_mul_ps(scales.scale[0], _mm512_set1_ps(-kFloatStart)));
    if constexpr (f.has_min) _mm512_store_ps(out.min[i][p], scales.min[0]);
  }
}

// Loads groups [first, first + n) of a tile of tokens. Returns where its q are, [n][16][32].
template <DType kType>
const int8_t* load_tokens(const Activations& a, const TokenPlace& place, uint32_t first, uint32_t n,
                          TokenValues& out) {
  const uint32_t tokens = place.tile_tokens;
  const auto used = static_cast<__mmask16>((1u << tokens) - 1);
  const size_t at = place.first * (a.inputs / kGroup) + size_t{first} * tokens;
  const int8_t* q = a.q.data() + at * kGroup;
  for (uint32_t g = 0; g < n; ++g) {
    _mm512_store_ps(out.scale[g], _mm512_maskz_loadu_ps(used, a.scale.data() + at + g * tokens));
    if constexpr (format_of(kType).has_min) {
      const int32_t* sums = a.sums.data() + 2 * (at + g * tokens);
      const __m512i low = _mm512_maskz_loadu_epi32(used, sums);
      const __m512i high = _mm512_maskz_loadu_epi32(used, sums + tokens);
      _mm512_store_ps(out.sum[g], _mm512_cvtepi32_ps(_mm512_add_epi32(low, high)));
    }
  }
  if (tokens == kTokenTile) return q;
  for (uint32_t g = 0; g < n; ++g)
    for (uint32_t t = 0; t < tokens; ++t)
      _mm256_store_si256(
          reinterpret_cast<__m256i*>(out.q[g][t]),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + (g * tokens + t) * kGroup)));
  return out.q[0][0];
}

// -- products -------------------------------------------------------------------------------------

// Computes product kStep of a chunk in the register of product kStep - 4, which is stored first. A
// product takes 52 cycles, and a new one may start every 16.
template <int kPanels, int kStep>
KVICK_INLINE void multiply_step(const int8_t* q, Scratch<kPanels>& s, int n) {
  if (kStep >= n) return;
  constexpr int kGroupOf = kStep / kPanels, kPanelOf = kStep % kPanels;
  constexpr int kProduct = kStep % 4, kTokens = 4 + kGroupOf % 2, kCodes = 6 + kStep % 2;
  if constexpr (kStep >= 4) store_tile<kProduct>(s.products[kStep - 4], kLine);
  if constexpr (kPanelOf == 0) load_tile<kTokens>(q + kGroupOf * int{kTokenTile * kGroup}, kGroup);
  load_tile<kCodes>(s.weights.codes[kGroupOf][kPanelOf], kLine);
  load_tile<kProduct>(s.start, 0);
  dot_tiles<kProduct, kTokens, kCodes>();
}

template <int kPanels, int... kSteps>
KVICK_INLINE void multiply_steps(const int8_t* q, Scratch<kPanels>& s, int n,
                                 std::integer_sequence<int, kSteps...>) {
  (multiply_step<kPanels, kSteps>(q, s, n), ...);
}

// Stores the last product that was computed in register kProduct.
template <int kProduct>
KVICK_INLINE void store_last(float (*products)[kTileFloats], int n) {
  if (kProduct >= n) return;
  store_tile<kProduct>(products[(n - 1 - kProduct) / 4 * 4 + kProduct], kLine);
}

// Computes all products of `groups` groups.
template <int kPanels>
void multiply(const int8_t* q, int groups, Scratch<kPanels>& s) {
  const int n = groups * kPanels;
  multiply_steps(q, s, n, std::make_integer_sequence<int, int{kChunk} * kPanels>());
  store_last<0>(s.products, n);
  store_last<1>(s.products, n);
  store_last<2>(s.products, n);
  store_last<3>(s.products, n);
}

// sum += value * activation scale for 16 / kPanels tokens from `first` on, with the operations of
// add_group in matmul_avx512_impl.h.
template <DType kType, int kPanels, bool kAsk>
void accumulate(const Scratch<kPanels>& s, uint32_t groups, uint32_t first, float* sums,
                const Next<kPanels>& next) {
  constexpr PackFormat f = format_of(kType);
  constexpr int kTokens = kTokenTile / kPanels;
  __m512 sum[kTokens][kPanels];
  KVICK_UNROLL for (int i = 0; i < int{kTokenTile}; ++i) {
    sum[i / kPanels][i % kPanels] = _mm512_load_ps(sums + i * int{kPanel});
  }
  for (uint32_t g = 0; g < groups; ++g) {
    if constexpr (kAsk) next.template ask<kType>(first / kTokens, g);
    __m512 scale[kPanels], shift[kPanels], min[kPanels];
    KVICK_UNROLL for (int p = 0; p < kPanels; ++p) {
      scale[p] = _mm512_load_ps(s.weights.scale[g][p]);
      shift[p] = _mm512_load_ps(s.weights.shift[g][p]);
      if constexpr (f.has_min) min[p] = _mm512_load_ps(s.weights.min[g][p]);
    }
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
      const __m512 token_scale = _mm512_set1_ps(s.tokens.scale[g][first + t]);
      const __m512 token_sum = _mm512_set1_ps(f.has_min ? s.tokens.sum[g][first + t] : 0.0f);
      KVICK_UNROLL for (int p = 0; p < kPanels; ++p) {
        const __m512 product = _mm512_load_ps(s.products[g * kPanels + p] + (first + t) * kPanel);
        __m512 value = _mm512_fmadd_ps(product, scale[p], shift[p]);
        if constexpr (f.has_min) value = _mm512_fmadd_ps(min[p], token_sum, value);
        sum[t][p] = _mm512_fmadd_ps(value, token_scale, sum[t][p]);
      }
    }
  }
  KVICK_UNROLL for (int i = 0; i < int{kTokenTile}; ++i) {
    _mm512_store_ps(sums + i * int{kPanel}, sum[i / kPanels][i % kPanels]);
  }
}

// -- loops ----------------------------------------------------------------------------------------

struct Job {
  const Matrix& w;
  const Activations& a;
  float* y;
  size_t y_stride;
};

// Returns the weights after group `group` - 1 of these panels: group `group`, or the next panels.
template <DType kType, int kPanels>
Next<kPanels> next_of(const Matrix& w, uint32_t panel, uint32_t group) {
  const bool same = group < w.inputs / kGroup;
  Next<kPanels> next;
  for (uint32_t p = 0; p < kPanels; ++p)
    next.at[p] =
        w.data.data() + (panel + p + (same ? 0 : kPanels)) * w.panel_bytes +
        (same ? block_offset(format_of(kType), group) +
                    group % groups_per_block(format_of(kType)) * plane_bytes(format_of(kType))
              : 0);
  return next;
}

// Prefetches the lines of y for some tokens' sums while their last groups are added up. These lines
// are usually in no near cache, and stores that wait for them delay everything after them. With
// these prefetches, prompts of 512 tokens ran at 1.13 (S, Q8_0), 1.21 (S, Q4_K_M) and 1.11 (M,
// Q8_0) times the speed. Prefetching group by group instead of in a burst was as fast.
template <int kPanels>
KVICK_INLINE void ask_for_output(const Job& job, uint32_t panel, uint32_t first, uint32_t tokens) {
  for (uint32_t t = first; t < first + tokens; ++t)
    for (uint32_t p = 0; p < kPanels; ++p)
      __builtin_prefetch(job.y + t * job.y_stride + (panel + p) * kPanel, 1, 3);
}

// Multiplies panels [panel, panel + kPanels) with tokens [first, last), at most kBlockTiles tiles.
template <DType kType, int kPanels>
void run_block(const Job& job, uint32_t panel, uint32_t first, uint32_t last, bool cold,
               Scratch<kPanels>& s) {
  constexpr uint32_t kTokens = kTokenTile / kPanels;
  const uint32_t groups = job.w.inputs / kGroup;
  for (uint32_t t = 0; t < last - first; ++t)
    for (int p = 0; p < kPanels; ++p)
      _mm512_store_ps(s.sum[t / kTokenTile][t % kTokenTile][p], _mm512_setzero_ps());
  for (uint32_t g = 0; g < groups; g += kChunk) {
    const uint32_t n = smaller(kChunk, groups - g);
    for (int p = 0; p < kPanels; ++p)
      unpack<kType, kPanels>(job.w.panel(panel + static_cast<uint32_t>(p)), g, n, p, s.weights);
    const Next<kPanels> next = next_of<kType, kPanels>(job.w, panel, g + n);
    for (uint32_t t = first, tile = 0; t < last; t += kTokenTile, ++tile) {
      const TokenPlace place = token_place(job.a.tokens, t);
      multiply(load_tokens<kType>(job.a, place, g, n, s.tokens), static_cast<int>(n), s);
      for (uint32_t i = 0; i < place.tile_tokens; i += kTokens) {
        if (g + n == groups)
          ask_for_output<kPanels>(job, panel, t + i, smaller(kTokens, place.tile_tokens - i));
        if (cold && tile == 0)
          accumulate<kType, kPanels, true>(s, n, i, s.sum[tile][i][0], next);
        else
          accumulate<kType, kPanels, false>(s, n, i, s.sum[tile][i][0], next);
      }
    }
  }
  for (uint32_t p = 0; p < kPanels; ++p) {
    const uint32_t row = (panel + p) * kPanel;
    const auto valid = static_cast<__mmask16>((1u << smaller(kPanel, job.w.rows - row)) - 1);
    for (uint32_t t = first; t < last; ++t)
      _mm512_mask_storeu_ps(
          job.y + t * job.y_stride + row, valid,
          _mm512_load_ps(s.sum[(t - first) / kTokenTile][(t - first) % kTokenTile][p]));
  }
}

template <DType kType, int kPanels>
void run_panels(const Job& job, uint32_t panel, uint32_t first, uint32_t last) {
  Scratch<kPanels> s;
  _mm512_store_ps(s.start, _mm512_set1_ps(kFloatStart));
  constexpr uint32_t kBlock = kBlockTiles * kTokenTile;
  for (uint32_t t = first; t < last; t += kBlock)
    run_block<kType, kPanels>(job, panel, t, smaller(last, t + kBlock), t == first, s);
}

// Multiplies panels [begin, end) with the first `tokens` tokens.
template <DType kType>
void run(const Job& job, uint32_t tokens, uint32_t begin, uint32_t end) {
  configure_products();  // 53 ns together with release_tiles()
  const uint32_t pass = pass_tokens(job.w);
  for (uint32_t first = 0; first < tokens; first += smaller(pass, tokens - first)) {
    const uint32_t last = first + smaller(pass, tokens - first);
    uint32_t p = begin;
    for (; p + 2 <= end; p += 2) run_panels<kType, 2>(job, p, first, last);
    if (p < end) run_panels<kType, 1>(job, p, first, last);
  }
  release_tiles();
}

using Run = void (*)(const Job&, uint32_t tokens, uint32_t begin, uint32_t end);
struct Runs {
  Run of[kWeightTypes];  // null: left to AVX-512
};
template <DType kType>
constexpr Run run_of() {
  if constexpr (has_tiles(format_of(kType)))
    return run<kernel_type(kType)>;
  else
    return nullptr;
}
template <int... kType>
constexpr Runs make_runs(std::integer_sequence<int, kType...>) {
  return {{run_of<static_cast<DType>(kType)>()...}};
}
constexpr Runs kRuns = make_runs(std::make_integer_sequence<int, kWeightTypes>());

}  // namespace
}  // namespace kvick::kernels

KVICK_TARGET_END

namespace kvick::kernels {
namespace {

void matmul(const Matrix& w, const Activations& a, float* y, size_t y_stride, uint32_t begin,
            uint32_t end) {
  KVICK_CHECK_EQ(w.inputs, a.inputs);
  KVICK_CHECK(end <= w.panels(), "panel {} of {}", end, w.panels());
  const Run run = kRuns.of[static_cast<size_t>(w.dtype)];
  const uint32_t rest = a.tokens % kTokenTile;
  uint32_t tokens = rest < kMinRest ? a.tokens - rest : a.tokens;
  if (run == nullptr || a.tokens < kMinTokens) tokens = 0;
  if (tokens > 0) run({w, a, y, y_stride}, tokens, begin, end);
  if (tokens < a.tokens) run_matmul(vbmi_panel_functions(), w, a, y, y_stride, begin, end, tokens);
}

}  // namespace

void fill_linear_amx(Table& table) {
  fill_linear_vbmi(table);
  fill_linear_tiles(table);
  table.matmul = matmul;
}

}  // namespace kvick::kernels
