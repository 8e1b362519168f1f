#pragma once
// The forward of Gemma 3n and 4 in plain loops and doubles, one token at a time, for their test.
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

class GemmaTwin {
 public:
  using Vector = std::vector<double>;

  explicit GemmaTwin(const tools::Spec& spec)
      : spec_(spec), f_(spec_.features), keys_(spec.layers), values_(spec.layers) {}

  Vector logits(Token token) {
    blk_.clear();
    std::vector<Vector> x(1, row_of("token_embd", token, spec_.dim, std::sqrt(spec_.dim)));
    const std::vector<Vector> inputs = inputs_of(token, x[0]);
    for (uint32_t i = 1; i < f_.streams; ++i)
      x.push_back(as_long_as(x[0], product(x[0], "altup_proj", (i - 1) * spec_.dim, spec_.dim)));
    for (uint32_t l = 0; l < spec_.layers; ++l) {
      blk_ = fmt::format("blk.{}.", l);
      const Vector none;
      f_.streams > 0 ? altup_layer(x, inputs[l], l)
                     : layer(x[0], inputs.empty() ? none : inputs[l], l);
    }
    blk_.clear();
    Vector mean = x[0];
    for (uint32_t i = 1; i < x.size(); ++i)
      add(mean,
          as_long_as(x[0], product(x[i], "altup_unembd_proj", (i - 1) * spec_.dim, spec_.dim)));
    for (double& e : mean) e /= static_cast<double>(x.size());
    Vector y = product(norm(mean, "output_norm"), "token_embd");
    for (double& logit : y) logit = f_.logit_softcap * std::tanh(logit / f_.logit_softcap);
    return y;
  }

 private:
  // -- per-layer inputs of a token: [layers][layer_inputs] --
  std::vector<Vector> inputs_of(Token token, const Vector& x) {
    const size_t n = f_.layer_inputs, all = n * spec_.layers;
    if (n == 0) return {};
    const Vector row = row_of("per_layer_token_embd", token, all, std::sqrt(n));
    const Vector projected = product(x, "per_layer_model_proj");
    std::vector<Vector> out;
    for (size_t first = 0; first < all; first += n) {
      Vector part(n);
      for (size_t i = 0; i < n; ++i) part[i] = projected[first + i] / std::sqrt(spec_.dim);
      part = norm(part, "per_layer_proj_norm");
      for (size_t i = 0; i < n; ++i) part[i] = (part[i] + row[first + i]) / std::sqrt(2);
      out.push_back(part);
    }
    return out;
  }
  Vector use_of(const Vector& x, const Vector& inputs) const {
    Vector gate = product(x, "inp_gate");
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = gelu(gate[i]) * inputs[i];
    return norm(product(gate, "proj"), "post_norm");
  }

  void layer(Vector& x, const Vector& inputs, uint32_t l) {
    add(x, norm(product(attend(norm(x, "attn_norm"), l), "attn_output"), "post_attention_norm"));
    Vector y = feed_forward(norm(x, "ffn_norm"), l);
    if (f_.has_experts(l)) {
      y = norm(y, "post_ffw_norm_1");
      add(y, norm(experts(x), "post_ffw_norm_2"));
    }
    add(x, norm(y, "post_ffw_norm"));
    if (!inputs.empty()) add(x, use_of(x, inputs));
    for (double& e : x) e *= weight("layer_output_scale", 0);
  }

