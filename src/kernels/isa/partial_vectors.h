#pragma once
// Loads and stores at the end of a row, where a vector may be only partly filled. Included inside a
// target region.

namespace kvick::kernels {
namespace {

// left: elements from p on. Lanes behind them are read as zeros and not written.
template <class V>
typename V::F load_up_to(const float* p, size_t left) {
  return left >= size_t{V::kLanes} ? V::load(p) : V::load_part(p, static_cast<int>(left));
}
template <class V>
void store_up_to(float* p, typename V::F x, size_t left) {
  if (left >= size_t{V::kLanes})
    V::store(p, x);
  else
    V::store_part(p, x, static_cast<int>(left));
}

}  // namespace
}  // namespace kvick::kernels
