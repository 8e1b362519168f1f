#pragma once
// The forward of made models whose layers keep a state, in plain loops and doubles, one token at a
// time.
// Larger than 150 lines because it is one definition.

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "make_model/spec.h"

#include "model/core/model.h"
#include "model/core/test_made_weights.h"

namespace kvick::model {

class StateTwin {
 public:
  using Vector = std::vector<double>;

  explicit StateTwin(const tools::Spec& spec)
      : spec_(spec),
        f_(spec_.features),
        keys_(spec.layers),
        values_(spec.layers),
        inputs_(spec.layers),
        states_(spec.layers) {}

  Vector logits(Token token) {
    blk_.clear();
    Vector x(spec_.dim);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = at("token_embd.weight", static_cast<size_t>(token) * x.size() + i) *
             key("embedding_scale", 1);
    for (uint32_t l = 0; l < spec_.layers; ++l) run_layer(l, x);
    blk_.clear();
    x = norm(x, f_.last_norm_of_embedding ? "token_embd_norm" : "output_norm");
    Vector y = product(x, spec_.tied ? "token_embd" : "output");
    for (double& logit : y) logit /= key("logit_scale", 1);
    ++tokens_;
    return y;
  }

 private:
  void run_layer(uint32_t l, Vector& x) {
    const tools::Spec own = spec_.of_layer(l);
    blk_ = fmt::format("blk.{}.", l);
    const Vector h = norm(x, "attn_norm");
    if (f_.one_block && own.ffn > 0) return add(x, f_.experts ? mixture(h) : squared(h));
    Vector beside;
    if (f_.state_beside) beside = mamba2(h, l);
    if (own.kv_heads > 0)
      add(x, attend(h, own, l));
    else
      add(x, f_.state_heads == 0 ? short_conv(h, l) : mamba2(h, l));
    if (f_.state_beside) add(x, beside);
    if (own.ffn == 0) return;
    const Vector g = norm(x, "ffn_norm");
    add(x, f_.has_experts(l) ? mixture(g) : product(gated(g, "", 0, own.ffn), "ffn_down"));
  }

  // -- states --
  Vector short_conv(const Vector& h, uint32_t l) {
    const size_t n = h.size();
    const Vector bcx = product(h, "shortconv.in_proj");
    Vector bx(n);
    for (size_t i = 0; i < n; ++i) bx[i] = bcx[i] * bcx[2 * n + i];
    Vector y = convolved(bx, l, "shortconv.conv");
    for (size_t i = 0; i < n; ++i) y[i] *= bcx[n + i];
    return product(y, "shortconv.out_proj");
  }
  // Convolves over all inputs of the layer so far.
  Vector convolved(const Vector& x, uint32_t l, const std::string& name) {
    inputs_[l].push_back(x);
    Vector y(x.size());
    for (size_t c = 0; c < y.size(); ++c) {
      if (weights_.contains(blk_ + name + ".bias")) y[c] = at(name + ".bias", c);
      for (size_t back = 0; back < std::min<size_t>(f_.conv_kernel, inputs_[l].size()); ++back)
        y[c] += weight(name, (c + 1) * f_.conv_kernel - 1 - back) *
                inputs_[l][inputs_[l].size() - 1 - back][c];
    }
    return y;
  }
  Vector mamba2(const Vector& h, uint32_t l) {
    const size_t inner = f_.state_inner(), heads = f_.state_heads, n = f_.state_size;
    const size_t dim = f_.state_head_dim, groups = f_.state_groups;
    const Vector in = product(h, "ssm_in");
    const auto begin = in.begin() + static_cast<ptrdiff_t>(inner);
    Vector xbc = convolved(Vector(begin, begin + f_.conv_channels()), l, "ssm_conv1d");
    for (double& e : xbc) e = silu(e);
    states_[l].resize(inner * n);
    Vector y(inner);
    for (size_t i = 0; i < inner; ++i) {
      const size_t head = i / dim, group = head / (heads / groups);
      const double dt =
          std::log1p(std::exp(in[inner + f_.conv_channels() + head] + at("ssm_dt.bias", head)));
      for (size_t j = 0; j < n; ++j) {
        double& s = states_[l][i * n + j];
        s = s * std::exp(dt * at("ssm_a", head)) + dt * xbc[i] * xbc[inner + group * n + j];
        y[i] += s * xbc[inner + (groups + group) * n + j];
      }
      y[i] = (y[i] + at("ssm_d", head) * xbc[i]) * silu(in[i]);
    }
    for (size_t first = 0; first < inner && !f_.no_state_norm; first += inner / groups)
      norm_part(y, first, inner / groups, "ssm_norm", first);
    return product(y, "ssm_out");
  }

