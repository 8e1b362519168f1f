#pragma once
// AMX tiles of 16 lines of 64 bytes in memory, for tests of attention_amx.cc and matmul_tiles.cc on
// machines without them. Included by amx_tiles.h, inside its namespaces. Results differ only in the
// order of two roundings in a pair's products and for subnormal numbers.

alignas(64) thread_local std::byte g_tiles[8][16 * 64];

inline void configure_tiles(const TileConfig&) {}
inline void release_tiles() {}

template <int kTile>
void load_tile(const void* at, size_t stride) {
  for (size_t i = 0; i < 16; ++i)
    __builtin_memcpy(g_tiles[kTile] + i * 64, static_cast<const std::byte*>(at) + i * stride, 64);
}
template <int kTile>
void store_tile(void* at, size_t stride) {
  for (size_t i = 0; i < 16; ++i)
    __builtin_memcpy(static_cast<std::byte*>(at) + i * stride, g_tiles[kTile] + i * 64, 64);
}
template <int kTile>
void zero_tile() {
  __builtin_memset(g_tiles[kTile], 0, sizeof g_tiles[kTile]);
}
inline float upper(uint32_t bits) { return __builtin_bit_cast(float, bits & 0xffff0000U); }
template <int kSum, int kA, int kB>
void dot_tiles_bf16() {
  float sums[16][16];
  uint32_t a[16][16], b[16][16];
  __builtin_memcpy(sums, g_tiles[kSum], sizeof sums);
  __builtin_memcpy(a, g_tiles[kA], sizeof a);
  __builtin_memcpy(b, g_tiles[kB], sizeof b);
  for (int m = 0; m < 16; ++m)
    for (int k = 0; k < 16; ++k)
      for (int n = 0; n < 16; ++n) {
        sums[m][n] += upper(a[m][k] << 16) * upper(b[k][n] << 16);
        sums[m][n] += upper(a[m][k]) * upper(b[k][n]);
      }
  __builtin_memcpy(g_tiles[kSum], sums, sizeof sums);
}
