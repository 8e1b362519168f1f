#pragma once
// The forward of qwen3next, qwen35 and qwen35moe in plain loops and doubles, one token at a time:
// the definition, for the tests. Weights are those of make_model.
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

class DeltaTwin {
 public:
  using Vector = std::vector<double>;

  explicit DeltaTwin(const tools::Spec& spec)
      : spec_(spec),
        f_(spec_.features),
        keys_(spec.layers),
        values_(spec.layers),
        states_(spec.layers, Vector(size_t{f_.state_heads} * f_.state_head_dim * f_.state_size)),
        inputs_(spec.layers) {}

  Vector logits(Token token) {
    Vector x(spec_.dim);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = weights_.at("token_embd.weight")[static_cast<size_t>(token) * x.size() + i];
    for (uint32_t l = 0; l < spec_.layers; ++l) {
      blk_ = fmt::format("blk.{}.", l);
      const Vector h = norm(x, "attn_norm");
      add(x, f_.has_delta(l) ? remember(h, l) : attend(h, l));
      const Vector g = norm(x, "post_attention_norm");
      add(x, f_.has_experts(l) ? mixture(g) : gated(g, "", 0, spec_.ffn, 0));
    }
    blk_.clear();
    return product(norm(x, "output_norm"), "output");
  }

