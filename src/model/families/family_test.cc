// A family that kvick does not have, made of a row alone: Gemma's ways, layers that differ, and
// rows that layers share. Against a twin that takes its weights from make_model's definition.

#include "model/families/family.h"

#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

#include "kv/registry/registry.h"
#include "model/core/test_plain_step.h"
#include "model/core/test_runner.h"
#include "model/families/test_twin.h"

namespace kvick::model {
namespace {

using Vector = Twin::Vector;

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
  const std::vector<Token> tokens = tokens_of(26, 7, toy.spec.vocab);
  const std::vector<float> logits = toy.feed(tokens, 26);
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
