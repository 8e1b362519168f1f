// The linear layers of BF16 by vdpbf16ps: weights unchanged, inputs rounded to bfloat16, sums in
// float32 (docs/adr/0024-bfloat16-products.md).
//
// A lane of a register is a row of a panel, with two inputs of it. The instruction adds the product
// of the second input to the sum and rounds, then that of the first. So
//
//   y = for pairs of inputs in order:  sum = (sum + x[2i+1] w[2i+1]) + x[2i] w[2i]
//
// in one chain per output, for any number of tokens and panels in a tile, and a token's bits depend
// on its own inputs alone. Between chunks of inputs the sum is stored in y. Subnormal numbers count
// as zero.
//
// Bounds of a Zen 4 core: one vdpbf16ps of 512 bits per cycle with a latency of six cycles, so at
// least six chains are needed; one load of 512 bits or broadcast per cycle. A tile of 3 panels and
// 8 tokens keeps 24 sums in registers, and its 24 products need 11 loads.

#include <algorithm>
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

namespace kvick::kernels {
namespace {

constexpr uint32_t kTokens = 8;  // tokens of the largest tile
static_assert(kTokenTile % kTokens == 0);
constexpr size_t kPairBytes = kPanel * 2 * sizeof(uint16_t);  // of two inputs of a panel
static_assert(kPairBytes == kLine);

// A tile of outputs over some groups of inputs.
struct TileJob {
  const std::byte* panel = nullptr;  // the first panel, at the first of these inputs
  size_t panel_bytes = 0;            // from one panel to the next
  const uint16_t* x = nullptr;       // the first token, at the first of these groups
  size_t group_stride = 0;           // inputs from one group of x to the next
  uint32_t groups = 0;
  bool begins = false;  // sums start from 0, else from those in y
  Ahead ahead = kHere;  // how far ahead to prefetch the panels
  uint32_t rows = 0;    // valid rows of all panels
  float* y = nullptr;
  size_t y_stride = 0;
};

}  // namespace
}  // namespace kvick::kernels

KVICK_TARGET_BF16_BEGIN
#include "kernels/linear/panel_avx512.h"

namespace kvick::kernels {
namespace {

KVICK_INLINE __mmask16 valid_rows(const TileJob& job, int panel) {
  const int rows = static_cast<int>(job.rows) - panel * int{kPanel};
  return rows >= int{kPanel} ? __mmask16{0xffff} : static_cast<__mmask16>((1U << rows) - 1);
}

// Inputs 2i and 2i + 1 of a token in every lane.
KVICK_INLINE __m512bh broadcast_pair(const uint16_t* x) {
  int32_t pair;
  __builtin_memcpy(&pair, x, sizeof pair);
  return (__m512bh)_mm512_set1_epi32(pair);
}

template <int kPanels, int kCount>
void tile(const TileJob& job) {
  __m512 sum[kPanels][kCount];
  KVICK_UNROLL for (int p = 0; p < kPanels; ++p) {
    KVICK_UNROLL for (int t = 0; t < kCount; ++t) {
      sum[p][t] = job.begins ? _mm512_setzero_ps()
                             : _mm512_maskz_loadu_ps(valid_rows(job, p),
                                                     job.y + t * job.y_stride + p * int{kPanel});
    }
  }
  constexpr int kPairs = 4;  // pairs per iteration
  const Ahead ahead = job.ahead;
  const std::byte* w = job.panel;
  const uint16_t* x = job.x;
  for (uint32_t g = 0; g < job.groups; ++g, x += job.group_stride)
    for (uint32_t i = 0; i < kGroup; i += 2 * kPairs, w += kPairs * kPairBytes) {
      KVICK_UNROLL for (int j = 0; j < kPairs; ++j) {
        __m512bh weights[kPanels];
        KVICK_UNROLL for (int p = 0; p < kPanels; ++p) {
          const std::byte* at = w + static_cast<size_t>(p) * job.panel_bytes + j * int{kPairBytes};
          prefetch(ahead, at, kPairBytes);
          weights[p] = (__m512bh)_mm512_load_si512(at);
        }
        KVICK_UNROLL for (int t = 0; t < kCount; ++t) {
          const __m512bh pair = broadcast_pair(x + i + t * int{kGroup} + 2 * j);
          KVICK_UNROLL for (int p = 0; p < kPanels; ++p) {
            sum[p][t] = _mm512_dpbf16_ps(sum[p][t], weights[p], pair);
          }
        }
      }
    }
  KVICK_UNROLL for (int p = 0; p < kPanels; ++p) {
    KVICK_UNROLL for (int t = 0; t < kCount; ++t) {
      _mm512_mask_storeu_ps(job.y + t * job.y_stride + p * int{kPanel}, valid_rows(job, p),
                            sum[p][t]);
    }
  }
}

void round_group(const float* x, uint16_t* out) {
  const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + 16), _mm512_loadu_ps(x));
  _mm512_storeu_si512(out, (__m512i)both);
}

