// Compares encoders with a twin in doubles that takes its weights from make_model's definition.

#include <gtest/gtest.h>
#include <numeric>

#include "make_model/families.h"

#include "kv/registry/registry.h"
#include "model/core/test_runner.h"
#include "model/families/test_encoder_twin.h"

namespace kvick::model {
namespace {

tools::Spec spec_of(const std::string& family) {
  tools::Spec spec = *tools::made_family(family);
  spec.vocab = 512, spec.context = 512;
  return *tools::checked(spec);
}

struct Encoder {
  explicit Encoder(const tools::Spec& of) : spec(of) {
    const std::string path = test_path("encoder.gguf");
    EXPECT_TRUE(tools::make_gguf(path, spec, pool).ok());
    model = load_model(path, pool, kernels);
    executor.emplace(*model, Workspace(pool, kernels));
    kv::Setup setup;
    set_layers(model->config(), setup);
    store = std::move(kv::make_store({.name = "virtual", .options = {}}, setup)).value();
  }

  // Returns the states of every token of these texts, which one step reads. The store keeps nothing
  // of them.
  std::vector<std::vector<float>> states(std::span<const Slot> texts) {
    std::vector<Slot> slots(texts.begin(), texts.end());
    for (Slot& slot : slots) slot.seq = store->open({}).seq;
    auto step = executor->begin(*store, {.slots = slots}).value();
    std::vector<uint32_t> every(Batch{.slots = slots}.tokens());
    std::iota(every.begin(), every.end(), 0U);
    step.want_states(every);
    step.forward({});
    step.commit(step.all());
    std::vector<std::vector<float>> of_texts;
    size_t at = 0;
    for (const Slot& slot : slots) {
      const size_t floats = slot.tokens.size() * spec.dim;
      const auto rows = executor->states().subspan(at, floats);
      of_texts.emplace_back(rows.begin(), rows.end());
      at += floats;
      store->close(slot.seq);
    }
    EXPECT_EQ(store->usage().allocated_bytes, 0U);
    return of_texts;
  }

