#pragma once
// Internal to kernels/: gate / (1 + exp(-gate)) * up, for any vector type of vec_*.h. Included
// inside a target region.

namespace kvick::kernels {
namespace {

template <class V>
typename V::F silu_times(typename V::F gate, typename V::F up) {
  // Where exp would overflow, gate / 3e38 is zero for every purpose.
  const auto e = V::exp(V::min(V::sub(V::zero(), gate), V::set(88.0F)));
  return V::mul(V::div(gate, V::add(V::set(1), e)), up);
}

}  // namespace
}  // namespace kvick::kernels