 private:
  // The gated delta rule, after a convolution.
  Vector remember(const Vector& h, uint32_t l) {
    const size_t n = f_.state_size, dim = f_.state_head_dim, heads = f_.state_heads;
    const size_t groups = f_.state_groups, each = heads / groups;
    Vector x, z;
    inputs_of(h, x, z);
    x = convolve(x, l);
    const Vector gates = gates_of(h);
    Vector y(heads * dim);
    for (size_t head = 0; head < heads; ++head) {
      const size_t group = f_.family == "qwen3next" ? head / each : head % groups;
      const Vector q = unit(x, group * n), k = unit(x, (groups + group) * n);
      const double beta = sigmoid(gates[head]),
                   a = gates[heads + head] + number("ssm_dt.bias", head);
      const double decay = std::exp(number("ssm_a", head) * std::log1p(std::exp(a)));
      Vector out(dim);
      for (size_t j = 0; j < dim; ++j) {
        double* const s = states_[l].data() + (head * dim + j) * n;
        double told = 0;
        for (size_t i = 0; i < n; ++i) told += (s[i] *= decay) * k[i];
        const double d = beta * (x[2 * groups * n + head * dim + j] - told);
        for (size_t i = 0; i < n; ++i)
          out[j] += (s[i] += d * k[i]) * q[i] / std::sqrt(static_cast<double>(n));
      }
      const Vector normed = norm(out, "ssm_norm");
      for (size_t j = 0; j < dim; ++j)
        y[head * dim + j] = normed[j] * z[head * dim + j] * sigmoid(z[head * dim + j]);
    }
    return product(y, "ssm_out");
  }
  // Computes queries and keys of all groups and values of all heads, in x, and the gates of the
  // outputs, in z.
  void inputs_of(const Vector& h, Vector& x, Vector& z) const {
    if (!f_.delta_grouped) {
      x = product(h, "attn_qkv"), z = product(h, "attn_gate");
      return;
    }
    const Vector mixed = product(h, "ssm_in");
    const size_t n = f_.state_size, values = f_.state_inner() / f_.state_groups;
    const auto part = [&](size_t first, size_t count, Vector& to) {
      for (size_t at = first; at < mixed.size(); at += 2 * (n + values))
        for (size_t i = 0; i < count; ++i) to.push_back(mixed[at + i]);
    };
    part(0, n, x), part(n, n, x), part(2 * n, values, x), part(2 * n + values, values, z);
  }
  // Returns the betas of all heads, then the values that become their decays.
  Vector gates_of(const Vector& h) const {
    if (!f_.delta_mixed) {
      Vector gates = product(h, "ssm_beta");
      const Vector a = product(h, "ssm_alpha");
      gates.insert(gates.end(), a.begin(), a.end());
      return gates;
    }
    const Vector mixed = product(h, "ssm_ba");
    const size_t each = f_.state_heads / f_.state_groups;
    Vector gates(mixed.size());
    for (size_t i = 0; i < mixed.size(); ++i) {
      const size_t group = i / (2 * each), in = i % (2 * each);
      gates[in / each * f_.state_heads + group * each + in % each] = mixed[i];
    }
    return gates;
  }
  Vector convolve(const Vector& x, uint32_t l) {
    const size_t kernel = f_.conv_kernel;
    inputs_[l].push_back(x);
    Vector y(x.size());
    for (size_t c = 0; c < y.size(); ++c) {
      for (size_t k = 0; k < kernel && k < inputs_[l].size(); ++k)
        y[c] += inputs_[l][inputs_[l].size() - 1 - k][c] *
                number("ssm_conv1d.weight", c * kernel + kernel - 1 - k);
      y[c] *= sigmoid(y[c]);
    }
    return y;
  }
  Vector unit(const Vector& x, size_t first) const {
    const auto begin = x.begin() + static_cast<ptrdiff_t>(first);
    Vector head(begin, begin + f_.state_size);
    const double squares = std::inner_product(head.begin(), head.end(), head.begin(), 1e-6);
    for (double& e : head) e /= std::sqrt(squares);
    return head;
  }
  Vector attend(const Vector& h, uint32_t l) {
    const uint32_t dim = spec_.head_dim;
    Vector q, gate;
    const Vector mixed = product(h, "attn_q");
    for (size_t i = 0; i < mixed.size(); ++i) (i / dim % 2 == 0 ? q : gate).push_back(mixed[i]);
    const size_t position = keys_[l].size();
    q = rotated(q, "attn_q_norm", position);
    keys_[l].push_back(rotated(product(h, "attn_k"), "attn_k_norm", position));
    values_[l].push_back(product(h, "attn_v"));
    Vector out(q.size());
    for (uint32_t head = 0; head < spec_.heads; ++head) {
      const size_t at = head * dim, kv_at = head / (spec_.heads / spec_.kv_heads) * dim;
      double sum = 0;
      for (size_t t = 0; t <= position; ++t) {
        double dot = 0;
        for (uint32_t d = 0; d < dim; ++d) dot += q[at + d] * keys_[l][t][kv_at + d];
        const double p = std::exp(dot / std::sqrt(dim));
        for (uint32_t d = 0; d < dim; ++d) out[at + d] += p * values_[l][t][kv_at + d];
        sum += p;
      }
      for (uint32_t d = 0; d < dim; ++d) out[at + d] *= sigmoid(gate[at + d]) / sum;
    }
    return product(out, "attn_output");
  }
  // Normalises the heads, and rotates the first elements of each, pairing their halves.
  Vector rotated(const Vector& x, const std::string& name, size_t position) const {
    const uint32_t dim = spec_.head_dim, dims = spec_.rotated;
    Vector out;
    for (size_t first = 0; first < x.size(); first += dim) {
      const auto begin = x.begin() + static_cast<ptrdiff_t>(first);
      Vector head = norm(Vector(begin, begin + dim), name);
      for (uint32_t i = 0; i < dims / 2; ++i) {
        const double angle =
            static_cast<double>(position) * std::pow(spec_.rope_base, -2.0 * i / dims);
        const double a = head[i], b = head[i + dims / 2];
        head[i] = a * std::cos(angle) - b * std::sin(angle);
        head[i + dims / 2] = a * std::sin(angle) + b * std::cos(angle);
      }
      out.insert(out.end(), head.begin(), head.end());
    }
    return out;
  }
  // Takes the best experts by a softmax, with weights of sum 1, and adds the shared expert times a
  // sigmoid.
  Vector mixture(const Vector& h) const {
    const Vector p = product(h, "ffn_gate_inp");
    std::vector<uint32_t> order(p.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return p[a] > p[b]; });
    order.resize(f_.experts_used);
    double sum = 0, share = 0;
    for (const uint32_t e : order) sum += std::exp(p[e]);
    for (size_t i = 0; i < h.size(); ++i) share += h[i] * number("ffn_gate_inp_shexp.weight", i);
    Vector y = gated(h, "_shexp", 0, f_.shared_ffn, 0);
    for (double& e : y) e *= sigmoid(share);
    for (const uint32_t e : order) {
      const Vector out = gated(h, "_exps", e * f_.expert_ffn, f_.expert_ffn, e * h.size());
      for (size_t i = 0; i < y.size(); ++i) y[i] += std::exp(p[e]) / sum * out[i];
    }
    return y;
  }
  // down(silu(gate(h)) * up(h)), for `width` rows of gate and up from `first` on, and for rows of
  // down from `down` on.
  Vector gated(const Vector& h, const std::string& suffix, size_t first, size_t width,
               size_t down) const {
    const std::string end = suffix + ".weight";
    Vector mid(width), y(h.size());
    for (size_t r = 0; r < width; ++r) {
      double gate = 0, up = 0;
      for (size_t i = 0; i < h.size(); ++i) {
        gate += h[i] * number("ffn_gate" + end, (first + r) * h.size() + i);
        up += h[i] * number("ffn_up" + end, (first + r) * h.size() + i);
      }
      mid[r] = gate * sigmoid(gate) * up;
    }
    for (size_t r = 0; r < y.size(); ++r)
      for (size_t i = 0; i < width; ++i)
        y[r] += mid[i] * number("ffn_down" + end, (down + r) * width + i);
    return y;
  }
  double number(const std::string& name, size_t i) const { return weights_.at(blk_ + name)[i]; }
  Vector product(const Vector& x, const std::string& name) const {
    const std::vector<float>& w = weights_.at(blk_ + name + ".weight");
    Vector y(w.size() / x.size());
    for (size_t r = 0; r < y.size(); ++r)
      for (size_t i = 0; i < x.size(); ++i) y[r] += x[i] * w[r * x.size() + i];
    return y;
  }
  Vector norm(const Vector& x, const std::string& name) const {
    const double squares = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
    Vector y(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      y[i] = x[i] * number(name + ".weight", i) /
             std::sqrt(squares / static_cast<double>(x.size()) + spec_.norm_eps());
    return y;
  }
  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
  static void add(Vector& x, const Vector& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  const tools::Spec spec_;
  const tools::Features f_;
  std::string blk_;
  std::map<std::string, std::vector<float>> weights_ = made_weights(spec_);
  std::vector<std::vector<Vector>> keys_, values_;  // [layers][tokens]
  std::vector<Vector> states_;                      // [layers], [heads][head_dim][state_size]
  std::vector<std::vector<Vector>> inputs_;         // inputs of the convolutions: [layers][tokens]
};

}  // namespace kvick::model
