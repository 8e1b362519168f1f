#pragma once
// Internal to kernels/: what the matmul functions of all instruction sets share. An instruction set
// provides one function per format and number of tokens, which multiplies one panel with them. The
// loops around it are here.

#include "kernels/formats/pack.h"
#include "kernels/isa/target.h"

namespace kvick::kernels {

// One panel times a few tokens, which lie next to each other in one tile of the activations.
struct PanelJob {
  const std::byte* panel = nullptr;
  uint32_t inputs = 0;
  uint32_t rows = 0;         // valid rows of the panel: y beyond them is not touched
  uint32_t tokens = 0;       // the number that the function is compiled for, at most kTokenTile
  uint32_t tile_tokens = 0;  // of the whole tile: the step between groups in q, scale and sums
  bool cold = false;         // the panel is read for the first time: prefetch it
  ReadAhead read_ahead = ReadAhead::kTwice;  // how to prefetch for one token
  const int8_t* q = nullptr;  // these and x: of the first token; null for the float formats
  const float* scale = nullptr;
  const int32_t* sums = nullptr;
  const float* x = nullptr;
  float* y = nullptr;
  size_t y_stride = 0;
};
using PanelFunction = void (*)(const PanelJob& job);

// kPanelsTogether adjacent panels times tokens [first, first + tokens), which are whole tiles.
struct BlockJob {
  const std::byte* panel;
  size_t panel_bytes;
  uint32_t rows;  // valid rows, in all panels
  uint32_t first, tokens;
  const Activations& a;
  float* y;  // of the first token
  size_t y_stride;
};
using BlockFunction = void (*)(const BlockJob& job);
// The fewest and the most tokens that PanelFunctions::block and PanelFunctions::prompt take at
// once.
inline constexpr uint32_t kBlockLeast = 8, kBlockTokens = 2 * kTokenTile;
inline constexpr uint32_t kPromptLeast = 6 * kTokenTile, kPromptTokens = 16 * kTokenTile;

// The functions per format, by tokens - 1; null where there is none for that number, never for 1.
struct PanelFunctions {
  PanelFunction of[kWeightTypes][kTokenTile];
  PanelFunction silent[kWeightTypes];  // for one token, without prefetches; null: use of[][0]
  // block: for kBlockLeast to kBlockTokens tokens; prompt: for prompt_least or more. Null: panels
  // are computed one by one.
  BlockFunction block[kWeightTypes], prompt[kWeightTypes];
  uint32_t prompt_least = kPromptLeast;
};

// Computes Table::matmul by these functions, for the tokens from first_token (a multiple of
// kTokenTile) on.
void run_matmul(const PanelFunctions& functions, const Matrix& w, const Activations& a, float* y,
                size_t y_stride, uint32_t begin, uint32_t end, uint32_t first_token = 0);

// Returns the functions for AVX-512 VNNI.
const PanelFunctions& vnni_panel_functions();
// Returns those for VNNI and VBMI; the AMX table uses them for small batches and float weights.
const PanelFunctions& vbmi_panel_functions();

// Returns the tokens per pass over the panels, a multiple of kTokenTile.
uint32_t pass_tokens(const Matrix& w);

// How many bytes before their use weights are prefetched when they are read for the first time:
// `far` into L2, then `near` into L1. One token of Q4_1 with AVX-512 from memory, where a plain
// read gives 16.2 GB/s: 11.0 GB/s without prefetches, 13.9 with the L1 step alone, 15.3 with the L2
// step alone, 16.1 with both. From L3: 28.3, 28.9, 27.0, 28.5. (With 2 and 8 KiB. Half of each,
// spread over a group, is as fast with one token of Q8_0 and up to 1.1 times as fast with 4 to 16.)
struct Ahead {
  size_t near, far;
};
inline constexpr Ahead kAhead = {1 << 10, 4 << 10};
inline constexpr Ahead kHere = {0, 0};
// Returns the distances for one token, for the way that was measured to be fastest. GB/s of a Zen 4
// core with 1536 x 4096 weights, from memory, where a plain read gives 31 to 36, and from L3:
//
//             Q4_K         Q8_0         Q6_K
//   twice     23.0  51.9   27.9  53.1   24.2  50.1
//   once      30.8  47.0   34.1  54.7   28.9  45.4
//   none      30.8  52.7   32.8  77.0   28.0  51.1
//
// (Q4_K "twice" is with 8 KiB: see ahead_of_codes. "none" was measured with prefetches of the line
// that is read next, which the silent functions do not have.) More tokens do more work per byte,
// and "twice" is fastest: two tokens of Q4_K 27.0, 23.4 and 21.6, four 21.6, 18.1 and 14.8. But not
// with two of Q8_0: 22.2, 28.5 and 27.9.
constexpr Ahead ahead_of_one(ReadAhead how, Ahead twice) {
  return how == ReadAhead::kTwice  ? twice
         : how == ReadAhead::kOnce ? Ahead{4 << 10, 4 << 10}
                                   : kHere;
}
// Returns how far ahead to prefetch a panel that is multiplied with `tokens` tokens.
inline Ahead ahead_of(const PanelJob& job, int tokens, Ahead twice) {
  if (!job.cold) return kHere;
  return tokens == 1 ? ahead_of_one(job.read_ahead, twice) : twice;
}

// Where a token is in Activations.
struct TokenPlace {
  uint32_t tile_tokens;  // tokens of its tile
  uint32_t index;        // in its tile
  size_t first;          // tokens in the tiles before
};
inline TokenPlace token_place(uint32_t tokens, uint32_t token) {
  const uint32_t first = token / kTokenTile * kTokenTile;
  return {tokens - first < kTokenTile ? tokens - first : kTokenTile, token - first, first};
}

// Where Table::quantise puts group g of a token.
struct GroupPlace {
  int8_t* q;         // 32
  float* scale;      // 1
  int32_t* sums[2];  // 1 each
};
inline GroupPlace group_place(Activations& a, const TokenPlace& place, uint32_t g) {
  const uint32_t n = place.tile_tokens, i = place.index;
  const size_t groups = place.first * (a.inputs / kGroup);
  int32_t* sums = a.sums.data() + 2 * (groups + size_t{g} * n) + i;
  return {a.q.data() + (groups + size_t{g} * n + i) * kGroup,
          a.scale.data() + groups + size_t{g} * n + i,
          {sums, sums + n}};
}

// Without VNNI, products of codes of at most 2^bits - 1 and |q| <= 127 are added in pairs in 16
// bits. Returns how many of these sums fit before they must be widened. 8-bit codes are made signed
// first.
constexpr int sums_in_16_bits(int bits) {
  const int most = bits == 8 ? 128 : (1 << bits) - 1;
  const int fit = 32767 / (most * 127 * 2);
  return fit < 8 ? fit : 8;
}

// Groups whose max|x| is below this count as zero, because 127 / max|x| must be finite.
inline constexpr float kTinyActivation = 1e-30f;

}  // namespace kvick::kernels
