#pragma once
// The softmax of one query over one chunk. Included inside a target region.

namespace kvick::kernels {
namespace {

// Logits of the n rows that it sees to exp(logit - max), zero behind them up to a whole vector.
template <class V>
void soften(float* x, uint32_t n, float& max_out, float& sum_out) {
  using F = typename V::F;
  constexpr uint32_t kLanes = V::kLanes;
  const uint32_t whole = (n + kLanes - 1) / kLanes * kLanes;
  for (uint32_t tail = n; tail < whole; ++tail) x[tail] = -__builtin_inff();
  F high[4];
  for (F& h : high) h = V::set(-__builtin_inff());
  uint32_t j = 0;
  for (; j + 4 * kLanes <= whole; j += 4 * kLanes)
    KVICK_UNROLL for (uint32_t l = 0; l < 4; ++l) high[l] =
        V::max(V::load(x + j + l * kLanes), high[l]);
  for (; j < whole; j += kLanes) high[0] = V::max(V::load(x + j), high[0]);
  const float max = V::largest(V::max(V::max(high[0], high[1]), V::max(high[2], high[3])));
  max_out = max;
  // Without a row, or with only -inf ones: -inf minus -inf would be NaN.
  const F base = V::set(max == -__builtin_inff() ? 0 : max);
  F sum = V::zero();
  // Four at a time to hide the latency of the polynomial, added in order.
  for (j = 0; j + 4 * kLanes <= whole; j += 4 * kLanes) {
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
}

}  // namespace
}  // namespace kvick::kernels