  base::ThreadPool pool{2};
  const kernels::Table& kernels = kernels::table(base::best_isa());
  tools::Spec spec;
  std::unique_ptr<Model> model;
  std::optional<Executor> executor;
  std::unique_ptr<kv::Store> store;
};

class EncoderFamily : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Family, EncoderFamily,
                         testing::Values("bert", "nomic-bert", "nomic-bert-moe",
                                         "nomic-bert-moe-bias", "modern-bert", "modern-bert-silu",
                                         "gemma-embedding", "jina-bert-v2", "jina-bert-v2-norms",
                                         "jina-bert-v3"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(EncoderFamily, ComputesWhatItsTwinDoes) {
  Encoder encoder(spec_of(GetParam()));
  EncoderTwin twin(encoder.spec);
  for (const uint32_t length : {1U, 9U, 45U}) {
    const std::vector<Token> tokens = tokens_of(length, length, encoder.spec.vocab);
    const Slot text = {.tokens = tokens, .parents = {}, .second_text = 6};
    const std::vector<float> states = encoder.states({&text, 1}).front();
    const EncoderTwin::Rows expected = twin.states(tokens, 6);
    for (size_t t = 0; t < tokens.size(); ++t)
      for (size_t i = 0; i < encoder.spec.dim; ++i)
        ASSERT_NEAR(states[t * encoder.spec.dim + i], expected[t][i], 1e-3) << t << ' ' << i;
  }
}

TEST_P(EncoderFamily, GivesATextTheSameBitsWhateverIsReadBesideIt) {
  Encoder encoder(spec_of(GetParam()));
  std::vector<std::vector<Token>> tokens;
  std::vector<Slot> texts;
  for (const uint32_t length : {300U, 1U, 40U, 131U})
    tokens.push_back(tokens_of(length, length + 1, encoder.spec.vocab));
  for (const std::vector<Token>& text : tokens) texts.push_back({.tokens = text, .parents = {}});
  const auto together = encoder.states(texts);
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_TRUE(same_bits(encoder.states({&texts[i], 1}).front(), together[i])) << i;
}

TEST_P(EncoderFamily, SeesWhatStandsBehindAToken) {
  Encoder encoder(spec_of(GetParam()));
  std::vector<Token> tokens = tokens_of(12, 3, encoder.spec.vocab);
  const Slot text = {.tokens = tokens, .parents = {}};
  const std::vector<float> before = encoder.states({&text, 1}).front();
  tokens.back() = (tokens.back() + 1) % static_cast<Token>(encoder.spec.vocab);
  const std::vector<float> after = encoder.states({&text, 1}).front();
  EXPECT_NE(before.front(), after.front());
}

TEST(EncoderHead, ScoresAPairAsItsTwinDoes) {
  for (const char* family : {"bert-rank", "modern-bert-rank", "jina-bert-v2-rank", "qwen3-rank"}) {
    Encoder encoder(spec_of(family));
    ASSERT_TRUE(encoder.model->scores_pairs()) << family;
    EXPECT_EQ(encoder.model->config().pooling, Pooling::kRank);
    std::vector<float> pooled(encoder.spec.dim);
    for (size_t i = 0; i < pooled.size(); ++i) pooled[i] = std::sin(static_cast<float>(i * 7 + 1));
    const double expected =
        EncoderTwin(encoder.spec).score(EncoderTwin::Vector(pooled.begin(), pooled.end()));
    const std::vector<float> score = encoder.model->head_of(Pooling::kRank, pooled);
    ASSERT_EQ(score.size(), 1U);
    EXPECT_NEAR(score[0], expected, 1e-5) << family;
    EXPECT_TRUE(score[0] > 0.001 && score[0] < 0.999) << score[0];
  }
}

TEST(EncoderHead, PoolsAsTheFileSays) {
  tools::Spec spec = spec_of("modern-bert-rank");
  EXPECT_EQ(Encoder(spec).model->config().scored, Pooling::kMean);
  spec.features.keys.push_back({"classifier.pooling_type", 2U});
  EXPECT_EQ(Encoder(spec).model->config().scored, Pooling::kCls);
}

TEST(EncoderHead, SendsEmbeddingsThroughItsDenseLayers) {
  Encoder encoder(spec_of("gemma-embedding"));
  std::vector<float> pooled(encoder.spec.dim, 0.25F);
  pooled[3] = -2;
  const EncoderTwin::Vector expected =
      EncoderTwin(encoder.spec).embedding(EncoderTwin::Vector(pooled.begin(), pooled.end()));
  const std::vector<float> made = encoder.model->head_of(Pooling::kMean, pooled);
  ASSERT_EQ(made.size(), expected.size());
  for (size_t i = 0; i < made.size(); ++i) EXPECT_NEAR(made[i], expected[i], 1e-4);
  EXPECT_FALSE(encoder.model->scores_pairs());
}

TEST(EncoderFamily, KeepsNothingOfATextAndHasNoOutputLayer) {
  Encoder encoder(spec_of("bert"));
  EXPECT_EQ(encoder.model->weights().output.bytes, 0U);
  for (const kv::LayerSpec& layer : encoder.model->kv_layers())
    EXPECT_EQ(layer.keeps, kv::LayerSpec::Keeps::kNothing);
  EXPECT_EQ(encoder.store->info().token_bytes(), 0U);
  EXPECT_EQ(encoder.store->most_tokens(), 512U);
}

void expect_refused(const tools::Spec& spec, const char* why) {
  base::ThreadPool pool(1);
  const std::string path = test_path("refused.gguf");
  ASSERT_TRUE(tools::make_gguf(path, spec, pool).ok());
  const auto model = Model::load(io::ModelFile::open(path).value(),
                                 {.kernels = &kernels::table(base::best_isa()), .pool = &pool});
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find(why), std::string::npos) << model.error().message;
}

TEST(EncoderFamily, RefusesAHeadOfMoreLabelsThanAScoreIsMadeOf) {
  tools::Spec spec = spec_of("bert-rank");
  spec.features.rank_labels = 3;
  expect_refused(spec, "3 labels");
}

TEST(EncoderFamily, RefusesAPoolingBeforeTheHeadThatItDoesNotKnow) {
  tools::Spec spec = spec_of("modern-bert-rank");
  spec.features.keys.push_back({"classifier.pooling_type", 3U});
  expect_refused(spec, "classifier.pooling_type is 3; kvick knows 1 (mean) and 2");
}

TEST(EncoderFamily, RefusesGatesByAnotherFunction) {
  tools::Spec spec = spec_of("modern-bert-silu");
  spec.features.keys.back().value = std::string("relu");
  expect_refused(spec, "hidden_activation is relu; kvick has gates by gelu and silu");
}

}  // namespace
}  // namespace kvick::model
