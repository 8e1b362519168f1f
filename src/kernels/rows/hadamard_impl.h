#pragma once
// The Hadamard transform, for any vector type of vec_*.h. Included inside a target region.
//
// Steps combine neighbours first, then elements at distances 2, 4, ... half a block. So each
// element is the same tree of sums for every vector size. A step within two vectors splits them
// into even and odd elements, whose sums and differences are the next two vectors. After as many
// steps as an element's index has bits, each element is in its place again.

namespace kvick::kernels {
namespace {

template <class V>
void hadamard_pair(float* x, typename V::F norm) {
  auto a = V::mul(V::load(x), norm), b = V::mul(V::load(x + V::kLanes), norm);
  for (uint32_t step = 1; step < 2 * V::kLanes; step *= 2) {
    typename V::F even, odd;
    V::split_pairs(a, b, even, odd);
    a = V::add(even, odd);
    b = V::sub(even, odd);
  }
  V::store(x, a);
  V::store(x + V::kLanes, b);
}

template <class V>
void hadamard(float* x, size_t n, size_t block) {
  check_hadamard(n, block);
  const auto norm = V::set(1 / std::sqrt(static_cast<float>(block)));
  for (float* at = x; at < x + n; at += block) {
    for (size_t i = 0; i < block; i += size_t{2} * V::kLanes) hadamard_pair<V>(at + i, norm);
    for (size_t step = size_t{2} * V::kLanes; step < block; step *= 2)
      for (size_t i = 0; i < block; i += V::kLanes) {
        if ((i & step) != 0) continue;
        const auto a = V::load(at + i), b = V::load(at + i + step);
        V::store(at + i, V::add(a, b));
        V::store(at + i + step, V::sub(a, b));
      }
  }
}

}  // namespace
}  // namespace kvick::kernels
