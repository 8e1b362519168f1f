// A family that kvick lacks, made of one table row: Gemma's traits, layers that differ, and rows
// that layers share. Compared with a twin that takes its weights from make_model's definition.

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

// A window in every other layer, with its own rotation there.
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

// Layers with their own numbers of heads, head sizes and widths, and shared rows, as in Gemma 4 and
// Llama 4.
tools::Spec mixed_spec() {
  tools::Spec spec = toy_spec();
  spec.features.heads = {4, 8, 4, 2};
  spec.features.kv_heads = {2, 2, 2, 2};
  spec.features.ffn = {96, 64, 32, 128};
  spec.features.window_head_dim = 32;
  spec.features.shared_layers = 2;
  return spec;
}

// The same with windows shorter than the text, sinks and softcaps.
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

// One latent row for all heads; joined_spec: one matrix for keys and values, as in files of 2024.
tools::Spec latent_spec() {
  tools::Spec spec = toy_spec();
  tools::Features& f = spec.features;
  f.window = 0, f.sinks = false;
  f.latent = 32, f.q_latent = 32, f.plain = 32, f.value_dim = 16;
  spec.layers = 2, spec.rotated = 32, spec.head_dim = f.plain + spec.rotated, spec.kv_heads = 1;
  return spec;
}
tools::Spec joined_spec() {
  tools::Spec spec = latent_spec();
  spec.features.joined_heads = true, spec.features.q_latent = 0;
  spec.layers = 2, spec.kv_heads = spec.heads;
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

  // Returns the logits of every token, fed in pieces of `piece` tokens.
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

  // Returns the final states of all tokens but the last of each piece, whose logits are wanted; its
  // state is left as zeros.
  std::vector<float> states(std::span<const Token> tokens, size_t piece) {
    PlainRows rows(model->config());
    const size_t dim = spec.dim;
    std::vector<float> all(tokens.size() * dim), logits(spec.vocab);
    for (size_t past = 0; past < tokens.size(); past += piece) {
      const auto part = tokens.subspan(past, std::min(piece, tokens.size() - past));
      const Slot slot = {.past = static_cast<uint32_t>(past), .tokens = part, .parents = {}};
      const auto last = static_cast<uint32_t>(part.size() - 1);
      std::vector<uint32_t> before(last);
      std::iota(before.begin(), before.end(), 0U);
      const States states = {.tokens = before, .floats = all.data() + past * dim};
      PlainStep step(rows, static_cast<uint32_t>(past), static_cast<uint32_t>(part.size()));
      model->forward({.slots = {&slot, 1}, .states = &states}, step, workspace, {&last, 1},
                     logits.data());
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
                                         ToyCase{"OfExperts", experts_spec},
                                         ToyCase{"OfLatentRows", latent_spec}),
                         [](const auto& instance) { return instance.param.name; });

void expect_twin(const tools::Spec& spec) {
  Toy toy(spec);
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
  EXPECT_GT(most, 1);  // the logits differ
  EXPECT_LT(most, 3);  // the softcap limits them
}

TEST_P(ToyFamily, IsARowOfATableAndComputesWhatItsTwinDoes) { expect_twin(spec()); }

// The keys' part of a joined matrix is transposed when it is read.
TEST(LatentAttention, ReadsFilesWithOneMatrixForKeysAndValues) { expect_twin(joined_spec()); }

TEST_P(ToyFamily, GivesTheSameBitsHoweverAPromptIsCut) {
  Toy toy(spec());
  const std::vector<Token> tokens = tokens_of(40, 3, toy.spec.vocab);
  const std::vector<float> whole = toy.feed(tokens, 40);
  for (const size_t piece : {1, 7, 39}) EXPECT_TRUE(same_bits(whole, toy.feed(tokens, piece)));
}

TEST_P(ToyFamily, GivesTheStatesThatItsTwinHas) {
  Toy toy(spec());
  Twin twin(toy.spec);
  const std::vector<Token> tokens = tokens_of(26, 7, toy.spec.vocab);
  const std::vector<float> states = toy.states(tokens, 26);
  double most = 0;
  for (size_t t = 0; t + 1 < tokens.size(); ++t) {
    twin.logits(tokens[t]);
    for (size_t i = 0; i < toy.spec.dim; ++i) {
      ASSERT_NEAR(states[t * toy.spec.dim + i], twin.state()[i], 2e-4) << t << ' ' << i;
      most = std::max(most, std::abs(twin.state()[i]));
    }
  }
  EXPECT_GT(most, 0.5);  // the states differ
}

TEST_P(ToyFamily, GivesStatesOfTheSameBitsHoweverAPromptIsCut) {
  Toy toy(spec());
  const std::vector<Token> tokens = tokens_of(40, 3, toy.spec.vocab);
  const std::vector<float> whole = toy.states(tokens, 40);
  const size_t dim = toy.spec.dim;
  for (const size_t piece : {2, 7, 39}) {
    const std::vector<float> cut = toy.states(tokens, piece);
    for (size_t t = 0; t + 1 < tokens.size(); ++t) {
      if (t % piece == piece - 1) continue;  // its logits were wanted instead of its state
      EXPECT_TRUE(
          same_bits(std::span(whole).subspan(t * dim, dim), std::span(cut).subspan(t * dim, dim)))
          << piece << ' ' << t;
    }
  }
}

// Drafts from the model's states at first, and then from the draft layer's own states.
TEST_P(ToyFamily, DraftsByALayerBehindTheLastAsItsTwinDoes) {
  tools::Spec drafting = spec();
  if (drafting.features.shared_layers != 0) GTEST_SKIP() << "the last layers have no rows";
  drafting.features.draft_layers = 2;  // the first of them drafts
  Toy toy(drafting);
  Twin twin(toy.spec);
  const auto made =
      toy.model->read_drafter({.kernels = &toy.kernels, .pool = &toy.pool, .families = {&kToy, 1}});
  ASSERT_TRUE(made.ok()) << made.error().message;
  const Model& drafter = **made;
  ASSERT_EQ(drafter.config().layer_count(), 1u);
  const std::vector<Token> tokens = tokens_of(9, 7, toy.spec.vocab);
  PlainRows rows(drafter.config());
  std::vector<float> before(toy.spec.dim), logits(toy.spec.vocab);
  for (uint32_t t = 0; t < tokens.size(); ++t) {
    const uint32_t first = 0;
    std::vector<float> state(toy.spec.dim);
    const States states = {.tokens = {&first, 1}, .floats = state.data()};
    const Slot slot = {
        .past = t, .tokens = {&tokens[t], 1}, .parents = {}, .states = before.data()};
    PlainStep step(rows, t, 1);
    drafter.forward({.slots = {&slot, 1}, .states = &states}, step, toy.workspace, {&first, 1},
                    logits.data());
    const Vector expected = twin.drafted(tokens[t], Vector(before.begin(), before.end()));
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 2e-4) << t;
    for (size_t i = 0; i < state.size(); ++i) ASSERT_NEAR(state[i], twin.state()[i], 2e-4) << t;
    if (t < 4) twin.logits(tokens[t]);
    before.assign(twin.state().begin(), twin.state().end());
  }
}