  // -- the other blocks --
  Vector attend(const Vector& h, const tools::Spec& own, uint32_t l) {
    const size_t dim = own.head_dim;
    const Vector q = heads(product(h, "attn_q"), dim, "attn_q_norm");
    keys_[l].push_back(heads(product(h, "attn_k"), dim, "attn_k_norm"));
    values_[l].push_back(product(h, "attn_v"));
    Vector out(q.size());
    for (size_t head = 0; head < own.heads; ++head) {
      const size_t first = head * dim, kv = head / (own.heads / own.kv_heads) * dim;
      double sum = 0;
      for (size_t t = 0; t < keys_[l].size(); ++t) {
        double dot = 0;
        for (size_t d = 0; d < dim; ++d) dot += q[first + d] * keys_[l][t][kv + d];
        const double p = std::exp(dot * key("attention.scale", 1 / std::sqrt(dim)));
        for (size_t d = 0; d < dim; ++d) out[first + d] += p * values_[l][t][kv + d];
        sum += p;
      }
      for (size_t d = 0; d < dim; ++d) out[first + d] /= sum;
    }
    return product(out, "attn_output");
  }
  // Only LFM2 has norms of heads. LFM2 and Falcon-H1 rotate the heads, pairing their halves.
  Vector heads(Vector x, size_t dim, const std::string& name) const {
    if (!f_.head_norms && !f_.state_beside) return x;
    for (size_t first = 0; first < x.size(); first += dim) {
      if (f_.head_norms) norm_part(x, first, dim, name, 0);
      for (size_t i = 0; i < dim / 2; ++i) {
        const double angle = tokens_ * std::pow(spec_.rope_base, -2.0 * static_cast<double>(i) /
                                                                     static_cast<double>(dim));
        double &a = x[first + i], &b = x[first + i + dim / 2];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = turned;
      }
    }
    return x;
  }
  Vector squared(const Vector& h) const {
    Vector up = product(h, "ffn_up");
    for (double& e : up) e = e > 0 ? e * e : 0;
    return product(up, "ffn_down");
  }
  // Chooses by a sigmoid plus a bias if there is one, otherwise by a softmax; weights have the sum
  // 1.
  Vector mixture(const Vector& h) const {
    Vector p = product(h, "ffn_gate_inp"), y(h.size());
    for (double& e : p) e = f_.selection_bias ? 1 / (1 + std::exp(-e)) : std::exp(e);
    std::vector<uint32_t> order(p.size());
    std::iota(order.begin(), order.end(), 0U);
    const auto ranked = [&](uint32_t e) {
      return p[e] + (f_.selection_bias ? at("exp_probs_b.bias", e) : 0);
    };
    std::ranges::sort(order, [&](uint32_t a, uint32_t b) { return ranked(a) > ranked(b); });
    order.resize(f_.experts_used);
    double sum = 0;
    for (const uint32_t e : order) sum += p[e] / key("expert_weights_scale", 1);
    for (const uint32_t e : order)
      add_down(y, gated(h, "_exps", e * f_.expert_ffn, f_.expert_ffn), "_exps", e, p[e] / sum);
    if (f_.shared_ffn > 0) add_down(y, gated(h, "_shexp", 0, f_.shared_ffn), "_shexp", 0, 1);
    return y;
  }
  // silu(gate(h)) * up(h), or max(up(h), 0) squared, for `width` rows from `first` on.
  Vector gated(const Vector& h, const std::string& suffix, size_t first, size_t width) const {
    static const std::vector<float> kNone;
    const std::vector<float>& up_w = weights_.at(blk_ + "ffn_up" + suffix + ".weight");
    const std::vector<float>& gate_w =
        f_.ungated ? kNone : weights_.at(blk_ + "ffn_gate" + suffix + ".weight");
    Vector mid(width);
    for (size_t r = 0; r < width; ++r) {
      double gate = 0, up = 0;
      for (size_t i = 0; i < h.size(); ++i) {
        if (!f_.ungated) gate += h[i] * gate_w[(first + r) * h.size() + i];
        up += h[i] * up_w[(first + r) * h.size() + i];
      }
      mid[r] = f_.ungated ? (up > 0 ? up * up : 0) : silu(gate) * up;
    }
    return mid;
  }
  void add_down(Vector& y, const Vector& mid, const std::string& suffix, size_t expert,
                double share) const {
    for (size_t r = 0; r < y.size(); ++r)
      for (size_t i = 0; i < mid.size(); ++i)
        y[r] +=
            share * mid[i] * weight("ffn_down" + suffix, (expert * y.size() + r) * mid.size() + i);
  }

  // -- parts --
  static double silu(double x) { return x / (1 + std::exp(-x)); }
  double at(const std::string& tensor, size_t i) const { return weights_.at(blk_ + tensor)[i]; }
  double weight(const std::string& name, size_t i) const {
    return at(f_.bare_ffn_norm && name == "ffn_norm" ? name : name + ".weight", i);
  }
  double key(const std::string& name, double fallback) const {
    for (const tools::Key& one : f_.keys)
      if (one.name == name) return std::get<float>(one.value);
    return fallback;
  }
  Vector product(const Vector& x, const std::string& name) const {
    const std::vector<float>& w = weights_.at(blk_ + name + ".weight");
    Vector y(w.size() / x.size());
    for (size_t r = 0; r < y.size(); ++r)
      for (size_t i = 0; i < x.size(); ++i) y[r] += x[i] * w[r * x.size() + i];
    return y;
  }
  void norm_part(Vector& x, size_t first, size_t n, const std::string& name, size_t weights) const {
    double squares = 0;
    for (size_t i = 0; i < n; ++i) squares += x[first + i] * x[first + i];
    const double size = std::sqrt(squares / static_cast<double>(n) + spec_.norm_eps());
    for (size_t i = 0; i < n; ++i) x[first + i] *= weight(name, weights + i) / size;
  }
  Vector norm(Vector x, const std::string& name) const {
    norm_part(x, 0, x.size(), name, 0);
    return x;
  }
  void add(Vector& x, const Vector& y) const {
    for (size_t i = 0; i < x.size(); ++i) x[i] += key("residual_scale", 1) * y[i];
  }

  const tools::Spec spec_;
  const tools::Features& f_;
  std::string blk_;
  double tokens_ = 0;
  std::map<std::string, std::vector<float>> weights_ = made_weights(spec_);
  std::vector<std::vector<Vector>> keys_, values_, inputs_;  // [layers][tokens]
  std::vector<Vector> states_;                               // [layers][inner][state_size]
};

}  // namespace kvick::model
