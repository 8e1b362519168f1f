#include "engine/eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "engine/core/test_engine.h"

namespace kvick::engine {
namespace {

std::vector<Token> text_of(size_t tokens) {
  std::vector<Token> text;
  for (size_t i = 0; i < tokens; ++i) text.push_back(static_cast<Token>((i * i * 7 + i) % 512));
  return text;
}

// Returns the logits of each token of a window but the last, computed one token at a time:
// [tokens][vocab].
std::vector<float> logits_of(Engine& engine, std::span<const Token> window) {
  const auto store = std::move(engine.make_store({})).value();
  model::Executor executor = engine.make_executor();
  const kv::SeqId seq = store->open({}).seq;
  const size_t vocab = engine.model().config().vocab;
  std::vector<float> logits((window.size() - 1) * vocab);
  for (uint32_t i = 0; i + 1 < window.size(); ++i) {
    const model::Slot slot = {.seq = seq, .past = i, .tokens = window.subspan(i, 1), .parents = {}};
    const uint32_t first = 0;
    EXPECT_TRUE(executor.advance(*store, {.slots = {&slot, 1}}, {&first, 1}).ok());
    std::ranges::copy(executor.logits(), logits.data() + i * vocab);
  }
  return logits;
}

std::vector<double> probabilities(std::span<const float> logits) {
  std::vector<double> p;
  double sum = 0;
  for (const float logit : logits) sum += p.emplace_back(std::exp(double(logit)));
  for (double& one : p) one /= sum;
  return p;
}

// The definition: exp of the mean of -log p.
double naive(Engine& engine, std::span<const Token> text, size_t window) {
  const size_t vocab = engine.model().config().vocab;
  double nll = 0;
  size_t count = 0;
  for (size_t begin = 0; begin + window <= text.size(); begin += window) {
    const std::vector<float> logits = logits_of(engine, text.subspan(begin, window));
    for (size_t i = 0; i + 1 < window; ++i, ++count)
      nll -= std::log(probabilities(
          std::span(logits).subspan(i * vocab, vocab))[static_cast<size_t>(text[begin + i + 1])]);
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

// Fast memory for a fifth of a window's rows; a window has several units.
constexpr std::string_view kTier = "ram:size=16MiB,fast=16KiB,unit=8";

TEST(Perplexity, FindsNoDivergenceBetweenExactStrategies) {
  const auto engine = tiny_engine(512);
  PerplexityOptions options;
  options.window = 64;
  for (const kv::Strategy& strategy : kv::strategies()) {
    if (!strategy.traits.exact) continue;
    options.against =
        parse_kv_options(strategy.name, "f16", strategy.traits.tiered ? kTier : "").value();
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

// The definition, computed from the logits of both models.
TEST(Perplexity, ComparesAModelWithAnother) {
  const auto engine = tiny_engine(512), reference = tiny_engine(512, kernels::DType::kQ4_0);
  const auto text = text_of(100);
  PerplexityOptions options;
  options.window = 100;
  options.reference = reference.get();
  const auto result = perplexity(*engine, text, options);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const std::vector<float> own = logits_of(*engine, text), other = logits_of(*reference, text);
  const size_t vocab = own.size() / 99;
  double kl = 0;
  uint64_t agreed = 0;
  for (size_t t = 0; t < 99; ++t) {
    const auto q = probabilities(std::span(own).subspan(t * vocab, vocab));
    const auto p = probabilities(std::span(other).subspan(t * vocab, vocab));
    for (size_t v = 0; v < vocab; ++v) kl += p[v] * std::log(p[v] / q[v]);
    agreed += std::max_element(q.begin(), q.end()) - q.begin() ==
              std::max_element(p.begin(), p.end()) - p.begin();
  }
  EXPECT_NEAR(result->kl_mean, kl / 99, 1e-6);
  EXPECT_GT(result->kl_mean, 0);
  EXPECT_EQ(result->top1_agreement, static_cast<double>(agreed) / 99);
  EXPECT_NEAR(result->perplexity, naive(*engine, text, 100), 1e-6 * result->perplexity);
  EXPECT_NEAR(result->reference_perplexity, naive(*reference, text, 100),
              1e-6 * result->perplexity);
}

TEST(Perplexity, FindsNoDivergenceOfAModelFromItself) {
  const auto engine = tiny_engine(512), same = tiny_engine(512);
  PerplexityOptions options;
  options.window = 64;
  options.reference = same.get();
  options.against = parse_kv_options("", "f16").value();  // cache of the reference
  const auto result = perplexity(*engine, text_of(200), options);
  ASSERT_TRUE(result.ok());
  EXPECT_NEAR(result->perplexity, result->reference_perplexity, 1e-9 * result->perplexity);
  EXPECT_NEAR(result->kl_mean, 0, 1e-9);
  EXPECT_EQ(result->top1_agreement, 1);
}

TEST(Perplexity, RefusesAReferenceThatCannotBeCompared) {
  const auto engine = tiny_engine(512);
  const auto refusal = [&](const std::unique_ptr<Engine>& reference) {
    PerplexityOptions options;
    options.window = 200;
    options.reference = reference.get();
    return perplexity(*engine, text_of(300), options).error().message;
  };
  EXPECT_NE(refusal(tiny_engine(512, kernels::DType::kF32, 600)).find("reference one of 600"),
            std::string::npos);
  EXPECT_NE(refusal(tiny_engine(128)).find("the reference's context of 128"), std::string::npos);
}

TEST(Perplexity, TakesWindowsPastTheContextOfAnEndlessCache) {
  const auto engine = tiny_engine(256);
  PerplexityOptions options;
  options.window = 300;
  options.kv = parse_kv_options("sliding", "f16").value();
  options.kv.max_tokens = 32;
  const auto result = perplexity(*engine, text_of(300), options);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const uint64_t token =
      engine->model().kv_shape(kernels::DType::kF16, kernels::DType::kF16).token_bytes();
  EXPECT_EQ(result->tokens, 299u);
  EXPECT_EQ(result->kv_bytes, 62 * token);
  EXPECT_EQ(result->kv_read_bytes_per_token, 32 * token);
  options.against = parse_kv_options("bmc", "f16").value();
  EXPECT_NE(perplexity(*engine, text_of(300), options).error().message.find("context of 256"),
            std::string::npos);
  options.window = 250;  // a chunk of 128 tokens, and one that no longer sees all of the first
  // Ignored: the window sets the limit of a cache that is not endless.
  options.against->max_tokens = 32;
  const auto lossy = perplexity(*engine, text_of(250), options);
  ASSERT_TRUE(lossy.ok()) << lossy.error().message;
  EXPECT_GT(lossy->kl_mean, 0);
}

TEST(Perplexity, RefusesWindowsThatCannotBe) {
  const auto engine = tiny_engine(128);
  PerplexityOptions options;
  options.window = 129;
  EXPECT_NE(perplexity(*engine, text_of(300), options).error().message.find("context of 128"),
            std::string::npos);
  options.window = 64;
  options.prompt = UINT32_MAX;
  EXPECT_NE(perplexity(*engine, text_of(300), options)
                .error()
                .message.find("a prompt of 4294967295 tokens leaves nothing to predict"),
            std::string::npos);
  options.prompt = 0;
  EXPECT_NE(perplexity(*engine, text_of(1), options).error().message.find("at least 2"),
            std::string::npos);
}

}  // namespace
}  // namespace kvick::engine
