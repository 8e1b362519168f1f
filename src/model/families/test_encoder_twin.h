#pragma once
// The forward of encoders in plain loops, for the test of their families.
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

class EncoderTwin {
 public:
  using Vector = std::vector<double>;
  using Rows = std::vector<Vector>;

  explicit EncoderTwin(const tools::Spec& spec) : spec_(spec) {}

  // Returns the state of every token of one text.
  Rows states(std::span<const Token> tokens, size_t second_text) {
    Rows x;
    for (size_t t = 0; t < tokens.size(); ++t) x.push_back(input(tokens[t], t, t >= second_text));
    for (layer_ = 0; layer_ < spec_.layers; ++layer_) {
      blk_ = fmt::format("blk.{}.", layer_);
      Rows h;
      for (const Vector& row : x) h.push_back(norm(row, "attn_norm"));
      h = attend(h);
      for (size_t t = 0; t < x.size(); ++t) {
        const Vector before = x[t];
        add(x[t], norm(product(h[t], "attn_output"), "post_attention_norm"));
        x[t] = norm(x[t], "attn_output_norm");
        if (has("attn_norm_2")) {
          add(x[t], before);
          x[t] = norm(x[t], "attn_norm_2");
        }
        add(x[t], norm(feed_forward(norm(x[t], "ffn_norm")), "post_ffw_norm"));
        x[t] = norm(x[t], "layer_output_norm");
      }
    }
    blk_.clear();
    for (Vector& row : x) row = norm(row, "output_norm");
    return x;
  }

  // Returns the score of pooled states.
  double score(Vector x) const {
    if (has("cls")) {
      x = product(x, "cls");
      for (double& e : x) e = f_.family == "modern-bert" ? gelu(e) : std::tanh(e);
      x = norm(x, "cls.norm");
    }
    if (has("cls.output")) x = product(x, "cls.output");
    const double logit = x.size() > 1 ? x[0] - x[1] : x[0];
    return 1 / (1 + std::exp(-logit));
  }
  Vector embedding(const Vector& x) const {
    return has("dense_2") ? product(product(x, "dense_2"), "dense_3") : x;
  }

