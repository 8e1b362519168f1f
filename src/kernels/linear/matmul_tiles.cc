// The linear layers of prompts on AMX tiles of bfloat16
// (docs/adr/0023-linear-layers-of-prompts.md).
//
// Weights and inputs are rounded to bfloat16, sums are float32:
//
//   w'  = bfloat16(weight), the weight as dequantised, in float32, with at most one rounding
//   y   = over groups of 32 inputs in order: sum += x' w', as tdpbf16ps adds them up
//
// So products need no scaling, sums stay in tiles, and a token's bits depend on its own inputs
// alone.
//
// Bounds of a core: a product of 16 tokens and 16 rows over 32 inputs takes 16 cycles and needs a
// tile of weights and a tile of tokens. Each tile serves two products here, so a cycle loads 32
// bytes of weights from L1 and 32 bytes of tokens from L2. Vector instructions run beside tiles,
// with one port less (ADR 6), so the next weights are unpacked between the products of the current
// ones.

#include <cstring>
#include <immintrin.h>

#include "base/check.h"
#include "kernels/formats/cache_row.h"
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
// Each header needs the ones before it.
// clang-format off
#include "kernels/isa/amx_tiles.h"
#include "kernels/linear/panel_avx512.h"
#include "kernels/isa/silu.h"
#include "kernels/linear/tiles_unpack.h"
#include "kernels/isa/vec_avx512.h"
// clang-format on

namespace kvick::kernels {
namespace {

constexpr uint32_t kTileFloats = kTokenTile * kPanel;
// kPanelsKept: panels whose sums are kept over all chunks of inputs. kPassTiles: tiles of tokens
// per pass.
constexpr uint32_t kPanelsKept = 8;
constexpr uint32_t kPassTiles = 32;

// tmm0 to 3: sums, [16 tokens][16 rows]. tmm4, 5: tokens, [16][32 inputs]. tmm6, 7: weights.
void configure() {
  TileConfig config;
  for (int i = 0; i < 8; ++i) config.set(i, kTokenTile, kLine);
  configure_tiles(config);
}

using WeightTiles = std::byte[2][kPromptChunk][kTileBytes];  // of two panels
struct alignas(64) Scratch {
  WeightTiles weights[2];  // the current ones, and the next ones
  float sums[kPassTiles][kPanelsKept][kTileFloats];
};

// A matrix, or two of the same shape (gate and up), whose panels are computed in pairs.
struct Job {
  const Matrix& w;
  const Matrix* up;  // or null
  const PromptActivations& a;
  float* y;
  size_t y_stride;
  PromptActivations* gated;  // where silu(gate) * up goes
};

// What is unpacked at a time: two panels (or a last one), for one chunk of the inputs and all tiles
// of a pass. Items are ordered by panels whose sums are kept, then chunks, then the next kept
// panels, then the next pass.
struct Item {
  Range tiles{}, panels{};  // tiles of the pass; panels whose sums are kept
  uint32_t chunk = 0, panel = 0;
};

class Items {
 public:
  Items(const Job& job, uint32_t begin, uint32_t end)
      : job_(job), begin_(begin), end_(end), step_(job.up != nullptr ? 1 : 2) {}

  Item first() const { return {.tiles = pass(0), .panels = kept(begin_), .panel = begin_}; }
  bool past(const Item& item) const { return item.tiles.begin >= item.tiles.end; }
  Item after(Item item) const {
    item.panel += step_;
    if (item.panel < item.panels.end) return item;
    item.panel = item.panels.begin;
    if (++item.chunk < prompt_chunks(job_.w.inputs)) return item;
    item.chunk = 0;
    const bool more = item.panels.end < end_;
    item.panels = kept(more ? item.panels.end : begin_);
    item.panel = item.panels.begin;
    if (!more) item.tiles = pass(item.tiles.end);
    return item;
  }
  uint32_t panels(const Item& item) const {
    return job_.up != nullptr ? 2 : smaller(2, item.panels.end - item.panel);
  }
  const std::byte* panel(const Item& item, uint32_t i) const {
    return job_.up == nullptr ? job_.w.panel(item.panel + i)
                              : (i == 0 ? job_.w : *job_.up).panel(item.panel);
  }
  // Returns the index of the item's first panel among the kept sums.
  uint32_t place(const Item& item) const {
    return (item.panel - item.panels.begin) * (job_.up != nullptr ? 2 : 1);
  }

