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

// (1 + tanh(u)) / 2 is 1 / (1 + exp(-2u)).
template <class V>
typename V::F gelu_times(typename V::F gate, typename V::F up) {
  const auto cube = V::mul(V::mul(gate, gate), V::mul(gate, V::set(0.044715F)));
  const auto twice = V::mul(V::add(gate, cube), V::set(1.5957691216F));  // 2 sqrt(2/pi)
  const auto e = V::exp(V::min(V::sub(V::zero(), twice), V::set(88.0F)));
  return V::mul(V::div(gate, V::add(V::set(1), e)), up);
}

}  // namespace
}  // namespace kvick::kernels
