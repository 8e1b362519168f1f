// Models with layers of different kinds: opened, planned, run by a session, evaluated and timed.

#include <gtest/gtest.h>

#include "engine/core/test_mixed.h"
#include "engine/eval/perplexity.h"
#include "engine/eval/speed.h"
#include "engine/session/session.h"
#include "engine/speculation/test_draft_model.h"

namespace kvick::engine {
namespace {

class MixedLayers : public testing::TestWithParam<MixedCase> {
 protected:
  const std::unique_ptr<Engine> engine_ = mixed_engine(GetParam().features);
};
INSTANTIATE_TEST_SUITE_P(All, MixedLayers, testing::ValuesIn(mixed_cases()),
                         [](const auto& instance) { return instance.param.name; });

std::vector<Token> text_of(uint32_t tokens) {
  std::vector<Token> text;
  for (uint32_t i = 0; i < tokens; ++i) text.push_back(3 + static_cast<Token>(i * i % 200));
  return text;
}

Request request_of(uint32_t prompt, uint32_t most) {
  Request request;
  request.prompt = text_of(prompt);
  request.max_tokens = most;
  request.sampling.temperature = 0;
  request.ignore_end = true;
  return request;
}

Answer answer_of(Engine& engine, const KvOptions& kv, const std::string& spec = "none") {
  const auto store = std::move(engine.make_store(kv)).value();
  Session session(engine, *store);
  EXPECT_TRUE(session.speculate(parse_spec_options(spec).value()).ok());
  return std::move(session.generate(request_of(30, 60))).value();
}

TEST_P(MixedLayers, AreAnsweredTheSameByEveryStrategy) {
  const Answer plain = answer_of(*engine_, {});
  EXPECT_EQ(plain.tokens.size(), 60u);
  for (const kv::Strategy& strategy : kv::strategies()) {
    if (strategy.traits.slots) continue;
    EXPECT_EQ(answer_of(*engine_, kv_of(strategy)).tokens, plain.tokens) << strategy.name;
  }
}

// Heads have 32 dimensions, since some types have blocks of 32 elements.
TEST(MixedFamilies, AreAnsweredTheSameByEveryStrategyInRowsOfEveryType) {
  for (const char* family : {"gpt-oss", "gemma3", "qwen3moe"}) {
    tools::Spec spec = mixed_spec(family_features(family, 12));
    spec.head_dim = 32;
    const std::unique_ptr<Engine> engine = engine_of(spec);
    for (const char* type : {"f32", "bf16", "q8", "k=q8,v=q4"}) {
      const Answer plain = answer_of(*engine, parse_kv_options("", type).value());
      EXPECT_EQ(plain.tokens.size(), 60u) << family << ' ' << type;
      for (const kv::Strategy& strategy : kv::strategies()) {
        if (strategy.traits.slots || !strategy.traits.exact) continue;
        EXPECT_EQ(answer_of(*engine, kv_of(strategy, type)).tokens, plain.tokens)
            << family << ' ' << type << ' ' << strategy.name;
      }
    }
  }
}

TEST_P(MixedLayers, AreAnsweredTheSameWithDrafts) {
  tools::Spec small = mixed_spec({.window = 6, .window_period = 2});
  small.layers = 2;
  const test::DraftModelFile draft(small);
  for (const char* kv : {"virtual", "paged:block=4", "bmc:r=8"}) {
    const KvOptions options = parse_kv_options(kv, "").value();
    const Answer plain = answer_of(*engine_, options);
    for (const std::string& spec :
         {std::string("lookup:most=13,gain=off,grow=on"), std::string("auto"),
          std::string("skip:gain=off,layers=1,most=5,depth=2,grow=on"),
          "draft:most=3,depth=3,gain=off,model=" + draft.path()}) {
      const Answer drafted = answer_of(*engine_, options, spec);
      EXPECT_EQ(drafted.tokens, plain.tokens) << kv << ' ' << spec;
      if (spec.starts_with("draft")) {
        EXPECT_GT(drafted.drafted, 0u) << kv;
      }
    }
  }
}

TEST_P(MixedLayers, SayWhatTheirStoresAreMadeFor) {
  for (const kv::Strategy& strategy : kv::strategies()) {
    if (strategy.traits.slots) continue;
    const kv::StoreInfo info = engine_->store_info(kv_of(strategy));
    const auto store = std::move(engine_->make_store(kv_of(strategy))).value();
    EXPECT_EQ(info.most_tokens, store->most_tokens()) << strategy.name;
    ASSERT_EQ(info.groups.size(), store->info().groups.size());
    for (size_t g = 0; g < info.groups.size(); ++g) {
      EXPECT_EQ(info.groups[g].token_bytes(), store->info().groups[g].token_bytes());
      EXPECT_EQ(info.groups[g].window, store->info().groups[g].window);
    }
    const kv::Traits traits = kv::traits_of_groups(strategy, info.groups);
    EXPECT_EQ(traits.moves_rows, store->facets().rows != nullptr) << strategy.name;
  }
  const kv::Traits plain =
      kv::traits_of_groups(kv::strategies().front(), engine_->store_info({}).groups);
  EXPECT_NE(plain.moves_rows, GetParam().windows);
}

TEST_P(MixedLayers, TakeTheMemoryThatIsPlanned) {
  for (const char* kv : {"virtual", "paged:block=4", "upfront", "bmc:r=8", "iterative"}) {
    const KvOptions options = parse_kv_options(kv, "").value();
    const auto store = std::move(engine_->make_store(options)).value();
    Session session(*engine_, *store);
    ASSERT_TRUE(session.generate(request_of(30, 61)).ok());  // the last token has no row
    const auto cost = engine_->cost(options, {.tokens = 90});
    ASSERT_TRUE(cost.ok()) << cost.error().message;
    // Blocks that left a window stay cached for later prompts until their memory is needed.
    EXPECT_EQ(store->usage().allocated_bytes - store->usage().cached_bytes, cost->fast_bytes) << kv;
    EXPECT_EQ(store->usage().used_bytes, store->info().used_bytes(90)) << kv;
  }
}

TEST_P(MixedLayers, ReadAgainWhatAPolicyChooses) {
  const std::vector<Token> text = text_of(100);
  PerplexityOptions options;
  options.window = 100;
  const auto plain = perplexity(*engine_, text, options);
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  for (const kv::Strategy& strategy : kv::strategies()) {
    if (strategy.traits.slots || !strategy.traits.exact) continue;
    options.kv = kv_of(strategy);
    const auto same = perplexity(*engine_, text, options);
    ASSERT_TRUE(same.ok()) << same.error().message;
    EXPECT_NEAR(same->perplexity, plain->perplexity, 1e-9) << strategy.name;
  }
  options.kv =
      parse_kv_options("", "", "", "quest:budget=0.25,dense_layers=0,least=16,page=4").value();
  const auto some = perplexity(*engine_, text, options);
  ASSERT_TRUE(some.ok()) << some.error().message;
  EXPECT_LT(some->kv_read_bytes_per_token, plain->kv_read_bytes_per_token);
}

TEST_P(MixedLayers, AreTimed) {
  SpeedOptions options;
  options.repeats = 1;
  const std::vector<Case> cases = {{Phase::kPrefill, 40, 20, 1}, {Phase::kDecode, 5, 30, 2}};
  const auto speed = measure_speed(*engine_, cases, options);
  ASSERT_TRUE(speed.ok()) << speed.error().message;
  const kv::StoreInfo info = engine_->store_info({});
  EXPECT_EQ((*speed)[1].usage.used_bytes, 2 * info.used_bytes(35));
}

}  // namespace
}  // namespace kvick::engine
