#pragma once
// The forward of a toy family, for the test of families.
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

// The forward in plain loops, one token at a time.
class Twin {
 public:
  using Vector = std::vector<double>;

  explicit Twin(const tools::Spec& spec)
      : spec_(spec), keys_(spec.layers + spec.features.draft_layers), values_(keys_.size()) {}

  // The input of the output layer for the last logits.
  const Vector& state() const { return state_; }
  Vector logits(Token token) {
    Vector x = embedding(token);
    for (uint32_t l = 0; l < spec_.layers; ++l) run_layer(x, l);
    blk_.clear();
    return outputs(norm(x, "output_norm"));
  }
  // Returns the logits of the draft layer after a token. before: the state of the token before it.
  Vector drafted(Token token, const Vector& before) {
    blk_ = fmt::format("blk.{}.", spec_.layers);
    Vector both = norm(embedding(token), "nextn.enorm");
    const Vector state = norm(before, "nextn.hnorm");
    both.insert(both.end(), state.begin(), state.end());
    Vector x = product(both, "nextn.eh_proj");
    run_layer(x, spec_.layers);
    return outputs(norm(x, "nextn.shared_head_norm"));
  }

 private:
  Vector embedding(Token token) const {
    Vector x(spec_.dim);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = weights_.at("token_embd.weight")[static_cast<size_t>(token) * x.size() + i] *
             std::sqrt(spec_.dim);
    return x;
  }
  void run_layer(Vector& x, uint32_t l) {
    blk_ = fmt::format("blk.{}.", l);
    const Vector in = norm(x, "attn_norm");
    const Vector out = spec_.features.latent != 0 ? attend_latent(in, l) : attend(in, l);
    add(x, norm(product(out, "attn_output"), "post_attention_norm"));
    const Vector h = norm(x, "ffn_norm");
    const Vector y = spec_.features.has_experts(l) ? mixture(h) : feed_forward(h);
    add(x, norm(y, "post_ffw_norm"));
  }
  Vector outputs(const Vector& state) {
    blk_.clear();
    state_ = state;
    Vector y = product(state_, "output");
    for (double& logit : y) logit = capped(logit * 0.25, spec_.features.logit_softcap);
    return y;
  }
  Vector feed_forward(const Vector& h) const {
    Vector gate = product(h, "ffn_gate"), up = product(h, "ffn_up");
    for (size_t i = 0; i < up.size(); ++i) {
      const double g = gate[i], inner = std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
      up[i] *= g / 2 * (1 + std::tanh(inner));
    }
    return product(up, "ffn_down");
  }
  // Takes the best experts by a softmax plus a bias for choosing, weighted by the softmax with sum
  // 1. Adds the shared expert, times a sigmoid.
  Vector mixture(const Vector& h) const {
    const tools::Features& f = spec_.features;
    Vector p = product(h, "ffn_gate_inp"), y(h.size());
    double sum = 0, chosen = 0;
    for (double& e : p) sum += e = std::exp(e);
    std::vector<uint32_t> order(p.size());
    std::iota(order.begin(), order.end(), 0U);
    const auto ranked = [&](uint32_t e) {
      return p[e] / sum + weights_.at(blk_ + "exp_probs_b.bias")[e];
    };
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return ranked(a) > ranked(b); });
    order.resize(f.experts_used);
    for (const uint32_t e : order) chosen += p[e];
    for (const uint32_t e : order) {
      const Vector out = gated(h, "_exps", e * f.expert_ffn, f.expert_ffn, e * h.size());
      for (size_t i = 0; i < y.size(); ++i) y[i] += p[e] / chosen * out[i];
    }
    const Vector shared = gated(h, "_shexp", 0, f.shared_ffn, 0);
    double share = 0;
    for (size_t i = 0; i < h.size(); ++i) share += h[i] * weight("ffn_gate_inp_shexp", i);
    for (size_t i = 0; i < y.size(); ++i) y[i] += shared[i] / (1 + std::exp(-share));
    return y;
  }
  // down(silu(gate(h)) * up(h)), for `width` rows of gate and up from `first` on, and for rows of
  // down from `down` on.
  Vector gated(const Vector& h, const std::string& suffix, size_t first, size_t width,
               size_t down) const {
    Vector mid(width), y(h.size());
    for (size_t r = 0; r < width; ++r) {
      double gate = 0, up = 0;
      for (size_t i = 0; i < h.size(); ++i) {
        gate += h[i] * weight("ffn_gate" + suffix, (first + r) * h.size() + i);
        up += h[i] * weight("ffn_up" + suffix, (first + r) * h.size() + i);
      }
      mid[r] = gate / (1 + std::exp(-gate)) * up;
    }
    for (size_t r = 0; r < y.size(); ++r)
      for (size_t i = 0; i < width; ++i)
        y[r] += mid[i] * weight("ffn_down" + suffix, (down + r) * width + i);
    return y;
  }
  Vector attend(const Vector& h, uint32_t l) {
    const tools::Spec own = spec_.of_layer(l);
    Vector q = heads(product(h, "attn_q"), own, l, "attn_q_norm");
    const uint32_t from = rows_of(l), dim = own.head_dim;
    if (from == l) {
      keys_[l].push_back(heads(product(h, "attn_k"), own, l, "attn_k_norm"));
      values_[l].push_back(product(h, "attn_v"));
    }
    const size_t n = keys_[from].size(), window = spec_.has_window(l) ? spec_.features.window : n;
    Vector out(q.size());
    for (uint32_t head = 0; head < own.heads; ++head) {
      const size_t at = head * dim, kv_at = head / (own.heads / own.kv_heads) * dim;
      double sum = spec_.features.sinks ? std::exp(weight("attn_sinks", head)) : 0;
      for (size_t t = n - std::min(n, window); t < n; ++t) {
        double dot = 0;
        for (uint32_t d = 0; d < dim; ++d) dot += q[at + d] * keys_[from][t][kv_at + d];
        const double p = std::exp(capped(dot / std::sqrt(dim), spec_.features.softcap));
        for (uint32_t d = 0; d < dim; ++d) out[at + d] += p * values_[from][t][kv_at + d];
        sum += p;
      }
      for (uint32_t d = 0; d < dim; ++d) out[at + d] /= sum;
    }
    return out;
  }
  // Follows the equations, with keys and values of all heads (DeepSeek-V2, section 2.1.2).
  Vector attend_latent(const Vector& h, uint32_t l) {
    const tools::Features& f = spec_.features;
    const Vector low = f.q_latent != 0 ? norm(product(h, "attn_q_a"), "attn_q_a_norm") : h;
    Vector q = product(low, f.q_latent != 0 ? "attn_q_b" : "attn_q");
    const Vector row = product(h, "attn_kv_a_mqa");
    const auto behind = row.begin() + f.latent;
    const Vector latent = norm(Vector(row.begin(), behind), "attn_kv_a_norm");
    Vector turned(behind, row.end()), keys, values;
    const auto position = static_cast<double>(keys_[l].size());
    turn(turned.data(), spec_.rotated, position, spec_.rope_base);
    for (uint32_t head = 0; head < spec_.heads; ++head) {
      for (uint32_t i = 0; i < f.plain; ++i) keys.push_back(of_head(latent, head, i, false));
      keys.insert(keys.end(), turned.begin(), turned.end());
      for (uint32_t i = 0; i < f.value_dim; ++i) values.push_back(of_head(latent, head, i, true));
      turn(q.data() + head * spec_.head_dim + f.plain, spec_.rotated, position, spec_.rope_base);
    }
    keys_[l].push_back(std::move(keys));
    values_[l].push_back(std::move(values));
    Vector out(size_t{spec_.heads} * f.value_dim);
    for (uint32_t head = 0; head < spec_.heads; ++head) {
      const size_t at = size_t{head} * spec_.head_dim, v_at = size_t{head} * f.value_dim;
      double sum = 0;
      for (size_t t = 0; t < keys_[l].size(); ++t) {
        double dot = 0;
        for (uint32_t d = 0; d < spec_.head_dim; ++d) dot += q[at + d] * keys_[l][t][at + d];
        const double p = std::exp(capped(dot / std::sqrt(spec_.head_dim), f.softcap));
        for (uint32_t d = 0; d < f.value_dim; ++d) out[v_at + d] += p * values_[l][t][v_at + d];
        sum += p;
      }
      for (uint32_t d = 0; d < f.value_dim; ++d) out[v_at + d] /= sum;
    }
    return out;
  }
  // Returns element i of a head's key or value.
  double of_head(const Vector& latent, size_t head, size_t i, bool is_v) const {
    const tools::Features& f = spec_.features;
    const size_t rank = latent.size(), joined = head * (f.plain + f.value_dim) + i;
    const char* const name = f.joined_heads ? "attn_kv_b" : is_v ? "attn_v_b" : "attn_k_b";
    const std::vector<float>& w = weights_.at(blk_ + name + ".weight");
    double sum = 0;
    for (size_t r = 0; r < rank; ++r)
      sum += latent[r] * (f.joined_heads ? w[(joined + (is_v ? f.plain : 0)) * rank + r]
                          : is_v         ? w[(head * f.value_dim + i) * rank + r]
                                         : w[(head * rank + r) * f.plain + i]);
    return sum;
  }
  // Rotates the first elements, pairing their halves.
  static void turn(double* x, uint32_t dims, double position, double base) {
    for (uint32_t i = 0; i < dims / 2; ++i) {
      const double angle = position * std::pow(base, -2.0 * i / dims);
      const double a = x[i], b = x[i + dims / 2];
      x[i] = a * std::cos(angle) - b * std::sin(angle);
      x[i + dims / 2] = a * std::sin(angle) + b * std::cos(angle);
    }
  }
  // The last layers read the rows of the last layer of their kind before them.
  uint32_t rows_of(uint32_t l) const {
    const uint32_t own = spec_.layers - spec_.features.shared_layers;
    if (l < own || l >= spec_.layers) return l;
    uint32_t from = own - 1;
    while (spec_.has_window(from) != spec_.has_window(l)) --from;
    return from;
  }
  // Normalises and rotates the heads, pairing the halves of a head.
  Vector heads(const Vector& x, const tools::Spec& own, uint32_t l, const std::string& name) {
    const uint32_t dim = own.head_dim, dims = std::min(dim, spec_.head_dim);
    const bool windowed = spec_.has_window(l) && spec_.features.window_rope_base != 0;
    const double base = windowed ? spec_.features.window_rope_base : spec_.rope_base;
    const auto position = static_cast<double>(keys_[rows_of(l)].size() - (rows_of(l) != l));
    Vector out;
    for (size_t first = 0; first < x.size(); first += dim) {
      const auto begin = x.begin() + static_cast<ptrdiff_t>(first);
      Vector head = norm(Vector(begin, begin + dim), name);
      turn(head.data(), dims, position, base);
      out.insert(out.end(), head.begin(), head.end());
    }
    return out;
  }
  double weight(const std::string& name, size_t i) const {
    return weights_.at(blk_ + name + ".weight")[i];
  }
  Vector product(const Vector& x, const std::string& name) const {
    Vector y(weights_.at(blk_ + name + ".weight").size() / x.size());
    for (size_t r = 0; r < y.size(); ++r)
      for (size_t i = 0; i < x.size(); ++i) y[r] += x[i] * weight(name, r * x.size() + i);
    return y;
  }
  Vector norm(const Vector& x, const std::string& name) const {
    double squares = 0;
    for (const double e : x) squares += e * e;
    Vector y(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      y[i] = x[i] * weight(name, i) /
             std::sqrt(squares / static_cast<double>(x.size()) + spec_.norm_eps());
    return y;
  }
  static void add(Vector& x, const Vector& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += 0.5 * y[i];
  }
  static double capped(double x, double cap) { return cap == 0 ? x : cap * std::tanh(x / cap); }

  const tools::Spec spec_;
  std::string blk_;
  Vector state_;
  std::map<std::string, std::vector<float>> weights_ = made_weights(spec_);
  std::vector<std::vector<Vector>> keys_, values_;  // [layers][tokens]
};

}  // namespace kvick::model
