// The probes in plain C++.

#include "kernels/probe/probe.h"

#include <cstring>

#include "kernels/probe/probe_loops.h"

namespace kvick::kernels {
namespace {

constexpr uint32_t kScalarLanes = 32;  // int8 products of one round

}  // namespace

uint64_t read_scalar(const std::byte* data, size_t bytes) {
  uint64_t sums[4] = {};
  for (size_t at = 0; at < bytes; at += kStep)
    for (size_t i = 0; i < kStep; i += 32) {
      uint64_t words[4];
      std::memcpy(words, data + at + i, sizeof words);
      for (int w = 0; w < 4; ++w) sums[w] += words[w];
    }
  return sums[0] + sums[1] + sums[2] + sums[3];
}

// Plain C++, compiled for the baseline of the architecture as the scalar kernels are; operands come
// from the L1 cache.
uint64_t int8_dot_scalar(uint32_t rounds) {
  int8_t a[kScalarLanes], b[kScalarLanes];
  std::memset(a, 1, sizeof a);
  std::memset(b, 1, sizeof b);
  int32_t sum = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    asm volatile("" : "+m"(a), "+m"(b));  // so that no product is known when compiling
    for (uint32_t i = 0; i < kScalarLanes; ++i) sum += a[i] * b[i];
  }
  return 2 * static_cast<uint64_t>(sum);
}

// Runs short pieces of both probes alternately and takes the best of each. A piece is far shorter
// than a scheduler's time slice, so some run undisturbed even on a busy machine.
bool products_of_bf16_pay(const Probes& probes, base::Clock clock) {
  if (probes.bf16_dot == nullptr) return false;
  constexpr int kPieces = 32;
  constexpr uint32_t kRounds = 1 << 11;  // 10 to 20 microseconds
  constexpr double kLeast = 1.5;
  double bf16 = 0, f32 = 0;
  const auto measure = [&](uint64_t (*probe)(uint32_t), double& best) {
    const double start = clock();
    const auto operations = static_cast<double>(probe(kRounds));
    const double seconds = clock() - start;
    if (seconds > 0 && operations / seconds > best) best = operations / seconds;
  };
  for (int piece = 0; piece < kPieces; ++piece) {
    measure(probes.bf16_dot, bf16);
    measure(probes.f32_fma, f32);
  }
  return bf16 >= kLeast * f32;
}

}  // namespace kvick::kernels
