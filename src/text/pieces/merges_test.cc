#include "text/pieces/merges.h"

#include <gtest/gtest.h>
#include <map>
#include <random>

namespace kvick::text {
namespace {

using Table = std::map<std::pair<Token, Token>, std::pair<uint32_t, Token>>;

// The definition: repeatedly merges the leftmost pair of the lowest rank.
std::vector<Token> naive_merge(const Table& table, std::vector<Token> symbols) {
  for (;;) {
    size_t best = symbols.size();
    uint32_t lowest = UINT32_MAX;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto pair = table.find({symbols[i], symbols[i + 1]});
      if (pair == table.end() || pair->second.first >= lowest) continue;
      lowest = pair->second.first;
      best = i;
    }
    if (best == symbols.size()) return symbols;
    symbols[best] = table.at({symbols[best], symbols[best + 1]}).second;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(MergeTable, MergesAsTheDefinitionDoes) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const bool shared_ranks = seed % 2 == 1;  // as with scores: equal ranks then mean equal results
    Table table;
    MergeTable merges(40);
    for (uint32_t i = 0; i < 40; ++i) {
      const auto left = static_cast<Token>(random() % 12),
                 right = static_cast<Token>(random() % 12);
      const auto result = static_cast<Token>(4 + random() % 9);
      const uint32_t rank = shared_ranks ? static_cast<uint32_t>(result) : i;
      table.try_emplace({left, right}, rank, result);
      merges.add(left, right, rank, result);
    }
    std::vector<Token> symbols(1 + random() % (seed % 3 ? 40 : 300));
    for (Token& symbol : symbols) symbol = static_cast<Token>(random() % 5) - 1;
    const std::vector<Token> expected = naive_merge(table, symbols);
    symbols.resize(merges.merge(symbols));
    ASSERT_EQ(symbols, expected) << "seed " << seed;
  }
}

TEST(MergeTable, ManySymbolsOfOneKindAreNotQuadratic) {
  MergeTable merges(20);
  for (Token level = 0; level < 18; ++level) merges.add(level, level, level, level + 1);
  std::vector<Token> symbols(1 << 18, 0);
  ASSERT_EQ(merges.merge(symbols), 1u);
  EXPECT_EQ(symbols[0], 18);
}

}  // namespace
}  // namespace kvick::text
