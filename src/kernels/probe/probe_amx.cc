// The probes of AMX: those of AVX-512 with tiles for products of integers and of bfloat16.

#include <cstring>
#include <immintrin.h>

#include "kernels/isa/target.h"
#include "kernels/linear/matmul.h"
#include "kernels/probe/probe_loops.h"

KVICK_TARGET_AMX_BEGIN
#include "kernels/isa/amx_tiles.h"

namespace kvick::kernels {
namespace {

constexpr int kTileRows = 16;     // rows of a tile
constexpr size_t kTileLine = 64;  // bytes of a row

// Operands are in tmm6 and 7, sums in tmm0 to 3.
void configure_probe(const void* ones) {
  TileConfig config;
  for (int i = 0; i < 8; ++i) config.set(i, kTileRows, kTileLine);
  configure_tiles(config);
  load_tile<6>(ones, kTileLine);
  load_tile<7>(ones, kTileLine);
}
KVICK_INLINE void zero_sums() {
  zero_tile<0>();
  zero_tile<1>();
  zero_tile<2>();
  zero_tile<3>();
}
// Returns the sum of all 32-bit lanes of the four sums.
template <typename Lane>
uint64_t tile_sum() {
  alignas(64) Lane sums[4][kTileRows][kTileLine / sizeof(Lane)];
  store_tile<0>(sums[0], kTileLine);
  store_tile<1>(sums[1], kTileLine);
  store_tile<2>(sums[2], kTileLine);
  store_tile<3>(sums[3], kTileLine);
  return lane_sum<Lane>(sums, sizeof sums);
}

uint64_t int8_dot_amx(uint32_t rounds) {
  alignas(64) int8_t ones[kTileRows][kTileLine];
  std::memset(ones, 1, sizeof ones);
  configure_probe(ones);
  zero_sums();
  for (uint32_t round = 0; round < rounds; ++round) {  // latency: 52 cycles; one starts every 16
    dot_tiles<0, 6, 7>();
    dot_tiles<1, 6, 7>();
    dot_tiles<2, 6, 7>();
    dot_tiles<3, 6, 7>();
  }
  const uint64_t sum = tile_sum<int32_t>();
  release_tiles();
  return 2 * sum;
}

// A round adds 32 to a float32, as 16 pairs: exact up to 2^25, so sums are reset to zero before
// that.
uint64_t bf16_tiles_amx(uint32_t rounds) {
  constexpr uint32_t kMostAtOnce = 1 << 18;
  constexpr uint16_t kOne = 0x3f80;
  alignas(64) uint16_t ones[kTileRows * kTileLine / sizeof(uint16_t)];
  for (uint16_t& one : ones) one = kOne;
  configure_probe(ones);
  uint64_t sum = 0;
  while (rounds > 0) {
    const uint32_t n = rounds < kMostAtOnce ? rounds : kMostAtOnce;
    rounds -= n;
    zero_sums();
    for (uint32_t round = 0; round < n; ++round) {  // as in int8_dot_amx
      dot_tiles_bf16<0, 6, 7>();
      dot_tiles_bf16<1, 6, 7>();
      dot_tiles_bf16<2, 6, 7>();
      dot_tiles_bf16<3, 6, 7>();
    }
    sum += tile_sum<float>();
  }
  release_tiles();
  return 2 * sum;
}

}  // namespace
}  // namespace kvick::kernels

KVICK_TARGET_END

namespace kvick::kernels {

Probes amx_probes() {
  Probes probes = bf16_probes();
  probes.isa = base::Isa::kAmx;
  probes.int8_dot = int8_dot_amx;
  probes.bf16_tiles = bf16_tiles_amx;
  return probes;
}

}  // namespace kvick::kernels
