// Compares OPT, which llama.cpp does not support, with a twin whose weights come from make_model's
// definition.
#include <cmath>
#include <gtest/gtest.h>
#include <map>

#include "make_model/spec.h"
#include "reference.h"
#include "subject.h"

namespace kvick::parity {
namespace {

using Vector = std::vector<double>;

// The forward pass of Hugging Face's OPTForCausalLM (do_layer_norm_before), one token after the
// other.
class Twin {
 public:
  explicit Twin(const tools::Spec& spec) : spec_(spec) {
    for (const tools::TensorInfo& tensor : tools::tensors_of(spec)) {
      std::vector<float>& data = weights_[tensor.name];
      data.resize(tensor.rows() * tensor.inputs());
      for (uint64_t row = 0; row < tensor.rows(); ++row)
        tools::fill_row(spec, tensor, row, data.data() + row * tensor.inputs());
    }
  }

  Vector logits(Token token, size_t position) {
    Vector x(spec_.dim);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = at("token_embd.weight", static_cast<size_t>(token), i) +
             at("position_embd.weight", position + 2, i);
    keys_.resize(spec_.layers), values_.resize(spec_.layers);
    for (uint32_t l = 0; l < spec_.layers; ++l) {
      const std::string blk = fmt::format("blk.{}.", l);
      const Vector h = norm(x, blk + "attn_norm");
      keys_[l].push_back(linear(h, blk + "attn_k"));
      values_[l].push_back(linear(h, blk + "attn_v"));
      add(x, linear(attend(linear(h, blk + "attn_q"), l), blk + "attn_output"));
      Vector up = linear(norm(x, blk + "ffn_norm"), blk + "ffn_up");
      for (double& u : up) u = std::max(u, 0.0);
      add(x, linear(up, blk + "ffn_down"));
    }
    return product(norm(x, "output_norm"), "token_embd.weight");
  }

 private:
  double at(const std::string& name, size_t row, size_t column) {
    return weights_.at(name)[row * spec_.dim + column];
  }
  Vector product(const Vector& x, const std::string& name) {
    const std::vector<float>& w = weights_.at(name);
    Vector y(w.size() / x.size());
    for (size_t r = 0; r < y.size(); ++r)
      for (size_t i = 0; i < x.size(); ++i) y[r] += x[i] * w[r * x.size() + i];
    return y;
  }
  Vector linear(const Vector& x, const std::string& name) {
    Vector y = product(x, name + ".weight");
    for (size_t r = 0; r < y.size(); ++r) y[r] += weights_.at(name + ".bias")[r];
    return y;
  }
  Vector norm(const Vector& x, const std::string& name) {
    double mean = 0, square = 0;
    for (const double v : x) mean += v / static_cast<double>(x.size());
    for (const double v : x) square += (v - mean) * (v - mean) / static_cast<double>(x.size());
    Vector y(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      y[i] = (x[i] - mean) / std::sqrt(square + 1e-5) * weights_.at(name + ".weight")[i] +
             weights_.at(name + ".bias")[i];
    return y;
  }
  Vector attend(const Vector& q, uint32_t layer) {
    const size_t d = spec_.head_dim;
    Vector out(q.size());
    for (size_t h = 0; h < spec_.heads; ++h) {
      Vector weight;
      double total = 0;
      for (const Vector& k : keys_[layer]) {
        double dot = 0;
        for (size_t i = h * d; i < (h + 1) * d; ++i) dot += q[i] * k[i];
        total += weight.emplace_back(std::exp(dot / std::sqrt(static_cast<double>(d))));
      }
      for (size_t t = 0; t < weight.size(); ++t)
        for (size_t i = h * d; i < (h + 1) * d; ++i)
          out[i] += weight[t] / total * values_[layer][t][i];
    }
    return out;
  }
  static void add(Vector& x, const Vector& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  tools::Spec spec_;
  std::map<std::string, std::vector<float>> weights_;
  std::vector<std::vector<Vector>> keys_, values_;  // [layer][token][dim]
};

TEST(Opt, GivesTheLogitsOfTheTwin) {
  tools::Spec spec;
  spec.arch = tools::Arch::kOpt;
  spec.seed = 77;
  const base::Result<tools::Spec> checked = tools::checked(spec);
  ASSERT_TRUE(checked.ok());
  Twin twin(*checked);
  const std::string path = make_model({"--arch", "opt", "--seed", "77", "--format", "hf"}, "opt");
  std::vector<Token> ids;
  for (Token i = 0; i < 48; ++i) ids.push_back(i * 31 % 509);
  for (const base::Isa isa : base::kIsas) {
    if (!base::isa_supported(isa)) continue;
    const auto engine = open_engine(path, isa);
    const std::vector<float> ours = logits_of(*engine, ids);
    double worst = 0, largest = 0;
    Twin fresh = twin;
    for (size_t t = 0; t < ids.size(); ++t) {
      const Vector expected = fresh.logits(ids[t], t);
      for (size_t i = 0; i < expected.size(); ++i) {
        worst = worse(worst, std::fabs(ours[t * expected.size() + i] - expected[i]));
        largest = std::max(largest, std::fabs(expected[i]));
      }
    }
    // They differ only by rounding: the engine sums at most 512 products in float32, the twin in
    // double.
    EXPECT_LE(worst / largest, 1e-5) << base::isa_name(isa);
  }
}

}  // namespace
}  // namespace kvick::parity