  void altup_layer(std::vector<Vector>& x, const Vector& inputs, uint32_t l) {
    const size_t n = x.size();
    const Vector seen = routed(x[0]);
    std::vector<Vector> guess = x;
    for (size_t i = 0; i < n; ++i)
      for (size_t k = 0; k < n; ++k)
        for (size_t d = 0; d < spec_.dim; ++d)
          guess[i][d] += dot(seen, "altup_predict_coef", i * n + k) * x[k][d];
    const Vector h = norm(guess[0], "attn_norm");
    Vector y = norm(product(attend(h, l), "attn_output"), "post_attention_norm");
    add(y, guess[0]);
    add(y, h);
    add(y, norm(product(product(h, "laurel_l"), "laurel_r"), "laurel_post_norm"));
    for (double& e : y) e /= std::sqrt(2);
    add(y, norm(feed_forward(norm(y, "ffn_norm"), l), "post_ffw_norm"));
    const Vector found = routed(y);
    for (size_t i = 0; i < n; ++i)
      for (size_t d = 0; d < spec_.dim; ++d)
        x[i][d] = guess[i][d] + (y[d] - guess[0][d]) * (1 + dot(found, "altup_correct_coef", i));
    Vector first = x[0];
    for (size_t d = 0; d < first.size(); ++d) first[d] *= weight("altup_correct_scale", d);
    for (size_t i = 1; i < n; ++i) add(x[i], use_of(first, inputs));
  }
  Vector routed(const Vector& x) const {
    Vector r = norm(x, "altup_router_norm");
    for (double& e : r) e /= spec_.dim;
    r = product(r, "altup_router");
    for (double& e : r) e = std::tanh(e);
    return r;
  }
  static Vector as_long_as(const Vector& x, Vector y) {
    const auto squares = [](const Vector& v) {
      return std::inner_product(v.begin(), v.end(), v.begin(), 0.0);
    };
    const double factor = std::sqrt(squares(x) / squares(y));
    for (double& e : y) e *= factor;
    return y;
  }

  Vector feed_forward(const Vector& h, uint32_t l) const {
    Vector gate = product(h, "ffn_gate"), up = product(h, "ffn_up");
    if (!f_.sparsity.empty() && f_.sparsity[l] > 0) {
      const auto n = static_cast<double>(gate.size());
      const double mean = std::accumulate(gate.begin(), gate.end(), 0.0) / n;
      double squares = 0;
      for (const double g : gate) squares += (g - mean) * (g - mean);
      for (double& g : gate) g = std::max(0.0, g - mean - f_.sparsity[l] * std::sqrt(squares / n));
    }
    for (size_t i = 0; i < up.size(); ++i) up[i] *= gelu(gate[i]);
    return product(up, "ffn_down");
  }
  // x: the residual stream, before any norm.
  Vector experts(const Vector& x) const {
    const size_t dim = x.size(), ffn = f_.expert_ffn;
    Vector r = normed(x), y(dim);
    for (size_t d = 0; d < dim; ++d) r[d] *= scale("ffn_gate_inp", d) / std::sqrt(dim);
    const Vector logits = product(r, "ffn_gate_inp"), h = norm(x, "pre_ffw_norm_2");
    std::vector<size_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    order.resize(f_.experts_used);
    double sum = 0;
    for (const size_t e : order) sum += std::exp(logits[e]);
    for (const size_t e : order) {
      const Vector gate = product(h, "ffn_gate_up_exps", 2 * e * ffn, ffn);
      Vector up = product(h, "ffn_gate_up_exps", (2 * e + 1) * ffn, ffn);
      for (size_t i = 0; i < ffn; ++i) up[i] *= gelu(gate[i]);
      const Vector out = product(up, "ffn_down_exps", e * dim, dim);
      const double share = std::exp(logits[e]) / sum * scale("ffn_down_exps", e);
      for (size_t d = 0; d < dim; ++d) y[d] += share * out[d];
    }
    return y;
  }

