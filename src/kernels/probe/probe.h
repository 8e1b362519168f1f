#pragma once
// Loops that reach a machine's peak rates with the instructions that the kernels use, for
// plan/machine/calibration.h to measure. As with Table, there is one set per instruction set.

#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/cpu.h"

namespace kvick::kernels {

struct Probes {
  base::Isa isa;
  // Reads all of [data, data + bytes) once, front to back, with the prefetches of matmul. Returns
  // the sum of its 64-bit words, modulo 2^64. data: aligned to 64 bytes; bytes: a multiple of 256.
  uint64_t (*read)(const std::byte* data, size_t bytes);
  // The following probes run `rounds` (at most kMostRounds) rounds. A round is one multiply-add in
  // every lane of as many accumulators as keep the ports busy, all operands in registers. They
  // return the operations done, two per multiply-add: rounds times a constant. The count is the sum
  // of multiply-adds of ones, so the compiler cannot leave them out.
  // int8 products, summed as int32, as in quantised layers of the cheapest type: without VNNI,
  // types of more than 4 bits take more instructions.
  uint64_t (*int8_dot)(uint32_t rounds);
  uint64_t (*f32_fma)(uint32_t rounds);  // as in attention and float layers
  // bfloat16 products in pairs, summed as float32, as in BF16 layers where they are faster; null if
  // there are none.
  uint64_t (*bf16_dot)(uint32_t rounds);
  // bfloat16 products on tiles, summed as float32, as in prompts; null if there are no tiles.
  uint64_t (*bf16_tiles)(uint32_t rounds);
};

// Accumulators are exact for up to this many rounds.
inline constexpr uint32_t kMostRounds = 1 << 22;

// Returns the probes of an instruction set, which this processor must support (KVICK_CHECK).
const Probes& probes(base::Isa isa);

// Whether BF16 layers are faster with products of bfloat16 (rounding_table): there are such
// products, at 1.5 times the rate of float32 ones or more. The ratio is 2 where the processor
// multiplies bfloat16 at full rate (Zen 4) and 0.5 to 1 elsewhere (Sapphire Rapids), so a disturbed
// measurement gives the same answer. Takes 2 ms.
bool products_of_bf16_pay(const Probes& probes, base::Clock clock = base::steady_seconds);

}  // namespace kvick::kernels