TEST(Family, SaysThatAFileHasNoLayerThatDrafts) {
  Toy toy(toy_spec());
  const auto made = toy.model->read_drafter({.kernels = &toy.kernels, .pool = &toy.pool});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message,
            toy.path +
                ": the file has no layer that predicts further tokens (nextn); draft by lookup, or "
                "by a smaller model");
}

TEST(Family, RefusesASharedExpertThatItWouldComputeWrongly) {
  Toy toy(experts_spec());
  for (const auto activation : {MixtureTraits::Activation::kOai, MixtureTraits::Activation::kGelu,
                                MixtureTraits::Activation::kReluSquared}) {
    Family family = kToy;
    family.mixture.activation = activation;
    const auto loaded =
        Model::load(io::ModelFile::open(toy.path).value(),
                    {.kernels = &toy.kernels, .pool = &toy.pool, .families = {&family, 1}});
    ASSERT_FALSE(loaded.ok());
    EXPECT_NE(loaded.error().message.find("a shared expert of a form"), std::string::npos)
        << loaded.error().message;
  }
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

// Returns the logits over a store, in pieces of `piece` tokens. Between pieces, steps are dropped
// and a fork reads other tokens; of a tree of draft tokens, the last path is kept.
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
      // Draft tokens: two wrong ones, and the two right ones as a path.
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
  std::vector<kernels::DType> types = {kernels::DType::kF16, kernels::DType::kBF16};
  // Other types need heads with a multiple of 32 elements.
  if (spec().features.latent != 0) types.push_back(kernels::DType::kQ8);
  for (const kernels::DType type : types) {
    const std::vector<float> first = feed_store(toy, "virtual", type, tokens, 60);
    for (const char* strategy : strategies)
      EXPECT_TRUE(same_bits(first, feed_store(toy, strategy, type, tokens, 7)))
          << strategy << ' ' << kernels::dtype_info(type).name;
  }
}

}  // namespace
}  // namespace kvick::model
