// A family that kvick does not have, made of a row alone: Gemma's ways, layers that differ, and
// rows that layers share. Against a twin that takes its weights from make_model's definition.

#include "model/families/family.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <numeric>

#include "kv/registry/registry.h"
#include "model/core/test_plain_step.h"
#include "model/core/test_runner.h"

namespace kvick::model {
namespace {

using Vector = std::vector<double>;

base::Status<> configure_toy(const io::ModelFile&, Config& config) {
  config.embedding_scale = std::sqrt(static_cast<float>(config.dim));
  config.residual_scale = 0.5F;
  config.logit_scale = 0.25F;
  return base::Done{};
}

constexpr Family kToy = {
    .name = "toy",
    .configure = configure_toy,
    .experts = {.normalised = true},
    .attention = {.qk_norm = QkNorm::kHead,
                  .norms = {.before = "attn_norm", .after = "post_attention_norm"}},
    .feed_forward = {.form = FeedForward::kGatedGelu,
                     .norms = {.before = "ffn_norm", .after = "post_ffw_norm"}},
    .mixture = {.norms = {.before = "ffn_norm", .after = "post_ffw_norm"}}};

// The forward in plain loops, one token after the other.
class Twin {
 public:
  explicit Twin(const tools::Spec& spec) : spec_(spec), keys_(spec.layers), values_(spec.layers) {
    for (const tools::TensorInfo& tensor : tools::tensors_of(spec)) {
      std::vector<float>& data = weights_[tensor.name];
      data.resize(tensor.rows() * tensor.inputs());
      for (uint64_t row = 0; row < tensor.rows(); ++row)
        tools::fill_row(spec, tensor, row, data.data() + row * tensor.inputs());
    }
  }

  Vector logits(Token token) {
    Vector x(spec_.dim);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = weights_.at("token_embd.weight")[static_cast<size_t>(token) * x.size() + i] *
             std::sqrt(spec_.dim);
    for (uint32_t l = 0; l < spec_.layers; ++l) {
      blk_ = fmt::format("blk.{}.", l);
      add(x, norm(product(attend(norm(x, "attn_norm"), l), "attn_output"), "post_attention_norm"));
      const Vector h = norm(x, "ffn_norm");
      const Vector y = spec_.features.has_experts(l) ? mixture(h) : feed_forward(h);
      add(x, norm(y, "post_ffw_norm"));
    }
    blk_.clear();
    Vector y = product(norm(x, "output_norm"), "output");
    for (double& logit : y) logit = capped(logit * 0.25, spec_.features.logit_softcap);
    return y;
  }