 private:
  Range pass(uint32_t tile) const { return {tile, smaller(job_.a.tiles(), tile + kPassTiles)}; }
  Range kept(uint32_t panel) const {
    return {panel, smaller(end_, panel + kPanelsKept * step_ / 2)};
  }

  const Job& job_;
  uint32_t begin_, end_, step_;
};

// The weights that are unpacked during the products of an item: tile by tile, of both panels
// alternately.
template <DType kType>
struct Unpacking {
  const std::byte* panel[2] = {};
  const std::byte* later[2] = {};  // of the item after that, to prefetch
  uint32_t panels = 0, groups = 0, first = 0, later_first = 0;
  WeightTiles* out = nullptr;
  uint32_t done = 0;

  uint32_t all() const { return panels * groups; }
  KVICK_INLINE void until(uint32_t count) {
    for (; done < count; ++done) {
      const uint32_t p = panels == 2 ? done & 1 : 0, g = panels == 2 ? done >> 1 : done;
      unpack_tile<kType>(panel[p], first + g, (*out)[p][g]);
      if (later[p] != nullptr) ask_for_tile<kType>(later[p], later_first + g);
    }
  }
};

// -- sums -----------------------------------------------------------------------------------------

template <int kSum>
KVICK_INLINE void begin_sum(const float* sums, bool first) {
  if (first)
    zero_tile<kSum>();
  else
    load_tile<kSum>(sums, kLine);
}

// Stores a tile of sums to y, directly if all of it is valid.
template <int kSum>
KVICK_INLINE void put_sum(const Job& job, uint32_t panel, uint32_t tile, float* sums) {
  const uint32_t rows = smaller(kPanel, job.w.rows - panel * kPanel);
  const uint32_t tokens = smaller(kTokenTile, job.a.tokens - tile * kTokenTile);
  float* y = job.y + size_t{tile} * kTokenTile * job.y_stride + size_t{panel} * kPanel;
  if (rows == kPanel && tokens == kTokenTile)
    return store_tile<kSum>(y, job.y_stride * sizeof(float));
  store_tile<kSum>(sums, kLine);
  const auto valid = static_cast<__mmask16>((1u << rows) - 1);
  for (uint32_t t = 0; t < tokens; ++t)
    _mm512_mask_storeu_ps(y + t * job.y_stride, valid, _mm512_load_ps(sums + t * kPanel));
}

// Prefetches the lines of y for these sums, which are usually in no near cache (matmul_amx.cc).
template <int kTiles, int kPanels>
KVICK_INLINE void ask_for_output(const Job& job, uint32_t panel, uint32_t tile) {
  const uint32_t first = tile * kTokenTile;
  const uint32_t last = smaller(job.a.tokens, first + kTiles * kTokenTile);
  for (uint32_t t = first; t < last; ++t)
    for (uint32_t p = 0; p < kPanels; ++p)
      __builtin_prefetch(job.y + t * job.y_stride + (panel + p) * kPanel, 1, 3);
}

// Stores silu(gate) * up of a tile of each, computed as Table::silu_mul does and rounded: half a
// group of inputs of the next matrix.
void put_gated(const Job& job, uint32_t panel, uint32_t tile, const float* gate, const float* up) {
  using V = VecAvx512;
  uint16_t* out = job.gated->at(tile, panel / 2) + panel % 2 * kPanel;
  for (uint32_t t = 0; t < kTokenTile; ++t) {
    const __m512 x =
        silu_times<V>(_mm512_load_ps(gate + t * kPanel), _mm512_load_ps(up + t * kPanel));
    const __m256bh rounded = _mm512_cvtneps_pbh(x);
    std::memcpy(out + t * kGroup, &rounded, sizeof rounded);
  }
}

// -- products -------------------------------------------------------------------------------------

// Multiplies tiles [tile, tile + kTiles) of the item's tokens with its weights. Meanwhile unpacks
// the next item's weights, until `unpacked` tiles of them are done.
template <DType kType, int kTiles, int kPanels>
__attribute__((noinline)) void multiply(const Job& job, const Items& items, const Item& item,
                                        uint32_t tile, const WeightTiles& weights, Scratch& s,
                                        Unpacking<kType>& next, uint32_t unpacked) {
  const uint32_t groups = prompt_chunk_groups(job.w.inputs, item.chunk);
  const auto* tokens =
      reinterpret_cast<const std::byte*>(job.a.at(tile, item.chunk * prompt_chunk(job.w.inputs)));
  const size_t to_next = groups * kTileBytes;  // tiles of a chunk are contiguous
  const uint32_t kept = items.place(item);
  auto* sums = s.sums + (tile - item.tiles.begin);
  const bool begins = item.chunk == 0, ends = item.chunk + 1 == prompt_chunks(job.w.inputs);
  if (ends && job.gated == nullptr) ask_for_output<kTiles, kPanels>(job, item.panel, tile);
  begin_sum<0>(sums[0][kept], begins);
  if constexpr (kPanels > 1) begin_sum<1>(sums[0][kept + 1], begins);
  if constexpr (kTiles > 1) begin_sum<2>(sums[1][kept], begins);
  if constexpr (kTiles > 1 && kPanels > 1) begin_sum<3>(sums[1][kept + 1], begins);
  const uint32_t from = next.done;
  for (uint32_t g = 0; g < groups; ++g) {
    load_tile<6>(weights[0][g], kLine);
    load_tile<4>(tokens + g * kTileBytes, kLine);
    if constexpr (kPanels > 1) load_tile<7>(weights[1][g], kLine);
    if constexpr (kTiles > 1) load_tile<5>(tokens + to_next + g * kTileBytes, kLine);
    dot_tiles_bf16<0, 4, 6>();
    if constexpr (kPanels > 1) dot_tiles_bf16<1, 4, 7>();
    if constexpr (kTiles > 1) dot_tiles_bf16<2, 5, 6>();
    if constexpr (kTiles > 1 && kPanels > 1) dot_tiles_bf16<3, 5, 7>();
    next.until(from + (unpacked - from) * (g + 1) / groups);
  }
  if (ends && job.gated == nullptr) {
    put_sum<0>(job, item.panel, tile, sums[0][kept]);
    if constexpr (kPanels > 1) put_sum<1>(job, item.panel + 1, tile, sums[0][kept + 1]);
    if constexpr (kTiles > 1) put_sum<2>(job, item.panel, tile + 1, sums[1][kept]);
    if constexpr (kTiles > 1 && kPanels > 1)
      put_sum<3>(job, item.panel + 1, tile + 1, sums[1][kept + 1]);
    return;
  }
  store_tile<0>(sums[0][kept], kLine);
  if constexpr (kPanels > 1) store_tile<1>(sums[0][kept + 1], kLine);
  if constexpr (kTiles > 1) store_tile<2>(sums[1][kept], kLine);
  if constexpr (kTiles > 1 && kPanels > 1) store_tile<3>(sums[1][kept + 1], kLine);
  if (!ends) return;
  for (uint32_t i = 0; i < kTiles; ++i)
    put_gated(job, item.panel, tile + i, sums[i][kept], sums[i][kept + 1]);
}

template <DType kType, int kPanels>
void run_item(const Job& job, const Items& items, const Item& item, const WeightTiles& weights,
              Scratch& s, Unpacking<kType>& next) {
  const uint32_t all = item.tiles.end - item.tiles.begin;
  uint32_t t = item.tiles.begin;
  for (; t + 2 <= item.tiles.end; t += 2)
    multiply<kType, 2, kPanels>(job, items, item, t, weights, s, next,
                                next.all() * (t + 2 - item.tiles.begin) / all);
  if (t < item.tiles.end)
    multiply<kType, 1, kPanels>(job, items, item, t, weights, s, next, next.all());
}

template <DType kType>
Unpacking<kType> unpacking_of(const Job& job, const Items& items, const Item& item,
                              const Item& later, WeightTiles& out) {
  Unpacking<kType> next;
  if (items.past(item)) return next;
  const uint32_t chunk = prompt_chunk(job.w.inputs);
  next.panels = items.panels(item);
  next.groups = prompt_chunk_groups(job.w.inputs, item.chunk);
  next.first = item.chunk * chunk;
  next.out = &out;
  for (uint32_t i = 0; i < next.panels; ++i) next.panel[i] = items.panel(item, i);
  if (items.past(later) || prompt_chunk_groups(job.w.inputs, later.chunk) < next.groups)
    return next;
  next.later_first = later.chunk * chunk;
  for (uint32_t i = 0; i < items.panels(later); ++i) next.later[i] = items.panel(later, i);
  return next;
}

// Multiplies panels [begin, end) with all tokens.
template <DType kType>
void run(const Job& job, uint32_t begin, uint32_t end) {
  if (begin >= end || job.a.tokens == 0) return;
  configure();
  Scratch s;
  const Items items(job, begin, end);
  Item item = items.first(), next = items.after(item);
  uint32_t turn = 0;
  unpacking_of<kType>(job, items, item, next, s.weights[0])
      .until(items.panels(item) * prompt_chunk_groups(job.w.inputs, 0));
  for (; !items.past(item); item = next, next = items.after(next), turn ^= 1) {
    const Item later = items.past(next) ? next : items.after(next);
    Unpacking<kType> unpacking = unpacking_of<kType>(job, items, next, later, s.weights[turn ^ 1]);
    if (items.panels(item) == 2)
      run_item<kType, 2>(job, items, item, s.weights[turn], s, unpacking);
    else
      run_item<kType, 1>(job, items, item, s.weights[turn], s, unpacking);
  }
  release_tiles();
}

using Run = void (*)(const Job&, uint32_t begin, uint32_t end);
template <DType kType>
constexpr Run run_of() {
  if constexpr (kType == DType::kF32)
    return nullptr;
  else
    return run<kernel_type(kType)>;
}
struct Runs {
  Run of[kWeightTypes];
};
template <int... kType>
constexpr Runs make_runs(std::integer_sequence<int, kType...>) {
  return {{run_of<static_cast<DType>(kType)>()...}};
}
constexpr Runs kRuns = make_runs(std::make_integer_sequence<int, kWeightTypes>());

void round_group(const float* x, uint16_t* out) {
  store_rounded(_mm512_loadu_ps(x), _mm512_loadu_ps(x + 16), out);
}

}  // namespace
}  // namespace kvick::kernels

