#pragma once
// The softmax of one query over one chunk. Included inside a target region.

namespace kvick::kernels {
namespace {

// Replaces n logits by cap * tanh(logit / cap) + bias. Works on whole vectors, past the n-th too.
template <class V>
void cap_logits(float* x, const float* bias, uint32_t n, float cap) {
  using F = typename V::F;
  // tanh(y) = e / (e + 2) with e = exp(2 y) - 1. Computed as exp(n ln 2) (exp(r) - 1) + (exp(n ln
  // 2) - 1), with the r and n of V::exp, e keeps its relative precision for small y. tanh is 1
  // beyond 20.
  const F most = V::set(40), magic = V::set(0x1.8p23F), one = V::set(1);
  const F twice = V::set(2 / cap), factor = V::set(cap);
  for (uint32_t i = 0; i < n; i += V::kLanes) {
    const F z = V::max(V::set(-40), V::min(most, V::mul(V::load(x + i), twice)));  // NaN stays NaN
    const F whole = V::sub(V::fma(z, V::set(0x1.715476p+0F), magic), magic);
    const F r = V::nfma(whole, V::set(-0x1.05c610p-29F), V::nfma(whole, V::set(0x1.62e430p-1F), z));
    F p = V::fma(V::set(0x1.6a2434p-10F), r, V::set(0x1.1239e2p-7F));
    p = V::fma(p, r, V::set(0x1.5558f2p-5F));
    p = V::fma(p, r, V::set(0x1.555492p-3F));
    p = V::fma(p, r, V::set(0x1.fffffcp-2F));
    const F power = V::exp(V::mul(whole, V::set(0x1.62e430p-1F)));
    const F e = V::fma(power, V::fma(V::mul(p, r), r, r), V::sub(power, one));
    const F tanh = V::div(e, V::add(e, V::set(2)));
    V::store(x + i, V::fma(tanh, factor, V::load(bias + i)));
  }
}

alignas(64) constexpr float kFirstPlaces[kMaxLanes] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                       8, 9, 10, 11, 12, 13, 14, 15};

// Subtracts slope * |place - at| from n logits. Works on whole vectors, past the n-th too.
template <class V>
void lower_by_distance(float* x, uint32_t n, float at, float slope) {
  using F = typename V::F;
  const F factor = V::set(slope);
  for (uint32_t i = 0; i < n; i += V::kLanes) {
    const F behind = V::sub(V::load(kFirstPlaces), V::set(at - static_cast<float>(i)));
    const F distance = V::max(behind, V::sub(V::zero(), behind));
    V::store(x + i, V::nfma(factor, distance, V::load(x + i)));
  }
}

// Replaces the logits of seen rows by exp(logit - max), and those around them, up to whole vectors,
// by zeros.
template <class V>
void soften(float* x, SeenRows seen, float& max_out, float& sum_out) {
  using F = typename V::F;
  constexpr uint32_t kLanes = V::kLanes;
  const uint32_t first = seen.begin / kLanes * kLanes;
  const uint32_t whole = (seen.end + kLanes - 1) / kLanes * kLanes;
  for (uint32_t i = first; i < seen.begin; ++i) x[i] = -__builtin_inff();
  for (uint32_t i = seen.end; i < whole; ++i) x[i] = -__builtin_inff();
  F high[4];
  for (F& h : high) h = V::set(-__builtin_inff());
  uint32_t j = first;
  for (; j + 4 * kLanes <= whole; j += 4 * kLanes)
    KVICK_UNROLL for (uint32_t l = 0; l < 4; ++l) high[l] =
        V::max(V::load(x + j + l * kLanes), high[l]);
  for (; j < whole; j += kLanes) high[0] = V::max(V::load(x + j), high[0]);
  const float max = V::largest(V::max(V::max(high[0], high[1]), V::max(high[2], high[3])));
  max_out = max;
  // If there is no row, or all logits are -inf, max is -inf, and -inf minus -inf would be NaN.
  const F base = V::set(max == -__builtin_inff() ? 0 : max);
  F sum = V::zero();
  // Computes four vectors at a time to hide the latency of the polynomial, but adds them in order.
  for (j = first; j + 4 * kLanes <= whole; j += 4 * kLanes) {
    F e[4];
    KVICK_UNROLL for (uint32_t l = 0; l < 4; ++l) e[l] =
        V::exp(V::sub(V::load(x + j + l * kLanes), base));
    KVICK_UNROLL for (uint32_t l = 0; l < 4; ++l) {
      V::store(x + j + l * kLanes, e[l]);
      sum = V::add(sum, e[l]);
    }
  }
  for (; j < whole; j += kLanes) {
    const F e = V::exp(V::sub(V::load(x + j), base));
    V::store(x + j, e);
    sum = V::add(sum, e);
  }
  sum_out = V::sum(sum);
  // If all rows are NaN, max is -inf, and merge() would take the chunk for an empty one.
  if (sum_out != sum_out) max_out = sum_out;
}

}  // namespace
}  // namespace kvick::kernels
