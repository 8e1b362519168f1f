#include "engine/perplexity.h"

#include <cmath>
#include <gtest/gtest.h>

#include "engine/test_engine.h"

namespace kvick::engine {
namespace {

std::vector<Token> text_of(size_t tokens) {
  std::vector<Token> text;
  for (size_t i = 0; i < tokens; ++i) text.push_back(static_cast<Token>((i * i * 7 + i) % 512));
  return text;
}

// The definition: one token at a time, exp of the mean of -log p.
double naive(Engine& engine, std::span<const Token> text, size_t window) {
  double nll = 0;
  size_t count = 0;
  for (size_t begin = 0; begin + window <= text.size(); begin += window) {
    const auto store = std::move(engine.make_store({})).value();
    model::Workspace workspace(engine.pool(), engine.kernels());
    const kv::SeqId seq = store->open({}).seq;
    std::vector<float> logits(engine.model().config().vocab);
    for (uint32_t i = 0; i + 1 < window; ++i) {
      const model::Slot slot = {
          .seq = seq, .past = i, .tokens = text.subspan(begin + i, 1), .parents = {}};
      const model::Batch batch = {.slots = {&slot, 1}};
      const auto slots = model::kv_slots(batch);
      auto step = std::move(store->begin({.slots = slots})).value();
      const uint32_t first = 0;
      engine.model().forward(batch, *step, workspace, {&first, 1}, logits.data());
      step->commit(kv::Kept::all({.slots = slots}));
      double sum = 0;
      for (const float logit : logits) sum += std::exp(double(logit));
      nll += std::log(sum) - logits[static_cast<size_t>(text[begin + i + 1])];
      ++count;
    }
  }
  return std::exp(nll / static_cast<double>(count));
}

TEST(Perplexity, IsTheMeanOverAllPredictedTokensOfWholeWindows) {
  const auto engine = tiny_engine(512);
  const auto text = text_of(450);
  PerplexityOptions options;
  options.window = 200;
  const auto result = perplexity(*engine, text, options);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->tokens, 2u * 199);
  EXPECT_NEAR(result->perplexity, naive(*engine, text, 200), 1e-6 * result->perplexity);
  EXPECT_GT(result->kv_bytes, 0u);
  EXPECT_GT(result->kv_read_bytes_per_token, 0u);
}

TEST(Perplexity, FindsNoDivergenceBetweenExactStrategies) {
  const auto engine = tiny_engine(512);
  PerplexityOptions options;
  options.window = 64;
  for (const kv::Strategy& strategy : kv::strategies()) {
    if (!strategy.traits.exact) continue;
    options.against = parse_kv_options(strategy.name, "f16").value();
    const auto result = perplexity(*engine, text_of(200), options);
    ASSERT_TRUE(result.ok());
    EXPECT_NEAR(result->kl_mean, 0, 1e-9);
    EXPECT_EQ(result->top1_agreement, 1);
  }
}

TEST(Perplexity, SeesTheRoundingOfRows) {
  const auto engine = tiny_engine(512);
  PerplexityOptions options;
  options.window = 64;
  options.kv = parse_kv_options("", "bf16").value();
  options.against = parse_kv_options("", "f32").value();
  const auto result = perplexity(*engine, text_of(200), options);
  ASSERT_TRUE(result.ok());
  EXPECT_GT(result->kl_mean, 0);
  EXPECT_LT(result->kl_mean, 0.01);
  EXPECT_GE(result->kl_p99, result->kl_mean);
}

TEST(Perplexity, RefusesWindowsThatCannotBe) {
  const auto engine = tiny_engine(128);
  PerplexityOptions options;
  options.window = 129;
  EXPECT_NE(perplexity(*engine, text_of(300), options).error().message.find("context of 128"),
            std::string::npos);
  options.window = 64;
  EXPECT_NE(perplexity(*engine, text_of(1), options).error().message.find("at least 2"),
            std::string::npos);
}

}  // namespace
}  // namespace kvick::engine
