#pragma once
// The walk over a slot memory (memory.h), for any vector type of vec_*.h. Included inside a target
// region.
//
// A tile of 4 slots and a few vectors of their elements stays in registers for all tokens. So, as
// in the definition, adding a token costs one product per element, and reading it one per element
// and query. The usual chunked form, p * MV_0 + tril(p * ww^T) * adds, has larger matrix products,
// but chunk/2 * group more products per slot, and its rounding depends on where chunks begin.

namespace kvick::kernels {
namespace {

template <class V>
struct SlotTiles {
  using F = typename V::F;
  static constexpr int kSlots = 4;
  static constexpr int kVectors = V::kAccumulators / kSlots;

  static F load(const float* p, bool part, int lanes) {
    return part ? V::load_part(p, lanes) : V::load(p);
  }
  static void store(float* p, F x, bool part, int lanes) {
    if (part)
      V::store_part(p, x, lanes);
    else
      V::store(p, x);
  }

  // Applies all tokens to slots [slot, slot + S) and R vectors of elements from d on. lanes:
  // elements of the vector if R is 1.
  template <int S, int R, bool kGated>
  static void tile(const MemoryWalk& w, uint32_t slot, uint32_t d, int lanes) {
    const bool part = R == 1 && lanes < V::kLanes;
    const size_t at = size_t{slot} * w.head_dim + d;
    F value[S][R];
    KVICK_UNROLL for (int s = 0; s < S; ++s) KVICK_UNROLL for (int r = 0; r < R; ++r) value[s][r] =
        load(w.from + at + s * w.head_dim + r * V::kLanes, part, lanes);
    for (uint32_t t = 0; t < w.tokens; ++t) {
      const float* weights = w.weights + size_t{t} * w.stride + slot;
      F add[R];
      KVICK_UNROLL for (int r = 0; r < R; ++r) add[r] =
          load(w.adds + size_t{t} * w.head_dim + d + r * V::kLanes, part, lanes);
      KVICK_UNROLL for (int s = 0; s < S; ++s) {
        const F weight = V::set(weights[s]);
        if constexpr (kGated) {
          const F gate = V::set(w.gates[t]);
          KVICK_UNROLL for (int r = 0; r < R; ++r) value[s][r] = V::mul(gate, value[s][r]);
        }
        KVICK_UNROLL for (int r = 0; r < R; ++r) value[s][r] = V::fma(weight, add[r], value[s][r]);
      }
      if (t < w.first_read) continue;
      for (uint32_t g = 0; g < w.group; ++g) {
        const float* probs = w.probs + (size_t{t - w.first_read} * w.group + g) * w.stride + slot;
        float* out = w.out + (t - w.first_read) * w.out_stride + size_t{g} * w.head_dim + d;
        F sum[R];
        KVICK_UNROLL for (int r = 0; r < R; ++r) sum[r] =
            slot == 0 ? V::zero() : load(out + r * V::kLanes, part, lanes);
        KVICK_UNROLL for (int s = 0; s < S; ++s) {
          const F prob = V::set(probs[s]);
          KVICK_UNROLL for (int r = 0; r < R; ++r) sum[r] = V::fma(prob, value[s][r], sum[r]);
        }
        KVICK_UNROLL for (int r = 0; r < R; ++r) store(out + r * V::kLanes, sum[r], part, lanes);
      }
    }
    if (w.to == nullptr) return;
    KVICK_UNROLL for (int s = 0; s < S; ++s) KVICK_UNROLL for (int r = 0; r < R; ++r)
        store(w.to + at + s * w.head_dim + r * V::kLanes, value[s][r], part, lanes);
  }

  template <int S, bool kGated>
  static void slots(const MemoryWalk& w, uint32_t slot) {
    uint32_t d = 0;
    for (; d + kVectors * V::kLanes <= w.head_dim; d += kVectors * V::kLanes)
      tile<S, kVectors, kGated>(w, slot, d, V::kLanes);
    for (; d < w.head_dim; d += V::kLanes) {
      const uint32_t left = w.head_dim - d;
      tile<S, 1, kGated>(w, slot, d, left < V::kLanes ? static_cast<int>(left) : V::kLanes);
    }
  }

  template <bool kGated>
  static void walk(const MemoryWalk& w) {
    uint32_t slot = 0;
    for (; slot + kSlots <= w.slots; slot += kSlots) slots<kSlots, kGated>(w, slot);
    for (; slot < w.slots; ++slot) slots<1, kGated>(w, slot);
  }
};

template <class V>
void walk_memory(const MemoryWalk& walk) {
  if (walk.gates != nullptr)
    SlotTiles<V>::template walk<true>(walk);
  else
    SlotTiles<V>::template walk<false>(walk);
}

template <class V>
float exp_row(float* x, size_t n, float scale) {
  float most = x[0];
  size_t i = 0;
  if (n >= size_t{V::kLanes}) {
    auto lanes = V::load(x);
    for (i = V::kLanes; i + V::kLanes <= n; i += V::kLanes) lanes = V::max(lanes, V::load(x + i));
    most = V::largest(lanes);
  }
  for (; i < n; ++i) most = x[i] > most ? x[i] : most;
  const auto factor = V::set(scale), top = V::set(most);
  typename V::F sum[4] = {V::zero(), V::zero(), V::zero(), V::zero()};
  size_t turn = 0;
  for (i = 0; i + V::kLanes <= n; i += V::kLanes, turn = (turn + 1) & 3) {
    const auto e = V::exp(V::mul(V::sub(V::load(x + i), top), factor));
    V::store(x + i, e);
    sum[turn] = V::add(sum[turn], e);
  }
  if (i < n) {
    const int left = static_cast<int>(n - i);
    V::store_part(x + i, V::exp(V::mul(V::sub(V::load_part(x + i, left), top), factor)), left);
    sum[turn] = V::add(sum[turn], V::load_part(x + i, left));  // not the lanes past the row
  }
  return V::sum(V::add(V::add(sum[0], sum[1]), V::add(sum[2], sum[3])));
}

}  // namespace
}  // namespace kvick::kernels