KVICK_TARGET_END

namespace kvick::kernels {
namespace {

void round_tile(PromptActivations& a, uint32_t tile) {
  const uint32_t first = tile * kTokenTile;
  for (uint32_t g = 0; g < a.inputs / kGroup; ++g) {
    uint16_t* out = a.at(tile, g);
    for (uint32_t t = 0; t < kTokenTile; ++t, out += kGroup)
      if (first + t < a.tokens)
        round_group(a.x + size_t{first + t} * a.inputs + size_t{g} * kGroup, out);
      else
        std::memset(out, 0, kGroup * sizeof(uint16_t));
  }
}

void check(const Matrix& w, const PromptActivations& a, uint32_t end) {
  KVICK_CHECK_EQ(w.inputs, a.inputs);
  KVICK_CHECK(end <= w.panels(), "panel {} of {}", end, w.panels());
  KVICK_CHECK(has_prompt_matmul(w.dtype), "{} has no tiles", dtype_info(w.dtype).name);
}

void matmul_prompt(const Matrix& w, const PromptActivations& a, float* y, size_t y_stride,
                   uint32_t begin, uint32_t end) {
  check(w, a, end);
  kRuns.of[static_cast<size_t>(w.dtype)](
      {.w = w, .up = nullptr, .a = a, .y = y, .y_stride = y_stride, .gated = nullptr}, begin, end);
}

void matmul_prompt_gated(const Matrix& gate, const Matrix& up, const PromptActivations& a,
                         PromptActivations& y, uint32_t begin, uint32_t end) {
  check(gate, a, end);
  KVICK_CHECK(up.dtype == gate.dtype && up.rows == gate.rows && up.inputs == gate.inputs,
              "gate of {} x {} and up of {} x {}", gate.rows, gate.inputs, up.rows, up.inputs);
  KVICK_CHECK(y.inputs == gate.rows && y.tokens == a.tokens, "{} rows for {} inputs", gate.rows,
              y.inputs);
  kRuns.of[static_cast<size_t>(gate.dtype)](
      {.w = gate, .up = &up, .a = a, .y = nullptr, .y_stride = 0, .gated = &y}, begin, end);
}

}  // namespace

void fill_linear_tiles(Table& table) {
  table.round_tile = round_tile;
  table.matmul_prompt = matmul_prompt;
  table.matmul_prompt_gated = matmul_prompt_gated;
}

}  // namespace kvick::kernels