 private:
  Vector feed_forward(const Vector& h) const {
    Vector gate = product(h, "ffn_gate"), up = product(h, "ffn_up");
    for (size_t i = 0; i < up.size(); ++i) {
      const double g = gate[i], inner = std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
      up[i] *= g / 2 * (1 + std::tanh(inner));
    }
    return product(up, "ffn_down");
  }
  // The best by a softmax and a bias for choosing, weighted by the softmax, sum 1; beside them the
  // shared expert, times a sigmoid.
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
  // down(silu(gate(h)) * up(h)) of `width` rows from `first` on, and of down from `down` on.
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
  // The last layers read the rows of the last one of their kind before them.
  uint32_t rows_of(uint32_t l) const {
    const uint32_t own = spec_.layers - spec_.features.shared_layers;
    if (l < own) return l;
    uint32_t from = own - 1;
    while (spec_.has_window(from) != spec_.has_window(l)) --from;
    return from;
  }
  // Normalised and rotated, by halves.
  Vector heads(const Vector& x, const tools::Spec& own, uint32_t l, const std::string& name) {
    const uint32_t dim = own.head_dim, dims = std::min(dim, spec_.head_dim);
    const bool windowed = spec_.has_window(l) && spec_.features.window_rope_base != 0;
    const double base = windowed ? spec_.features.window_rope_base : spec_.rope_base;
    const auto position = static_cast<double>(keys_[rows_of(l)].size() - (rows_of(l) != l));
    Vector out;
    for (size_t first = 0; first < x.size(); first += dim) {
      const auto begin = x.begin() + static_cast<ptrdiff_t>(first);
      Vector head = norm(Vector(begin, begin + dim), name);
      for (uint32_t i = 0; i < dims / 2; ++i) {
        const double angle = position * std::pow(base, -2.0 * i / dims);
        const double a = head[i], b = head[i + dims / 2];
        head[i] = a * std::cos(angle) - b * std::sin(angle);
        head[i + dims / 2] = a * std::sin(angle) + b * std::cos(angle);
      }
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
  std::map<std::string, std::vector<float>> weights_;
  std::vector<std::vector<Vector>> keys_, values_;  // [layers][tokens]
};

// A window in every other layer, and a rotation of its own there.
tools::Spec toy_spec() {
  tools::Spec spec = tiny_spec(Arch::kLlama);
  spec.layers = 4;
  spec.features = {.family = "toy",
                   .window = 12,
                   .window_period = 2,
                   .window_rope_base = 300,
                   .softcap = 2,
                   .logit_softcap = 3,
                   .head_norms = true,
                   .post_norms = true,
                   .sinks = true};
  return spec;
}

// As Gemma 4 and Llama 4 have it: heads, their sizes and widths of each layer, rows shared.
tools::Spec mixed_spec() {
  tools::Spec spec = toy_spec();
  spec.features.heads = {4, 8, 4, 2};
  spec.features.kv_heads = {2, 2, 2, 2};
  spec.features.ffn = {96, 64, 32, 128};
  spec.features.window_head_dim = 32;
  spec.features.shared_layers = 2;
  return spec;
}

// The same with windows that are left behind, sinks and softcaps.
tools::Spec windowed_spec() {
  tools::Spec spec = mixed_spec();
  spec.features.window = 9;
  spec.features.softcap = 5;
  spec.features.sinks = true;
  return spec;
}

// Experts in every other layer.
tools::Spec experts_spec() {
  tools::Spec spec = toy_spec();
  tools::Features& f = spec.features;
  f.expert_period = 2, f.experts = 6, f.experts_used = 2, f.expert_ffn = 32, f.shared_ffn = 64;
  f.selection_bias = f.shared_gate = true;
  return spec;
}

struct Toy {
  explicit Toy(const tools::Spec& wanted)
      : spec(*tools::checked(wanted)), path(write_model(wanted, pool, false)) {
    auto file = io::ModelFile::open(path);
    auto loaded = Model::load(std::move(file).value(),
                              {.kernels = &kernels, .pool = &pool, .families = {&kToy, 1}});
    EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message);
    model = std::move(loaded).value();
  }

  // Of every token, fed in pieces of so many.
  std::vector<float> feed(std::span<const Token> tokens, size_t piece) {
    PlainRows rows(model->config());
    std::vector<float> all;
    for (size_t past = 0; past < tokens.size(); past += piece) {
      const auto part = tokens.subspan(past, std::min(piece, tokens.size() - past));
      const Slot slot = {.past = static_cast<uint32_t>(past), .tokens = part, .parents = {}};
      std::vector<uint32_t> wanted;
      for (uint32_t i = 0; i < part.size(); ++i) wanted.push_back(i);
      const size_t before = all.size();
      all.resize(before + part.size() * spec.vocab);
      PlainStep step(rows, static_cast<uint32_t>(past), static_cast<uint32_t>(part.size()));
      model->forward({.slots = {&slot, 1}}, step, workspace, wanted, all.data() + before);
    }
    return all;
  }

  base::ThreadPool pool{2};
  const kernels::Table& kernels = kernels::table(base::best_isa());
  tools::Spec spec;
  std::string path;
  std::unique_ptr<Model> model;
  Workspace workspace{pool, kernels};
};

struct ToyCase {
  const char* name;
  tools::Spec (*spec)();
};
class ToyFamily : public testing::TestWithParam<ToyCase> {
 protected:
  static tools::Spec spec() { return GetParam().spec(); }
};
INSTANTIATE_TEST_SUITE_P(Family, ToyFamily,
                         testing::Values(ToyCase{"OfLayersAlike", toy_spec},
                                         ToyCase{"OfMixedLayers", mixed_spec},
                                         ToyCase{"OfWindowsSinksAndSoftcaps", windowed_spec},
                                         ToyCase{"OfExperts", experts_spec}),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(ToyFamily, IsARowOfATableAndComputesWhatItsTwinDoes) {
  Toy toy(spec());
  Twin twin(toy.spec);
  const std::vector<Token> tokens = tokens_of(40, 7, toy.spec.vocab);
  const std::vector<float> logits = toy.feed(tokens, 40);
  double most = 0;
  for (size_t t = 0; t < tokens.size(); ++t) {
    const Vector expected = twin.logits(tokens[t]);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(logits[t * expected.size() + i], expected[i], 2e-4) << t << ' ' << i;
      most = std::max(most, std::abs(expected[i]));
    }
  }
  EXPECT_GT(most, 1);  // not all the same
  EXPECT_LT(most, 3);  // the softcap
}

TEST_P(ToyFamily, GivesTheSameBitsHoweverAPromptIsCut) {
  Toy toy(spec());
  const std::vector<Token> tokens = tokens_of(40, 3, toy.spec.vocab);
  const std::vector<float> whole = toy.feed(tokens, 40);
  for (const size_t piece : {1, 7, 39}) EXPECT_TRUE(same_bits(whole, toy.feed(tokens, piece)));
}

TEST(Family, SaysWhatEachLayerKeeps) {
  using Keeps = kv::LayerSpec::Keeps;
  const Toy toy(mixed_spec());
  const std::vector<kv::LayerSpec> layers = toy.model->kv_layers();
  ASSERT_EQ(layers.size(), 4u);
  EXPECT_EQ(layers[0].keeps, Keeps::kRows);
  EXPECT_EQ(layers[0].window, 12u);
  EXPECT_EQ(layers[0].k_dim, 32u);
  EXPECT_EQ(layers[1].window, 0u);
  EXPECT_EQ(layers[1].k_dim, 16u);
  EXPECT_EQ(layers[2].keeps, Keeps::kNothing);
  EXPECT_EQ(layers[2].rows_of, 0u);
  EXPECT_EQ(layers[3].rows_of, 1u);
  EXPECT_FALSE(toy.model->config().layers_alike());
  EXPECT_TRUE(Toy(toy_spec()).model->config().layers_alike());
}

TEST(Family, LeavesOutLayersWhoseRowsAreNotThere) {
  Toy toy(mixed_spec());
  const std::vector<bool> first = {true, false, false, false}, both = {true, false, true, false};
  const std::vector<Token> tokens = tokens_of(5, 3, toy.spec.vocab);
  const auto logits = [&](const std::vector<bool>& skipped) {
    PlainRows rows(toy.model->config());
    PlainStep step(rows, 0, 5);
    const Slot slot = {.past = 0, .tokens = tokens, .parents = {}};
    std::vector<float> out(toy.spec.vocab);
    const uint32_t last = 4;
    toy.model->forward({.slots = {&slot, 1}, .skipped = &skipped}, step, toy.workspace, {&last, 1},
                       out.data());
    return out;
  };
  EXPECT_TRUE(same_bits(logits(first), logits(both)));
}

// Over a store, in pieces of so many tokens; between them steps are dropped, forked sequences go
// another way, and of a tree of drafts the last path is kept.
std::vector<float> feed_store(Toy& toy, const std::string& strategy, kernels::DType type,
                              std::span<const Token> tokens, size_t piece) {
  kv::Setup setup = {.shape = {.max_tokens = 100, .k_type = type, .v_type = type},
                     .layers = toy.model->kv_layers()};
  if (strategy == "tiered") setup.tier.spec = kv::parse_spec("ram:unit=8,size=64MiB").value();
  const auto made = kv::make_store(*kv::parse_spec(strategy), setup);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  kv::Store& store = **made;
  kv::SeqId seq = store.open({}).seq;
  const uint32_t vocab = toy.spec.vocab;
  Executor executor(*toy.model, {toy.pool, toy.kernels});
  std::vector<float> all;
  const auto run = [&](kv::SeqId of, std::span<const Token> part, std::span<const int32_t> parents,
                       const kv::Kept* kept, float* logits) {
    const Slot slot = {.seq = of, .past = store.length(of), .tokens = part, .parents = parents};
    std::vector<uint32_t> wanted(part.size());
    std::iota(wanted.begin(), wanted.end(), 0U);
    auto step = executor.run(store, {.slots = {&slot, 1}}, wanted).value();
    std::ranges::copy(executor.logits(), logits);
    if (kept != nullptr) step.commit(*kept);
  };
  std::vector<float> unused(16 * size_t{vocab});
  for (size_t past = 0; past < tokens.size();) {
    const std::vector<Token> wrong = {1, 2, 3};
    run(seq, wrong, {}, nullptr, unused.data());
    const kv::SeqId fork = store.fork(seq).value();
    const kv::Kept three = {.rows = {{0, 1, 2}}};
    run(fork, wrong, {}, &three, unused.data());
    store.close(fork);
    if (piece == 1 && past + 2 < tokens.size()) {
      // Drafts: two wrong tokens, then the right ones behind one another.
      const std::vector<Token> drafts = {9, tokens[past], 8, tokens[past + 1]};
      const std::vector<int32_t> parents = {-1, -1, 1, 1};
      const kv::Kept path = {.rows = {{1, 3}}};
      run(seq, drafts, parents, &path, unused.data());
      for (const size_t row : {1, 3})
        all.insert(all.end(), unused.data() + row * vocab, unused.data() + (row + 1) * vocab);
      past += 2;
      continue;
    }
    const auto part = tokens.subspan(past, std::min(piece, tokens.size() - past));
    kv::Kept kept;
    kept.rows.emplace_back(part.size());
    std::iota(kept.rows[0].begin(), kept.rows[0].end(), 0U);
    all.resize(all.size() + part.size() * vocab);
    run(seq, part, {}, &kept, all.data() + all.size() - part.size() * vocab);
    past += part.size();
  }
  return all;
}

TEST_P(ToyFamily, GivesTheSameBitsOverEveryStrategy) {
  Toy toy(spec());
  const std::vector<Token> tokens = tokens_of(60, 5, toy.spec.vocab);
  const std::vector<float> plain = toy.feed(tokens, 60);
  const char* const strategies[] = {"virtual",       "bmc:r=16", "iterative", "upfront",
                                    "paged:block=4", "sliding",  "tiered"};
  for (const char* strategy : strategies)
    for (const size_t piece : {60, 7, 1})
      EXPECT_TRUE(same_bits(plain, feed_store(toy, strategy, kernels::DType::kF32, tokens, piece)))
          << strategy << " in pieces of " << piece;
  for (const kernels::DType type : {kernels::DType::kF16, kernels::DType::kBF16}) {
    const std::vector<float> first = feed_store(toy, "virtual", type, tokens, 60);
    for (const char* strategy : strategies)
      EXPECT_TRUE(same_bits(first, feed_store(toy, strategy, type, tokens, 7)))
          << strategy << ' ' << kernels::dtype_info(type).name;
  }
}

}  // namespace
}  // namespace kvick::model
