#pragma once
// Merges the partial results of chunks and computes the output from them. Included inside a target
// region.

namespace kvick::kernels {
namespace {

// Returns e^x of one number, with the operations of V::exp.
template <class V>
float exp_one(float x) {
  float lanes[V::kLanes];
  V::store(lanes, V::exp(V::set(x)));
  return lanes[0];
}

template <class V>
void merge(Partial into, Partial next, uint32_t queries, uint32_t v_dim) {
  constexpr float kNone = -__builtin_inff();
  for (uint32_t i = 0; i < queries; ++i) {
    if (next.max[i] == kNone) continue;
    const bool first = into.max[i] == kNone;
    const float max = into.max[i] > next.max[i] ? into.max[i] : next.max[i];
    const float old_part = first ? 0 : exp_one<V>(into.max[i] - max);
    const float new_part = exp_one<V>(next.max[i] - max);
    into.max[i] = max;
    into.sum[i] = (first ? 0 : into.sum[i] * old_part) + next.sum[i] * new_part;
    float* acc = into.acc + static_cast<size_t>(i) * v_dim;
    const float* add = next.acc + static_cast<size_t>(i) * v_dim;
    const typename V::F old_weight = V::set(old_part), new_weight = V::set(new_part);
    uint32_t d = 0;
    for (; d + V::kLanes <= v_dim; d += V::kLanes) {
      const auto old = first ? V::zero() : V::mul(V::load(acc + d), old_weight);
      V::store(acc + d, V::fma(V::load(add + d), new_weight, old));
    }
    if (d == v_dim) continue;
    const int tail = static_cast<int>(v_dim - d);
    const auto old = first ? V::zero() : V::mul(V::load_part(acc + d, tail), old_weight);
    V::store_part(acc + d, V::fma(V::load_part(add + d, tail), new_weight, old), tail);
  }
}

// Returns the factor for a query's acc: 1 / sum, with the sink in the sum. Exponentials are
// relative to the larger of max and sink, so neither overflows.
template <class V>
float inverse_with_sink(float max, float sum, float sink) {
  if (sum == 0) return 0;
  const float most = max > sink ? max : sink;
  const float part = exp_one<V>(max - most);
  return part / (sum * part + exp_one<V>(sink - most));
}

template <class V>
void finish(Partial state, const View& view, const Queries& queries, float* out,
            size_t out_stride) {
  const uint32_t dims = queries.v_dim;
  for (uint32_t t = 0; t < queries.tokens; ++t)
    for (uint32_t g = 0; g < queries.group; ++g) {
      const size_t i = static_cast<size_t>(t) * queries.group + g;
      const float* acc = state.acc + i * dims;
      float* to = out + t * out_stride + static_cast<size_t>(g) * dims;
      // A query that sees no row gets zeros. One division per query is within an ulp of dividing
      // each element.
      float inverse = state.sum[i] == 0 ? 0 : 1 / state.sum[i];
      if (queries.sinks != nullptr)
        inverse = inverse_with_sink<V>(state.max[i], state.sum[i], queries.sinks[g]);
      const size_t of_step = static_cast<size_t>(queries.first) * queries.group + i;
      const float mass = view.rest != nullptr ? view.rest_mass[of_step] : 0;
      for (uint32_t d = 0; d < dims; ++d) to[d] = acc[d] * inverse * (1 - mass);
      if (view.rest == nullptr) continue;
      for (uint32_t d = 0; d < dims; ++d) to[d] += mass * view.rest[d];
    }
}

}  // namespace
}  // namespace kvick::kernels
