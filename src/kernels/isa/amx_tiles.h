#pragma once
// Internal to kernels/: AMX tiles. Included inside the target region of the files that use them.
// With KVICK_EMULATED_TILES tiles are in memory, for tests on machines without AMX. Written in
// assembly, because the intrinsics of g++ 12 do not declare that they read memory.

namespace kvick::kernels {
namespace {

// Not std::min and std::max, for the reason in target.h.
KVICK_INLINE uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }
KVICK_INLINE uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, uint32_t tile_rows, size_t bytes) {
    rows[tile] = static_cast<uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<uint16_t>(bytes);
  }
};

#if defined(KVICK_EMULATED_TILES)
#include "kernels/isa/emulated_tiles.h"
#else
inline void configure_tiles(const TileConfig& config) {
  asm volatile("ldtilecfg %0" ::"m"(config));
}
// Leaves no tile in use, so that the system need not save tiles with the thread's other registers.
inline void release_tiles() { asm volatile("tilerelease"); }

template <int kTile>
KVICK_INLINE void load_tile(const void* at, size_t stride) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(kTile), "r"(at), "r"(stride) : "memory");
}
template <int kTile>
KVICK_INLINE void store_tile(void* at, size_t stride) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(kTile), "r"(at), "r"(stride) : "memory");
}
template <int kTile>
KVICK_INLINE void zero_tile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
}
// Tile kSum [m][n] of int32 += tile kA [m][4k] * tile kB [k][n][4], of int8.
template <int kSum, int kA, int kB>
KVICK_INLINE void dot_tiles() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
}
// Tile kSum [m][n] of float32 += tile kA [m][2k] * tile kB [k][n][2], of bfloat16. Pairs are added
// in order. Subnormal inputs and results count as zero.
template <int kSum, int kA, int kB>
KVICK_INLINE void dot_tiles_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
}
#endif

}  // namespace
}  // namespace kvick::kernels