using TileFunction = void (*)(const TileJob&);
struct TileFunctions {
  TileFunction of[kPanelsTogether][kTokens];  // by panels - 1 and tokens - 1
};
template <int... kCount>
constexpr TileFunctions make_functions(std::integer_sequence<int, kCount...>) {
  return {{{tile<1, kCount + 1>...}, {tile<2, kCount + 1>...}, {tile<3, kCount + 1>...}}};
}
constexpr TileFunctions kFunctions = make_functions(std::make_integer_sequence<int, kTokens>());

}  // namespace
}  // namespace kvick::kernels

KVICK_TARGET_END

namespace kvick::kernels {
namespace {

// Groups of inputs per chunk: the weights of three panels are then 96 KiB and stay in L2 while a
// pass goes over its tokens.
constexpr uint32_t kChunkGroups = 32;
// Bytes of a chunk of inputs for all tokens of a pass, which stay in L2 for all panels.
constexpr size_t kPassBytes = 512 << 10;

void round_inputs(Activations& a, Range tokens, Range groups) {
  for (uint32_t t = tokens.begin; t < tokens.end; ++t) {
    const TokenPlace place = token_place(a.tokens, t);
    uint16_t* out = a.rounded.data() + place.first * a.inputs + place.index * kGroup;
    for (uint32_t g = groups.begin; g < groups.end; ++g)
      round_group(a.x + size_t{t} * a.inputs + size_t{g} * kGroup,
                  out + size_t{g} * place.tile_tokens * kGroup);
  }
}

// Panels [panel, panel + panels) times tokens [first, last) over groups [begin, end) of inputs.
struct Block {
  uint32_t panel, panels;
  Range tokens, groups;
};
void multiply(const Matrix& w, const Activations& a, float* y, size_t y_stride, const Block& b) {
  TileJob job{.panel = w.panel(b.panel) + size_t{b.groups.begin} * kGroup / 2 * kPairBytes,
              .panel_bytes = w.panel_bytes,
              .groups = b.groups.end - b.groups.begin,
              .begins = b.groups.begin == 0,
              .ahead = a.tokens == 1 ? ahead_of_one(a.read_ahead, kAhead) : kAhead,
              .rows = std::min(b.panels * kPanel, w.rows - b.panel * kPanel),
              .y_stride = y_stride};
  for (uint32_t t = b.tokens.begin; t < b.tokens.end; t += kTokens) {
    const TokenPlace place = token_place(a.tokens, t / kTokenTile * kTokenTile);
    const uint32_t index = t % kTokenTile;
    const uint32_t count = std::min(kTokens, place.tile_tokens - index);
    job.group_stride = size_t{place.tile_tokens} * kGroup;
    job.x = a.rounded.data() + place.first * a.inputs + b.groups.begin * job.group_stride +
            size_t{index} * kGroup;
    job.y = y + t * y_stride + b.panel * kPanel;
    kFunctions.of[b.panels - 1][count - 1](job);
    job.ahead = kHere;
  }
}

void matmul_rounded(const Matrix& w, const Activations& a, float* y, size_t y_stride,
                    uint32_t begin, uint32_t end) {
  KVICK_CHECK_EQ(w.inputs, a.inputs);
  KVICK_CHECK_EQ(a.rounded.size(), size_t{a.tokens} * a.inputs);
  KVICK_CHECK(end <= w.panels(), "panel {} of {}", end, w.panels());
  KVICK_CHECK(has_rounded_matmul(w.dtype), "{} is not multiplied as bfloat16",
              dtype_info(w.dtype).name);
  const uint32_t groups = a.groups(), chunk = std::min(groups, kChunkGroups);
  const size_t tile_bytes = size_t{kTokenTile} * chunk * kGroup * sizeof(uint16_t);
  const auto pass =
      static_cast<uint32_t>(std::max<size_t>(1, kPassBytes / tile_bytes)) * kTokenTile;
  for (uint32_t t = 0; t < a.tokens; t += pass)
    for (uint32_t p = begin; p < end; p += kPanelsTogether)
      for (uint32_t g = 0; g < groups; g += chunk)
        multiply(w, a, y, y_stride,
                 {.panel = p,
                  .panels = std::min(kPanelsTogether, end - p),
                  .tokens = {t, std::min(a.tokens, t + pass)},
                  .groups = {g, std::min(groups, g + chunk)}});
}

}  // namespace

void fill_linear_bf16(Table& table) {
  table.round_inputs = round_inputs;
  table.matmul_rounded = matmul_rounded;
}

}  // namespace kvick::kernels
