// Predictors that use positions must use those of the text, however its tokens were read: in one
// piece or several, as a path through a tree, or after a step that was dropped.

#include <random>

#include "kv/select/predictor.h"
#include "model/core/test_runner.h"

namespace kvick::model {
namespace {

constexpr uint32_t kRank = 4, kPrompt = 80, kAnswer = 12;

struct Rig : Runner {
  explicit Rig(bool turns = true) : Runner(Arch::kLlama) {
    const Config& config = model->config();
    auto made = std::make_shared<kv::Predictor>();
    made->shape = {.layers = config.layer_count(),
                   .heads = config.layers[0].heads,
                   .kv_heads = config.layers[0].kv_heads,
                   .head_dim = config.layers[0].k_dim,
                   .dim = config.dim,
                   .rank = kRank,
                   .form = kv::PredictorForm::kTrained};
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    const auto matrix = [&](uint32_t heads, float size) {
      std::vector<float> w(size_t{heads} * kRank * config.dim);
      for (float& e : w) e = size * normal(random);
      return w;
    };
    for (uint32_t layer = 0; layer < config.layer_count(); ++layer)
      made->layers.push_back(
          {.q = matrix(config.layers[0].heads, 0.05F), .k = matrix(config.layers[0].kv_heads, 4)});
    if (turns) made->frequency = {0.5F, 0.03F};
    kv::Setup setup;
    setup.shape = model->kv_shape(kernels::DType::kF16, kernels::DType::kF16);
    setup.compute.pool = &pool;
    setup.compute.kernels = &kernels;
    setup.select.group = config.layers[0].group();
    setup.select.model_dim = config.dim;
    setup.select.predictor = std::move(made);
    setup.select.spec =
        kv::parse_spec("maple:form=trained,budget=20,sinks=2,recent=4,dense_layers=0").value();
    store = kv::make_store(kv::parse_spec("virtual").value(), setup).value();
    tokens = tokens_of(kPrompt + kAnswer, 5, config.vocab);
  }

  std::span<const Token> prompt() const { return std::span(tokens).first(kPrompt); }
  // Returns the logits of the answer of a sequence that has read the prompt: each token selects its
  // rows.
  std::vector<float> answer(kv::SeqId seq) {
    EXPECT_EQ(store->length(seq), kPrompt);
    return feed(seq, std::span(tokens).last(kAnswer), {1});
  }
  std::vector<float> after(std::vector<uint32_t> pieces) {
    const kv::SeqId seq = store->open({}).seq;
    feed(seq, prompt(), std::move(pieces));
    return answer(seq);
  }

  std::vector<Token> tokens;
};

TEST(TurnedPredictions, AreThoseOfTheTextInPiecesToo) {
  Rig rig;
  const std::vector<float> whole = rig.after({kPrompt});
  EXPECT_TRUE(same_bits(whole, rig.after({33, 47})));
  Rig still(false);
  EXPECT_FALSE(same_bits(whole, still.after({kPrompt}))) << "nothing depends on positions";
}

// Reads half of the prompt as a path through a tree where each of its tokens has a sibling before
// it.
TEST(TurnedPredictions, AreThoseOfThePathThatIsKept) {
  Rig rig;
  constexpr uint32_t kHalf = kPrompt / 2;
  const kv::SeqId seq = rig.store->open({}).seq;
  rig.feed(seq, rig.prompt().first(kHalf), {kHalf});
  std::vector<Token> tree;
  std::vector<int32_t> parents;
  kv::Kept path = {.rows = {{}}};
  for (uint32_t i = 0; i < kHalf; ++i) {
    const int32_t parent = static_cast<int32_t>(2 * i) - 1;
    tree.insert(tree.end(), {7, rig.tokens[kHalf + i]});
    parents.insert(parents.end(), {parent, parent});
    path.rows[0].push_back(2 * i + 1);
  }
  const Slot slot = {.seq = seq, .past = kHalf, .tokens = tree, .parents = parents};
  rig.step({&slot, 1}, &path);
  EXPECT_TRUE(same_bits(rig.answer(seq), rig.after({kPrompt})));
}

TEST(TurnedPredictions, ForgetStepsThatWereDropped) {
  Rig rig;
  const kv::SeqId seq = rig.store->open({}).seq;
  rig.feed(seq, rig.prompt().first(40), {40});
  const Slot slot = {.seq = seq, .past = 40, .tokens = rig.prompt().first(33), .parents = {}};
  const kv::Kept nothing = {.rows = {{}}};
  rig.step({&slot, 1}, &nothing);
  rig.feed(seq, rig.prompt().subspan(40), {40});
  EXPECT_TRUE(same_bits(rig.answer(seq), rig.after({kPrompt})));
}

}  // namespace
}  // namespace kvick::model
