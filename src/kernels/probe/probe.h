#pragma once
// What a machine can do at most with the instructions that the kernels use: loops that do nothing
// else. Measured by plan/machine/calibration.h; a sibling of Table, one set per instruction set.

#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/cpu.h"

namespace kvick::kernels {

struct Probes {
  base::Isa isa;
  // Reads all of [data, data + bytes) once, front to back, asking early for what comes, as matmul
  // does. Returns the sum of its 64-bit words, modulo 2^64. data: aligned to 64 bytes; bytes: a
  // multiple of 256.
  uint64_t (*read)(const std::byte* data, size_t bytes);
  // `rounds` (at most kMostRounds) times one multiply-add in every lane of every accumulator that
  // it takes to keep the ports busy, operands and accumulators in registers. Returns the operations
  // done, a multiply-add being two: rounds times a constant. The count is what the multiply-adds of
  // ones add up to, so they cannot be left out.
  // int8 products, summed as int32, as in quantised layers of the cheapest type: without VNNI types
  // of more than 4 bits take more instructions.
  uint64_t (*int8_dot)(uint32_t rounds);
  uint64_t (*f32_fma)(uint32_t rounds);  // as in attention and float layers
  // bfloat16 products in pairs, summed as float32, as in layers of BF16 where they pay; null: there
  // are none.
  uint64_t (*bf16_dot)(uint32_t rounds);
  // bfloat16 products on tiles, summed as float32, as prompts have them; null: there are no tiles.
  uint64_t (*bf16_tiles)(uint32_t rounds);
};

// Accumulators stay exact up to here.
inline constexpr uint32_t kMostRounds = 1 << 22;

// The probes of an instruction set that this processor supports (KVICK_CHECK).
const Probes& probes(base::Isa isa);

// Whether layers of BF16 are faster by products of bfloat16 (rounding_table): there are some, and
// their rate is at least 1.5 times that of float32. It is 2 times where the processor multiplies
// bfloat16 at full rate (Zen 4) and 0.5 to 1 times elsewhere (Sapphire Rapids), so a disturbed
// measurement gives the same answer. Takes 2 ms.
bool products_of_bf16_pay(const Probes& probes, base::Clock clock = base::steady_seconds);

}  // namespace kvick::kernels
