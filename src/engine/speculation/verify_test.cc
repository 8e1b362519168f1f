#include "engine/speculation/verify.h"

#include <cmath>
#include <gtest/gtest.h>
#include <map>

#include "engine/core/test_engine.h"

namespace kvick::engine {
namespace {

// A "model" whose next token depends on the last one only: probabilities of four tokens.
constexpr size_t kTokens = 4;
constexpr double kChain[kTokens][kTokens] = {
    {0.1, 0.6, 0.2, 0.1}, {0.25, 0.25, 0.25, 0.25}, {0.7, 0.1, 0.1, 0.1}, {0.02, 0.03, 0.05, 0.9}};
constexpr Token kFirst = 40;  // none of the four tokens ends an answer

std::vector<float> logits_behind(Token token, size_t vocab) {
  std::vector<float> logits(vocab, -1000);  // weigh nothing; infinite logits are refused
  for (size_t i = 0; i < kTokens; ++i)
    logits[static_cast<size_t>(kFirst) + i] =
        static_cast<float>(std::log(kChain[token - kFirst][i]));
  return logits;
}

struct Chain {
  const Engine& engine;
  std::vector<Token> text = {kFirst};
  AnswerWriter writer;

  Chain(const Engine& e, uint64_t seed, Sampling sampling = plain_sampling())
      : engine(e), writer(e.tokenizer(), e.kernels(), text, form_of(seed, std::move(sampling))) {}
  static Sampling plain_sampling() { return {.temperature = 1, .top_k = 0, .top_p = 1}; }
  static AnswerForm form_of(uint64_t seed, Sampling sampling) {
    AnswerForm form;
    form.sampling = std::move(sampling);
    form.sampling.seed = seed;
    form.ignore_end = true;
    return form;
  }
  size_t vocab() const { return engine.model().config().vocab; }
  void plain() {
    std::vector<float> logits = logits_behind(text.back(), vocab());
    text.push_back(*writer.next(logits, true).token);
  }
  // Returns how many draft tokens were accepted.
  size_t drafted(const DraftTree& tree) {
    std::vector<float> logits = logits_behind(text.back(), vocab());
    for (const DraftTree::Node& node : tree.nodes) {
      const auto row = logits_behind(node.token, vocab());
      logits.insert(logits.end(), row.begin(), row.end());
    }
    return verify(writer, tree, logits, {.committed = 1, .most = 100},
                  [&](WrittenTokens&& written) {
                    text.push_back(*written.token);
                    return true;
                  })
               .size() -
           1;
  }
};

DraftTree some_tree() {
  DraftTree tree;
  const int32_t one = tree.add(-1, kFirst + 1, 0);
  tree.add(one, kFirst + 0, 0);
  const int32_t two = tree.add(one, kFirst + 2, 0);
  tree.add(two, kFirst + 3, 0);
  tree.add(-1, kFirst + 3, 0);
  return tree;
}

TEST(Verify, DrawsFromTheModelsDistributionWhateverIsDrafted) {
  const auto engine = tiny_engine();
  const DraftTree tree = some_tree();
  constexpr int kDraws = 6000;
  std::map<std::vector<Token>, int> counts;
  size_t accepted = 0;
  for (int seed = 0; seed < kDraws; ++seed) {
    Chain chain(*engine, static_cast<uint64_t>(seed));
    while (chain.text.size() < 4) accepted += chain.drafted(tree);
    chain.text.resize(4);
    ++counts[chain.text];
  }
  double chi_square = 0;
  for (Token a = 0; a < 4; ++a)
    for (Token b = 0; b < 4; ++b)
      for (Token c = 0; c < 4; ++c) {
        const double expected = kDraws * kChain[0][a] * kChain[a][b] * kChain[b][c];
        const double seen = counts[{kFirst, kFirst + a, kFirst + b, kFirst + c}];
        chi_square += (seen - expected) * (seen - expected) / expected;
      }
  EXPECT_GT(accepted, kDraws / 2);
  EXPECT_LT(chi_square, 103.4) << "63 degrees of freedom: one run in a thousand is above";
}

TEST(Verify, DrawsTheSameTokensAsWithoutDraftsWithEverySampler) {
  const auto engine = tiny_engine();
  const DraftTree tree = some_tree();
  std::vector<Sampling> samplings(9, Chain::plain_sampling());
  samplings[1].mirostat = {.version = 1, .tau = 1.2F, .eta = 0.3F};
  samplings[2].mirostat = {.version = 2, .tau = 1.2F, .eta = 0.3F};
  samplings[3].xtc = {.probability = 0.5F, .threshold = 0.2F};
  samplings[4].dry = {.multiplier = 2, .window = 10, .breakers = {"a"}};
  samplings[5].typical_p = 0.6F;
  samplings[6].top_n_sigma = 1;
  samplings[7].dynatemp_range = 0.5F;
  samplings[8].bad_words = {{kFirst + 3}, {kFirst + 1, kFirst}};
  for (const Sampling& sampling : samplings) {
    size_t accepted = 0;
    for (uint64_t seed = 0; seed < 50; ++seed) {
      Chain plain(*engine, seed, sampling), drafted(*engine, seed, sampling);
      while (drafted.text.size() < 20) accepted += drafted.drafted(tree);
      while (plain.text.size() < drafted.text.size()) plain.plain();
      EXPECT_EQ(plain.text, drafted.text) << &sampling - samplings.data();
    }
    EXPECT_GT(accepted, 0u);
  }
}

TEST(Verify, KeepsTheRowsOfThePathOnlyAndEndsWhereTheContextDoes) {
  const auto engine = tiny_engine();
  DraftTree tree;
  tree.add(-1, kFirst + 3, 0);
  tree.add(-1, kFirst + 1, 0);
  tree.add(1, kFirst + 2, 0);
  std::vector<float> logits;
  const size_t vocab = engine->model().config().vocab;
  for (const Token next : {1, 0, 2, 3}) {  // after the last token and each node
    std::vector<float> row(vocab, 0.F);
    row[static_cast<size_t>(kFirst + next)] = 9;
    logits.insert(logits.end(), row.begin(), row.end());
  }
  for (const uint32_t most : {100u, 7u}) {
    AnswerForm form;
    form.sampling.temperature = 0;
    AnswerWriter writer(engine->tokenizer(), engine->kernels(), {}, form);
    std::vector<float> copy = logits;
    std::vector<Token> tokens;
    const std::vector<uint32_t> kept =
        verify(writer, tree, copy, {.committed = 5, .most = most}, [&](WrittenTokens&& written) {
          tokens.push_back(*written.token - kFirst);
          return true;
        });
    if (most == 100)
      EXPECT_EQ(kept, (std::vector<uint32_t>{0, 2, 3}));
    else
      EXPECT_EQ(kept, (std::vector<uint32_t>{0, 2})) << "7 rows of context: 5, 0 and 2";
    EXPECT_EQ(tokens.size(), kept.size());
  }
}

TEST(Verify, RoomEndsWhereWhatIsSeenWouldChange) {
  const auto engine = wide_engine();
  const auto room = [&](const char* kv, const char* type, uint32_t rows, bool grow) {
    const auto store = std::move(engine->make_store(parse_kv_options(kv, type).value())).value();
    const kv::SeqId seq = store->open({}).seq;
    model::Executor executor = engine->make_executor();
    const std::vector<Token> tokens(rows, 1);
    const model::Slot slot = {.seq = seq, .past = 0, .tokens = tokens, .parents = {}};
    EXPECT_TRUE(executor.advance(*store, {.slots = {&slot, 1}}, {}).ok());
    return draft_room(*store, seq, grow);
  };
  EXPECT_EQ(room("virtual", "", 100, false), 27u);
  EXPECT_EQ(room("virtual", "", 127, false), 0u);
  EXPECT_EQ(room("bmc:r=8", "", 21, false), 2u);
  EXPECT_EQ(room("bmc:r=8", "", 24, false), 7u) << "it has to grow";
  EXPECT_EQ(room("bmc:r=8", "", 21, true), 106u);
  EXPECT_EQ(room("iterative", "", 21, false), 106u) << "it grows at every step";
  EXPECT_EQ(room("virtual", "mixed:window=32,old=q8", 70, false), 25u) << "at 96 rows 64 are old";
}

}  // namespace
}  // namespace kvick::engine