 private:
  Vector input(Token token, size_t position, bool second) const {
    Vector x = row("token_embd", static_cast<size_t>(token));
    for (double& e : x) e *= f_.scaled_embedding ? std::sqrt(spec_.dim) : 1;
    if (f_.positions) add(x, row("position_embd", position));
    if (f_.token_types > 0) add(x, row("token_types", second && f_.token_types > 1 ? 1 : 0));
    return norm(x, "token_embd_norm");
  }
  bool windowed() const {
    if (f_.window == 0) return false;
    return f_.family == "modern-bert" ? layer_ % 3 != 0 : layer_ % 6 != 5;
  }
  Rows attend(const Rows& h) const {
    Rows q, k, v, out;
    const size_t dim = spec_.head_dim, kv = spec_.kv_heads * dim, all = spec_.heads * dim;
    for (size_t t = 0; t < h.size(); ++t) {
      Vector qkv = f_.fused_qkv ? product(h[t], "attn_qkv") : product(h[t], "attn_q");
      if (!f_.fused_qkv)
        for (const char* name : {"attn_k", "attn_v"})
          for (const double e : product(h[t], name)) qkv.push_back(e);
      const auto part = [&](size_t first, size_t n) {
        const auto begin = qkv.begin() + static_cast<ptrdiff_t>(first);
        return Vector(begin, begin + static_cast<ptrdiff_t>(n));
      };
      q.push_back(heads(part(0, all), t, "attn_q_norm"));
      k.push_back(heads(part(all, kv), t, "attn_k_norm"));
      v.push_back(part(all + kv, kv));
    }
    for (size_t t = 0; t < h.size(); ++t) out.push_back(attended(q[t], k, v, t));
    return out;
  }
  Vector attended(const Vector& q, const Rows& k, const Rows& v, size_t t) const {
    const size_t dim = spec_.head_dim;
    Vector out(q.size());
    for (size_t head = 0; head < spec_.heads; ++head) {
      const size_t at = head * dim, kv_at = head / (spec_.heads / spec_.kv_heads) * dim;
      double sum = 0;
      for (size_t s = 0; s < k.size(); ++s) {
        if (windowed() && std::max(s, t) - std::min(s, t) > f_.window / 2) continue;
        double dot = 0;
        for (size_t d = 0; d < dim; ++d) dot += q[at + d] * k[s][kv_at + d];
        const auto distance = static_cast<double>(std::max(s, t) - std::min(s, t));
        const double p = std::exp(dot / std::sqrt(dim) - slope(head) * distance);
        for (size_t d = 0; d < dim; ++d) out[at + d] += p * v[s][kv_at + d];
        sum += p;
      }
      for (size_t d = 0; d < dim; ++d) out[at + d] /= sum;
    }
    return out;
  }
  // ALiBi's slope; all models have an exponent of 8.
  double slope(size_t head) const {
    if (!f_.alibi) return 0;
    size_t power = 1;
    while (power * 2 <= spec_.heads) power *= 2;
    const double n = static_cast<double>(power), i = static_cast<double>(head);
    return head < power ? std::pow(2, -8 / n * (i + 1)) : std::pow(2, -4 / n * (2 * (i - n) + 1));
  }
  // Normalises and rotates the heads, pairing the halves of a head.
  Vector heads(Vector x, size_t position, const std::string& name) const {
    if (f_.all_head_norms) x = norm(x, name);
    const size_t dim = spec_.head_dim;
    const double local = f_.window_rope_base != 0 ? f_.window_rope_base : 10000;
    const double base = windowed() ? local : spec_.rope_base;
    Vector out;
    for (size_t first = 0; first < x.size(); first += dim) {
      const auto begin = x.begin() + static_cast<ptrdiff_t>(first);
      Vector head(begin, begin + static_cast<ptrdiff_t>(dim));
      if (!f_.all_head_norms) head = norm(head, name);
      for (size_t i = 0; !f_.positions && !f_.alibi && i < dim / 2; ++i) {
        const double angle = static_cast<double>(position) *
                             std::pow(base, -2.0 * static_cast<double>(i) / spec_.head_dim);
        const double a = head[i], b = head[i + dim / 2];
        head[i] = a * std::cos(angle) - b * std::sin(angle);
        head[i + dim / 2] = a * std::sin(angle) + b * std::cos(angle);
      }
      out.insert(out.end(), head.begin(), head.end());
    }
    return out;
  }
  static double gelu(double x) {
    return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  Vector feed_forward(const Vector& h) const {
    if (f_.has_experts(layer_)) return mixture(h);
    Vector up = product(h, "ffn_up");
    if (f_.ungated) {
      for (double& e : up) e = gelu(e);
      return product(up, "ffn_down");
    }
    Vector gate = f_.fused_gate_up ? up : product(h, "ffn_gate");
    if (f_.fused_gate_up) up.erase(up.begin(), up.begin() + spec_.ffn);
    const bool silu =
        f_.family == "nomic-bert" || std::ranges::any_of(f_.keys, [](const tools::Key& key) {
          return key.name == "hidden_activation";
        });
    for (size_t i = 0; i < up.size(); ++i)
      up[i] *= silu ? gate[i] / (1 + std::exp(-gate[i])) : gelu(gate[i]);
    return product(up, "ffn_down");
  }
  // Takes the best experts by a softmax, weighted by it.
  Vector mixture(const Vector& h) const {
    Vector p = product(h, "ffn_gate_inp"), y(h.size());
    const auto bias = weights_.find(blk_ + "ffn_exps.bias");
    if (bias != weights_.end()) y.assign(bias->second.begin(), bias->second.end());
    double sum = 0;
    for (double& e : p) sum += e = std::exp(e);
    std::vector<size_t> order(p.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
    const std::vector<float>&up_rows = of("ffn_up_exps"), &down_rows = of("ffn_down_exps");
    for (size_t i = 0; i < f_.experts_used; ++i) {
      const size_t e = order[i], width = f_.expert_ffn;
      for (size_t r = 0; r < width; ++r) {
        double up = 0;
        for (size_t d = 0; d < h.size(); ++d) up += h[d] * up_rows[(e * width + r) * h.size() + d];
        for (size_t d = 0; d < h.size(); ++d)
          y[d] += p[e] / sum * gelu(up) * down_rows[(e * h.size() + d) * width + r];
      }
    }
    return y;
  }
  bool has(const std::string& name) const { return weights_.contains(blk_ + name + ".weight"); }
  const std::vector<float>& of(const std::string& name) const {
    return weights_.at(blk_ + name + ".weight");
  }
  Vector row(const std::string& name, size_t index) const {
    Vector x(spec_.dim);
    for (size_t i = 0; i < x.size(); ++i) x[i] = of(name)[index * x.size() + i];
    return x;
  }
  Vector product(const Vector& x, const std::string& name) const {
    const std::vector<float>& w = of(name);
    Vector y(w.size() / x.size());
    const auto bias = weights_.find(blk_ + name + ".bias");
    for (size_t r = 0; r < y.size(); ++r) {
      if (bias != weights_.end()) y[r] = bias->second[r];
      for (size_t i = 0; i < x.size(); ++i) y[r] += x[i] * w[r * x.size() + i];
    }
    return y;
  }
  // LayerNorm, RMSNorm, or a copy if there are no weights.
  Vector norm(const Vector& x, const std::string& name) const {
    if (!has(name)) return x;
    const auto bias = weights_.find(blk_ + name + ".bias");
    const bool centred = f_.sum_norms || f_.plain_layer_norms;
    const auto n = static_cast<double>(x.size());
    const double mean = centred ? std::accumulate(x.begin(), x.end(), 0.0) / n : 0;
    double squares = 0;
    for (const double e : x) squares += (e - mean) * (e - mean);
    Vector y(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      y[i] = (x[i] - mean) / std::sqrt(squares / n + spec_.norm_eps()) * of(name)[i] +
             (bias != weights_.end() ? bias->second[i] : 0);
    return y;
  }
  static void add(Vector& x, const Vector& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  const tools::Spec spec_;
  const tools::Features& f_ = spec_.features;
  uint32_t layer_ = 0;
  std::string blk_;
  std::map<std::string, std::vector<float>> weights_ = made_weights(spec_);
};

}  // namespace kvick::model