  Vector attend(const Vector& h, uint32_t l) {
    const tools::Spec own = spec_.of_layer(l);
    const Vector q = heads(product(h, "attn_q"), own, l, "attn_q_norm");
    const uint32_t from = rows_of(l), dim = own.head_dim;
    if (from == l) {
      const Vector k = product(h, "attn_k");
      const bool has_v = weights_.contains(blk_ + "attn_v.weight");
      keys_[l].push_back(heads(k, own, l, "attn_k_norm"));
      values_[l].push_back(heads(has_v ? product(h, "attn_v") : k, own, l, ""));
    }
    const size_t n = keys_[from].size(), window = spec_.has_window(l) ? f_.window : n;
    Vector out(q.size());
    for (uint32_t head = 0; head < own.heads; ++head) {
      const size_t at = head * dim, kv_at = head / (own.heads / own.kv_heads) * dim;
      double sum = 0;
      for (size_t t = n - std::min(n, window); t < n; ++t) {
        double logit = 0;
        for (uint32_t d = 0; d < dim; ++d) logit += q[at + d] * keys_[from][t][kv_at + d];
        const double p = std::exp(logit);
        for (uint32_t d = 0; d < dim; ++d) out[at + d] += p * values_[from][t][kv_at + d];
        sum += p;
      }
      for (uint32_t d = 0; d < dim; ++d) out[at + d] /= sum;
    }
    return out;
  }
  uint32_t rows_of(uint32_t l) const {
    const uint32_t own = spec_.layers - f_.shared_layers;
    if (l < own) return l;
    uint32_t from = own - 1;
    while (spec_.has_window(from) != spec_.has_window(l)) --from;
    return from;
  }
  // Normalises and rotates heads, pairing their halves; values (no name) are only normalised.
  Vector heads(const Vector& x, const tools::Spec& own, uint32_t l, const std::string& name) const {
    const uint32_t dim = own.head_dim;
    const bool windowed = spec_.has_window(l);
    const double base = windowed ? f_.window_rope_base : spec_.rope_base;
    const uint32_t pairs = windowed || f_.full_pairs == 0 ? dim / 2 : f_.full_pairs;
    const auto position = static_cast<double>(keys_[rows_of(l)].size() - (rows_of(l) != l));
    Vector out;
    for (size_t first = 0; first < x.size(); first += dim) {
      const auto begin = x.begin() + static_cast<ptrdiff_t>(first);
      Vector head = name.empty() ? normed({begin, begin + dim}) : norm({begin, begin + dim}, name);
      for (uint32_t i = 0; i < pairs && !name.empty(); ++i) {
        const double angle = position * std::pow(base, -2.0 * i / dim);
        const double a = head[i], b = head[i + dim / 2];
        head[i] = a * std::cos(angle) - b * std::sin(angle);
        head[i + dim / 2] = a * std::sin(angle) + b * std::cos(angle);
      }
      out.insert(out.end(), head.begin(), head.end());
    }
    return out;
  }

  double weight(const std::string& name, size_t i) const {
    return weights_.at(blk_ + name + ".weight")[i];
  }
  double scale(const std::string& name, size_t i) const {
    return weights_.at(blk_ + name + ".scale")[i];
  }
  Vector row_of(const std::string& name, Token token, size_t floats, double factor) const {
    Vector x(floats);
    for (size_t i = 0; i < floats; ++i)
      x[i] = factor * weight(name, static_cast<size_t>(token) * floats + i);
    return x;
  }
  double dot(const Vector& x, const std::string& name, size_t row) const {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += x[i] * weight(name, row * x.size() + i);
    return sum;
  }
  Vector product(const Vector& x, const std::string& name, size_t first = 0,
                 size_t rows = 0) const {
    const std::vector<float>& w = weights_.at(blk_ + name + ".weight");
    Vector y(rows != 0 ? rows : w.size() / x.size());
    for (size_t r = 0; r < y.size(); ++r)
      for (size_t i = 0; i < x.size(); ++i) y[r] += x[i] * w[(first + r) * x.size() + i];
    return y;
  }
  Vector normed(Vector x) const {
    double squares = 0;
    for (const double e : x) squares += e * e;
    const double root = std::sqrt(squares / static_cast<double>(x.size()) + spec_.norm_eps());
    for (double& e : x) e /= root;
    return x;
  }
  Vector norm(const Vector& x, const std::string& name) const {
    Vector y = normed(x);
    for (size_t i = 0; i < y.size(); ++i) y[i] *= weight(name, i);
    return y;
  }
  static double gelu(double x) {
    return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  static void add(Vector& x, const Vector& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  const tools::Spec spec_;
  const tools::Features& f_;
  std::string blk_;
  std::map<std::string, std::vector<float>> weights_ = made_weights(spec_);
  std::vector<std::vector<Vector>> keys_, values_;  // [layers][tokens]
};

}  // namespace kvick::model
