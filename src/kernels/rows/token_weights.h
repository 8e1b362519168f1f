#pragma once
// Token weights for sampling: Table::weigh_tokens. Included inside a target region.

namespace kvick::kernels {
namespace {

// Returns V::exp of one number, where there are no vectors. The operations and their order are
// those of vec_avx512.h, so that a seed draws the same tokens under every instruction set.
inline float exp_of_one(float x) {
  if (x < -87.336F) return 0;
  const float shifted = std::fma(x, 0x1.715476p+0F, 0x1.8p23F);
  const float n = shifted - 0x1.8p23F;
  const float r = std::fma(-n, -0x1.05c610p-29F, std::fma(-n, 0x1.62e430p-1F, x));
  float p = std::fma(0x1.6a2434p-10F, r, 0x1.1239e2p-7F);
  p = std::fma(p, r, 0x1.5558f2p-5F);
  p = std::fma(p, r, 0x1.555492p-3F);
  p = std::fma(p, r, 0x1.fffffcp-2F);
  p = std::fma(std::fma(p, r, 1.0F), r, 1.0F);
  uint32_t bits, power;
  std::memcpy(&bits, &p, sizeof bits);
  std::memcpy(&power, &shifted, sizeof power);
  bits += power << 23;
  std::memcpy(&p, &bits, sizeof p);
  return p;
}

template <class V>
typename V::F token_exp(typename V::F x) {
  if constexpr (V::kLanes == 1)
    return exp_of_one(x);
  else
    return V::exp(x);
}

// Weights are multiples of 2^-34 and at most 1. Each is the sum of a multiple of 2^-17 and a rest
// below 2^-17. A sum of 64 such parts is exact as a float, so adding them in any order does not
// round.
template <class V>
void weigh_tokens(float* x, size_t n, float highest, float scale, double* sums) {
  const auto top = V::set(highest), factor = V::set(scale);
  // Adding and subtracting these rounds to a multiple of 2^-17 and of 2^-34.
  const auto to_coarse = V::set(0x1.8p6F), to_fine = V::set(0x1.8p-11F);
  for (size_t block = 0; block < n; block += kWeightBlock) {
    const size_t end = n - block < kWeightBlock ? n : block + kWeightBlock;
    auto coarse_sum = V::zero(), fine_sum = V::zero();
    for (size_t i = block; i < end; i += V::kLanes) {
      const size_t left = end - i;
      auto weight = token_exp<V>(V::mul(V::sub(load_up_to<V>(x + i, left), top), factor));
      if (left < size_t{V::kLanes}) {  // zeros the lanes behind the last token
        store_up_to<V>(x + i, weight, left);
        weight = load_up_to<V>(x + i, left);
      }
      const auto coarse = V::sub(V::add(weight, to_coarse), to_coarse);
      const auto fine = V::sub(V::add(V::sub(weight, coarse), to_fine), to_fine);
      store_up_to<V>(x + i, V::add(coarse, fine), left);
      coarse_sum = V::add(coarse_sum, coarse);
      fine_sum = V::add(fine_sum, fine);
    }
    sums[block / kWeightBlock] = double{V::sum(coarse_sum)} + double{V::sum(fine_sum)};
  }
}

}  // namespace
}  // namespace kvick::kernels
