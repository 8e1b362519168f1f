#pragma once
// Table::delta_rule, for any vector type of vec_*.h. Included inside a target region, after
// elementwise_impl.h.
//
// Lanes are values, so a panel of the state needs no sums across lanes. With a k_dim of 128 a panel
// is 8 kB: the first token of a run reads it from memory, then it stays in the first-level cache.
// One pass over the old state S gives both S^T k and S^T q, since S'^T q = decay * S^T q + (q k) d
// for the new state S' = decay * S + k d^T.

namespace kvick::kernels {
namespace {

// The shape of a tile: the values that one pass computes together.
template <class V>
struct DeltaTile {
  // If a vector is a whole panel, each load of k and q serves two panels.
  static constexpr int kPanels = V::kLanes >= int{kDeltaPanel} ? 2 : 1;
  static constexpr int kVectors = kPanels * int{kDeltaPanel} / V::kLanes;
  static constexpr int kChains = kVectors <= 2 ? 4 : kVectors <= 4 ? 2 : 1;
};

// Returns where vector v of a tile begins in row 0 of the state.
template <class V>
constexpr size_t delta_place(int v, size_t k_dim) {
  const size_t value = static_cast<size_t>(v) * V::kLanes;
  return value / kDeltaPanel * kDeltaPanel * k_dim + value % kDeltaPanel;
}

// Computes u = S^T k and w = S^T q.
template <class V, int kVectors>
void delta_products(const DeltaRun& run, const float* state, const float* q, const float* k,
                    typename V::F (&u)[kVectors], typename V::F (&w)[kVectors]) {
  constexpr int kChains = DeltaTile<V>::kChains;
  typename V::F us[kVectors][kChains], ws[kVectors][kChains];
  KVICK_UNROLL for (int v = 0; v < kVectors; ++v) {
    KVICK_UNROLL for (int c = 0; c < kChains; ++c) us[v][c] = ws[v][c] = V::zero();
  }
  for (size_t i = 0; i < run.k_dim; i += kChains) {
    KVICK_UNROLL for (int c = 0; c < kChains; ++c) {
      const float* row = state + (i + c) * kDeltaPanel;
      const auto ki = V::set(k[i + c]), qi = V::set(q[i + c]);
      KVICK_UNROLL for (int v = 0; v < kVectors; ++v) {
        const auto s = V::load(row + delta_place<V>(v, run.k_dim));
        us[v][c] = V::fma(ki, s, us[v][c]);
        ws[v][c] = V::fma(qi, s, ws[v][c]);
      }
    }
  }
  KVICK_UNROLL for (int v = 0; v < kVectors; ++v) {
    u[v] = us[v][0], w[v] = ws[v][0];
    KVICK_UNROLL for (int c = 1; c < kChains; ++c) {
      u[v] = V::add(u[v], us[v][c]);
      w[v] = V::add(w[v], ws[v][c]);
    }
  }
}

// Computes one token for one tile.
template <class V, int kVectors>
void delta_token(const DeltaRun& run, size_t token, const float* before, float* after,
                 size_t value) {
  const float *q = run.q + token * run.k_stride, *k = run.k + token * run.k_stride;
  const float* v_row = run.v + token * run.v_stride + value;
  float* out = run.out + token * run.out_stride + value;
  const auto decay = V::set(run.decay[token * run.gate_stride]);
  const auto beta = V::set(run.beta[token * run.gate_stride]);
  const auto qk = V::set(dot<V>(q, k, run.k_dim));
  typename V::F d[kVectors], w[kVectors];
  delta_products<V, kVectors>(run, before, q, k, d, w);
  KVICK_UNROLL for (int v = 0; v < kVectors; ++v) {
    const size_t lane = static_cast<size_t>(v) * V::kLanes;
    d[v] = V::mul(beta, V::nfma(decay, d[v], V::load(v_row + lane)));
    V::store(out + lane, V::fma(qk, d[v], V::mul(decay, w[v])));
  }
  for (size_t i = 0; i < run.k_dim; ++i) {
    const auto ki = V::set(k[i]);
    KVICK_UNROLL for (int v = 0; v < kVectors; ++v) {
      const size_t at = i * kDeltaPanel + delta_place<V>(v, run.k_dim);
      V::store(after + at, V::fma(ki, d[v], V::mul(decay, V::load(before + at))));
    }
  }
}

template <class V, int kPanels>
void delta_panels(const DeltaRun& run, size_t panel) {
  constexpr int kVectors = kPanels * int{kDeltaPanel} / V::kLanes;
  const size_t first = panel * run.k_dim * kDeltaPanel;
  const float* before = run.before + first;
  for (size_t t = 0; t < run.tokens; ++t) {
    delta_token<V, kVectors>(run, t, before, run.after + first, panel * kDeltaPanel);
    before = run.after + first;
  }
}

template <class V>
void delta_rule(const DeltaRun& run) {
  constexpr size_t kPanels = DeltaTile<V>::kPanels;
  size_t panel = 0;
  for (; panel + kPanels <= run.panels; panel += kPanels) delta_panels<V, kPanels>(run, panel);
  for (; panel < run.panels; ++panel) delta_panels<V, 1>(run, panel);
}

}  // namespace
}  // namespace kvick::kernels
