// Compares the scores of a document's rows with their definition.

#include "distil/kvzip.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "distil/capture.h"
#include "distil/test_inputs.h"

#include "engine/core/test_engine.h"

namespace kvick::distil {
namespace {

// The largest share that a query of the KV head's group pays to each of the first rows, computed
// one query at a time: [kv_heads][past]. q: the queries of token `past` and those behind it.
std::vector<double> naive_shares(const FreshQueries& layer, const model::LayerConfig& heads) {
  const double scale =
      heads.scale != 0 ? heads.scale : 1 / std::sqrt(static_cast<double>(heads.k_dim));
  std::vector<double> most(size_t{heads.kv_heads} * layer.past);
  for (uint32_t head = 0; head < heads.heads; ++head)
    for (uint32_t token = 0; token < layer.fresh; ++token) {
      const uint32_t kv_head = head / heads.group(), seen = layer.past + token + 1;
      std::vector<double> weights(seen);
      double sum = 0;
      for (uint32_t row = 0; row < seen; ++row) {
        double dot = 0;
        for (uint32_t d = 0; d < heads.k_dim; ++d)
          dot += double{layer.q[(size_t{token} * heads.heads + head) * heads.k_dim + d]} *
                 layer.k[(size_t{row} * heads.kv_heads + kv_head) * heads.k_dim + d];
        double logit = dot * scale;
        if (heads.softcap != 0) logit = heads.softcap * std::tanh(logit / heads.softcap);
        weights[row] = std::exp(logit);
        sum += weights[row];
      }
      for (uint32_t row = 0; row < layer.past; ++row) {
        double& best = most[size_t{kv_head} * layer.past + row];
        best = std::max(best, weights[row] / sum);
      }
    }
  return most;
}

void check_shares(const model::LayerConfig& heads, uint32_t past, uint32_t fresh,
                  unsigned threads) {
  std::mt19937 random(9);
  const auto q = normal_floats(random, size_t{fresh} * heads.q_floats(), 2);
  const auto k = normal_floats(random, (size_t{past} + fresh) * heads.k_floats(), 2);
  const FreshQueries layer = {.past = past, .fresh = fresh, .q = q.data(), .k = k.data()};
  base::ThreadPool pool(threads);
  // Numbers that are larger already stay as they are.
  std::vector<float> most(size_t{heads.kv_heads} * past);
  most[1] = 2;
  raise_to_shares(layer, heads, kernels::table(base::best_isa()), pool, most);
  const std::vector<double> expected = naive_shares(layer, heads);
  for (size_t i = 0; i < most.size(); ++i)
    EXPECT_NEAR(most[i], i == 1 ? 2 : expected[i], 1e-3 * expected[i] + 1e-7) << i;
}

TEST(RaiseToShares, FindsTheLargestShareOfAnyQueryOfTheGroup) {
  model::LayerConfig heads = layer_of(6, 2, 8, 8);
  heads.scale = 0;
  for (const unsigned threads : {1U, 2U, 5U}) check_shares(heads, 33, 11, threads);
  check_shares(heads, 2, 1, 4);
  heads.scale = 0.2F;
  heads.softcap = 1.5F;
  check_shares(heads, 20, 7, 2);
}

// A document of an engine, and a question of three tokens.
Document made_document(uint32_t tokens) {
  return {.tokens = text_of(tokens),
          .ask = [](const std::string&) -> base::Result<std::vector<engine::Token>> {
            return std::vector<engine::Token>{400, 401, 402};
          }};
}

TEST(ScoreDocument, AsksForEachChunkBehindTheWholeDocument) {
  constexpr uint32_t kTokens = 50, kChunk = 20;
  const auto engine = engine::tiny_engine(128);
  const model::Config& config = engine->model().config();
  const model::LayerConfig& heads = config.layers.front();
  const Document document = made_document(kTokens);
  const DocumentScores made = score_document(*engine, document, {.chunk = kChunk}).value();
  EXPECT_EQ(made.tokens, kTokens);
  EXPECT_EQ(made.chunks, 3u);
  EXPECT_EQ(made.predictor.shape.form, kv::PredictorForm::kDocument);
  EXPECT_EQ(made.predictor.shape.tokens, kTokens);
  EXPECT_EQ(made.predictor.document, document.tokens);
  ASSERT_EQ(made.predictor.layers.size(), config.layer_count());
  // The same from whole sequences: the document, a question, a chunk.
  std::vector<std::vector<double>> expected(config.layer_count(),
                                            std::vector<double>(size_t{heads.kv_heads} * kTokens));
  Capture capture = Capture::make(*engine, kTokens + 3 + kChunk).value();
  for (uint32_t first = 0; first < kTokens; first += kChunk) {
    std::vector<engine::Token> all = document.tokens;
    for (const engine::Token token : {400, 401, 402}) all.push_back(token);
    for (uint32_t i = first; i < std::min(kTokens, first + kChunk); ++i)
      all.push_back(document.tokens[i]);
    const auto visit = [&](const LayerActivations& layer) {
      const std::vector<double> shares =
          naive_shares({.past = kTokens,
                        .fresh = layer.tokens - kTokens,
                        .q = layer.q + size_t{kTokens} * heads.q_floats(),
                        .k = layer.k},
                       heads);
      for (size_t i = 0; i < shares.size(); ++i)
        expected[layer.layer][i] = std::max(expected[layer.layer][i], shares[i]);
    };
    ASSERT_TRUE(capture.read(all, visit).ok());
  }
  uint64_t unused = 0;
  for (uint32_t layer = 0; layer < config.layer_count(); ++layer) {
    const std::vector<float>& scores = made.predictor.layers[layer].k;
    ASSERT_EQ(scores.size(), expected[layer].size());
    for (size_t i = 0; i < scores.size(); ++i) {
      // The document's rows are kept in F16.
      EXPECT_NEAR(scores[i], expected[layer][i], 0.05 * expected[layer][i] + 2e-4) << i;
      unused += scores[i] < 0.01F ? 1 : 0;
    }
  }
  EXPECT_NEAR(
      made.unused,
      static_cast<double>(unused) / static_cast<double>(config.layer_count() * expected[0].size()),
      1e-9);
  // Its file is read again for this model.
  const std::string bytes = engine::predictor_bytes(file_of(made, engine->identity(), "a text"));
  const engine::PredictorFile read =
      engine::parse_predictor(std::as_bytes(std::span(bytes))).value();
  EXPECT_EQ(read.model, engine->identity());
  EXPECT_EQ(read.tokens, kTokens);
  EXPECT_EQ(read.predictor.document, document.tokens);
}

TEST(ScoreDocument, SaysWhatIsWrong) {
  const auto engine = engine::tiny_engine(64);
  const auto refusal = [&](uint32_t tokens, uint32_t chunk) {
    return score_document(*engine, made_document(tokens), {.chunk = chunk}).error().message;
  };
  EXPECT_EQ(refusal(50, 20),
            "the document has 50 tokens, and a question with 20 of them behind it has 23: the "
            "model's context of 64 is too short: give --chunk 11");
  EXPECT_EQ(refusal(61, 20),
            "the document has 61 tokens, and a question with 20 of them behind it has 23: the "
            "model's context of 64 is too short: give a shorter document");
  EXPECT_EQ(refusal(50, 0), "chunks of 0 tokens repeat nothing: give --chunk 1 or more");
  EXPECT_TRUE(score_document(*engine, made_document(50), {.chunk = 11}).ok());
}

TEST(DocumentOf, IsHowAPromptWithTheTextBegins) {
  const auto engine = engine::tiny_engine(128);
  const std::string text = "The contract ends on the first of May, unless both parties agree.";
  const Document document = document_of(*engine, text, Stands::kRaw).value();
  EXPECT_GE(document.tokens.size(), 16u);
  for (const char* const more : {"\n\nWhen does it end?", " Also", "\nNo.", ""}) {
    const auto prompt = engine->tokenizer().encode(text + more, true, true);
    ASSERT_GE(prompt.size(), document.tokens.size());
    EXPECT_TRUE(std::equal(document.tokens.begin(), document.tokens.end(), prompt.begin())) << more;
  }
  EXPECT_EQ(document_of(*engine, text + " \n\n", Stands::kRaw).value().tokens, document.tokens);
  // A question goes on where the document's tokens end.
  std::vector<engine::Token> asked = document.tokens;
  const std::vector<engine::Token> question = document.ask("Repeat it.").value();
  asked.insert(asked.end(), question.begin(), question.end());
  EXPECT_EQ(asked, engine->tokenizer().encode(text + "\n\nRepeat it.\n\n", true, true));
  EXPECT_EQ(document_of(*engine, "", Stands::kRaw).error().message.rfind("the document has ", 0),
            0u);
}

}  // namespace
}  // namespace kvick::distil
