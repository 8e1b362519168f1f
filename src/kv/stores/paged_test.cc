// Blocks shared by forks and by prompts with a common prefix: which rows they hold, what they cost,
// and that no sequence sees another's rows.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

#include "kv/testing/cases.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

constexpr Shape kShape = {.layers = 2, .kv_heads = 2, .head_dim = 8, .max_tokens = 200};
constexpr uint64_t kToken = 2 * 2 * 2 * 8 * 2;

// A store driven by tokens, as a model would: equal tokens after equal tokens have equal rows.
struct Conversations {
  explicit Conversations(const std::string& text, uint64_t max_bytes = UINT64_MAX,
                         const Shape& of_all = kShape)
      : shape(of_all),
        store(make_store(parse_spec(text).value(),
                         {.shape = shape, .limits = {.max_bytes = max_bytes}})
                  .value()) {}

  static Row row_after(Row before, Token token) {
    const uint32_t x = (before ^ static_cast<uint32_t>(token + 1)) * 2654435761u;
    return x ^ x >> 13;
  }
  static Rows rows_of(std::span<const Token> tokens) {
    Rows rows;
    for (const Token token : tokens)
      rows.push_back(row_after(rows.empty() ? 0 : rows.back(), token));
    return rows;
  }

  // Returns how many tokens of the prompt the store had cached.
  uint32_t open(std::span<const Token> prompt, SeqId& seq, const Owner& owner = {}) {
    const Opened opened = store->open(prompt, owner);
    seq = opened.seq;
    tokens[seq].assign(prompt.begin(), prompt.begin() + opened.cached);
    return opened.cached;
  }
  SeqId open(std::span<const Token> prompt) {
    SeqId seq;
    open(prompt, seq);
    return seq;
  }
  // Runs one step with a chain of tokens and keeps the first `keep` of them. Returns false if there
  // was no room.
  bool add(SeqId seq, const std::vector<Token>& more, uint32_t keep) {
    const Slot slot = {.seq = seq, .fresh = static_cast<uint32_t>(more.size()), .tokens = more};
    auto step = store->begin({{&slot, 1}});
    if (!step.ok()) {
      shortage = step.error();
      return false;
    }
    std::vector<Token> all = tokens[seq];
    all.insert(all.end(), more.begin(), more.end());
    const Rows rows = rows_of(all);
    write_all(**step, shape, Rows(rows.end() - slot.fresh, rows.end()));
    expect_shows(**step, shape, {0, static_cast<uint32_t>(rows.size()) - slot.fresh}, rows,
                 slot.fresh);
    Kept kept = Kept::all({{&slot, 1}});
    kept.rows[0].resize(keep);
    (*step)->commit(kept);
    tokens[seq].insert(tokens[seq].end(), more.begin(), more.begin() + keep);
    return true;
  }
  bool add(SeqId seq, const std::vector<Token>& more) {
    return add(seq, more, static_cast<uint32_t>(more.size()));
  }
  SeqId fork(SeqId seq) {
    const SeqId forked = store->fork(seq).value();
    tokens[forked] = tokens[seq];
    return forked;
  }
  void close(SeqId seq) {
    store->close(seq);
    tokens.erase(seq);
  }
  Usage usage() const { return store->usage(); }

  Shape shape;
  std::unique_ptr<Store> store;
  std::map<SeqId, std::vector<Token>> tokens;
  Shortage shortage;
};

std::vector<Token> letters(const char* text) { return {text, text + std::strlen(text)}; }
std::vector<Token> same(Token token, size_t n) { return std::vector<Token>(n, token); }

TEST(Paged, WastesLessThanABlockASequence) {
  Conversations c("paged:block=16");
  const SeqId a = c.open({}), b = c.open({});
  for (int i = 0; i < 70; ++i) {
    c.add(a, {i});
    if (i % 3 == 0) c.add(b, {i + 500});
    EXPECT_LT(c.usage().wasted_bytes, 2 * 16 * kToken);
    EXPECT_EQ(c.usage().allocated_bytes % (16 * kToken), 0u);
  }
  c.add(a, same(1, 100), 1);  // blocks of rows that were not kept are given back
  EXPECT_LT(c.usage().wasted_bytes, 2 * 16 * kToken);
  EXPECT_EQ(c.usage().page_bytes, 16 * kToken);
}

TEST(Paged, AForkCopiesNothingUntilItWritesAndThenOneBlockAtMost) {
  Conversations c("paged:block=16");
  const SeqId a = c.open({});
  c.add(a, same(1, 37));
  const Usage before = c.usage();
  const SeqId b = c.fork(a), d = c.fork(b);
  EXPECT_EQ(c.usage().allocated_bytes, before.allocated_bytes);
  EXPECT_EQ(c.usage().used_bytes, 37 * kToken);
  EXPECT_EQ(c.usage().shared_bytes, 37 * kToken);
  EXPECT_EQ(c.usage().copied_bytes, 0u);
  c.add(b, {5});
  EXPECT_EQ(c.usage().copied_bytes, 5 * kToken);  // of its last block
  EXPECT_EQ(c.usage().allocated_bytes, before.allocated_bytes + 16 * kToken);
  EXPECT_EQ(c.usage().used_bytes, (37 + 6) * kToken);
  c.add(a, {6});
  EXPECT_EQ(c.usage().copied_bytes, 10 * kToken);
  c.add(d, {7});  // the only user of its last block now
  EXPECT_EQ(c.usage().copied_bytes, 10 * kToken);
  EXPECT_EQ(c.usage().shared_bytes, 32 * kToken);
  c.add(a, {8});
  EXPECT_EQ(c.usage().copied_bytes, 10 * kToken);
}

TEST(Paged, AForkOfALongPromptTakesNothingAndThenOneBlock) {
  Shape shape = kShape;
  shape.max_tokens = 3000;
  Conversations c("paged", UINT64_MAX, shape);  // 2,000 tokens end in the middle of a block
  const SeqId a = c.open({});
  c.add(a, same(1, 2000));
  const Usage before = c.usage();
  const SeqId b = c.fork(a);
  EXPECT_EQ(c.usage().copied_bytes, 0u);
  EXPECT_EQ(c.usage().allocated_bytes, before.allocated_bytes);
  EXPECT_EQ(c.usage().shared_bytes, 2000 * kToken);
  c.add(b, {2});
  EXPECT_EQ(c.usage().copied_bytes, 2000 % 32 * kToken);
  EXPECT_EQ(c.usage().allocated_bytes, before.allocated_bytes + 32 * kToken);
  for (int i = 0; i < 15; ++i) c.add(b, {i});  // fills the rest of that block
  EXPECT_EQ(c.usage().copied_bytes, 2000 % 32 * kToken);
  EXPECT_EQ(c.usage().allocated_bytes, before.allocated_bytes + 32 * kToken);
}

TEST(Paged, HeldRowsThatNoTokenSeesAreNotInUse) {
  Shape shape = kShape;
  shape.window = 8;
  Conversations c("paged:block=4", UINT64_MAX, shape);
  const SeqId a = c.open({});
  c.store->facets().rows->hold_rows(a, 0);
  c.add(a, same(1, 40));
  EXPECT_LE(c.usage().used_bytes, 8 * kToken);
  EXPECT_LE(c.usage().used_bytes + c.usage().wasted_bytes, c.usage().allocated_bytes);
  for (const MapEntry& entry : c.store->facets().holdings->map()) EXPECT_LE(entry.used_tokens, 4u);
}

TEST(Paged, TheMapHasABlockForEachPiece) {
  Conversations c("paged:block=4");
  const SeqId a = c.open({}), b = c.open({});
  c.add(a, same(1, 6));
  c.add(b, same(2, 3));
  const SeqId d = c.fork(a);
  c.add(d, {5});
  c.close(b);
  const uint64_t block = 4 * kToken;
  const std::vector<MapEntry> expected = {
      {.bytes = block, .used_tokens = 4, .tokens = 4, .users = 2, .owner = a},
      {.bytes = block, .used_tokens = 2, .tokens = 4, .users = 1, .owner = a},
      {.bytes = block, .used_tokens = 3, .tokens = 4, .users = 0, .owner = {}},
      {.bytes = block, .used_tokens = 3, .tokens = 4, .users = 1, .owner = d}};
  EXPECT_EQ(map_of(*c.store), expected);
}

TEST(Paged, AppendedRowsServePromptsThatBeginAlike) {
  Conversations from("paged:block=4"), to("paged:block=8");
  const SeqId a = from.open({});
  from.add(a, same(1, 21));
  std::vector<std::byte> rows(21 * kToken);
  from.store->facets().rows->read_rows(a, 0, 21, rows);
  SeqId b, d;
  EXPECT_EQ(to.open({}, b, {.salt = 5}), 0u);
  ASSERT_TRUE(append_rows(*to.store, b, same(1, 21), rows).ok());
  EXPECT_EQ(to.open(same(1, 30), d, {.salt = 5}), 16u);  // while b is open: whole blocks
  to.close(b);
  to.close(d);
  EXPECT_EQ(to.open(same(1, 30), b), 0u);
  EXPECT_EQ(to.open(same(1, 30), d, {.salt = 5}), 21u);
  EXPECT_TRUE(to.add(d, {7}));  // the rows are the same
}

TEST(Paged, APromptThatBeginsAlikeFindsItsRows) {
  Conversations c("paged:block=4");
  const SeqId a = c.open(letters("the quick brown fox"));
  c.add(a, letters("the quick brown fox"));
  SeqId b, d, e;
  EXPECT_EQ(c.open(letters("the quick brown dog"), b), 16u);  // while a is open: whole blocks
  c.add(b, letters("dog"));
  c.close(a);
  EXPECT_EQ(c.open(letters("the quick brown fox jumps"), d), 19u);  // the last block in part, too
  c.add(d, letters(" jumps"));
  EXPECT_EQ(c.open(letters("the quiet one"), e), 7u);
  c.add(e, letters("et one"));
  EXPECT_EQ(c.usage().copied_bytes, (3 + 3) * kToken);
  for (const auto& [seq, tokens] : c.tokens) EXPECT_TRUE(c.add(seq, {1})) << c.shortage.what;
}

TEST(Paged, TheAnswerOfATurnIsPartOfTheNextOnesPrefix) {
  Conversations c("paged:block=8");
  const SeqId a = c.open({});
  c.add(a, letters("What is gravity?"));
  for (const Token token : letters(" A force.")) c.add(a, {token});
  c.close(a);
  SeqId b;
  EXPECT_EQ(c.open(letters("What is gravity? A force. And light?"), b), 25u);
}

TEST(Paged, RowsServePromptsOfTheSameSaltOnly) {
  Conversations c("paged:block=4");
  SeqId a, b, d, e;
  EXPECT_EQ(c.open(same(1, 11), a, {.salt = 1}), 0u);
  c.add(a, same(1, 10));
  EXPECT_EQ(c.open(same(1, 11), b, {.salt = 2}), 0u);
  c.add(b, same(1, 10));  // equal tokens of two salts stay separate
  EXPECT_EQ(c.usage().shared_bytes, 0u);
  EXPECT_EQ(c.usage().allocated_bytes, 2 * 3 * 4 * kToken);
  const SeqId forked = c.fork(b);
  c.add(forked, same(1, 2));
  for (const SeqId seq : {a, b, forked}) c.close(seq);
  EXPECT_EQ(c.open(same(1, 20), d, {.salt = 1}), 10u);
  EXPECT_EQ(c.open(same(1, 20), e, {.salt = 2}), 12u);  // rows that its fork added
  EXPECT_EQ(c.open(same(1, 20), a), 0u);
  EXPECT_EQ(c.usage().shared_bytes, 0u);
}

TEST(Paged, ByPriorityTheRowsOfTheHighestOwnersStay) {
  Conversations c("paged:block=4,evict=priority", 6 * 4 * kToken);
  SeqId high, low, next;
  c.open({}, high, {.priority = 5});
  c.add(high, same(1, 12));
  c.close(high);
  c.open({}, low, {.priority = -5});
  c.add(low, same(2, 12));
  c.close(low);
  c.open({}, next);
  EXPECT_EQ(c.usage().evicted_bytes, 0u);
  EXPECT_TRUE(c.add(next, same(3, 8))) << c.shortage.what;
  EXPECT_EQ(c.usage().evicted_bytes, 2 * 4 * kToken);
  EXPECT_EQ(c.open(same(1, 12), high, {.priority = 5}), 12u);  // although they were used longer ago
  EXPECT_EQ(c.open(same(2, 12), low), 4u);
}

TEST(Paged, RowsOfUnknownTokensAreNobodyElses) {
  Conversations c("paged:block=4");
  const SeqId a = c.open({});
  c.add(a, letters("abcdefgh"));
  const Slot slot = {.seq = a, .fresh = 8, .tokens = {}};
  auto step = c.store->begin({{&slot, 1}}).value();
  write_all(*step, c.shape, Rows(8, 3));
  step->commit(Kept::all({{&slot, 1}}));
  c.store->close(a);
  SeqId b;
  EXPECT_EQ(c.open(letters("abcdefghijklmnop"), b), 8u);
}

TEST(Paged, PrefixOffKeepsNothing) {
  Conversations c("paged:prefix=off");
  const SeqId a = c.open({});
  c.add(a, same(1, 100));
  c.close(a);
  EXPECT_EQ(c.usage().allocated_bytes, 0u);
  SeqId b;
  EXPECT_EQ(c.open(same(1, 100), b), 0u);
}

TEST(Paged, KeptBlocksGiveWayToSequences) {
  Conversations c("paged:block=4", 10 * 4 * kToken);
  const SeqId a = c.open({});
  c.add(a, same(1, 30));
  c.close(a);
  EXPECT_EQ(c.usage().cached_bytes, 8 * 4 * kToken);
  EXPECT_EQ(c.usage().wasted_bytes, 0u);
  const SeqId b = c.open({});
  EXPECT_TRUE(c.add(b, same(2, 16))) << c.shortage.what;
  EXPECT_EQ(c.usage().cached_bytes, 6 * 4 * kToken);
  SeqId d;
  EXPECT_EQ(c.open(same(1, 30), d), 24u);  // the last blocks were evicted first
  EXPECT_FALSE(c.add(b, same(2, 4)));      // now all blocks are in use
  EXPECT_EQ(c.shortage.available_bytes, 0u);
  c.close(d);
  EXPECT_TRUE(c.add(b, same(2, 24))) << c.shortage.what;
}

TEST(Paged, EqualPromptsReadSideBySideBecomeOne) {
  Conversations c("paged:block=4");
  const SeqId a = c.open({}), b = c.open({});
  c.add(a, same(1, 10));
  c.add(b, same(1, 10));
  EXPECT_EQ(c.usage().shared_bytes, 8 * kToken);
  EXPECT_EQ(c.usage().allocated_bytes, 4 * 4 * kToken);
  c.add(a, {2});
  c.add(b, {3});
}

// Few letters, so that many prompts share prefixes; a small cap, so that blocks are evicted.
TEST(Paged, RandomConversationsSeeTheirOwnRows) {
  const char* given = std::getenv("KVICK_TEST_SEED");
  const auto seed = given != nullptr ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10))
                                     : std::random_device{}();
  SCOPED_TRACE("KVICK_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  const auto text = [&](uint32_t n) {
    std::vector<Token> tokens(n);
    for (Token& token : tokens) token = below(8) == 0 ? 2 : 1;
    return tokens;
  };
  for (const char* spec : {"paged:block=4", "paged:block=4,evict=lfu", "paged:block=1",
                           "paged:block=4,evict=priority"}) {
    Conversations c(spec, 30 * 4 * kToken);
    uint64_t cached = 0, shortages = 0;
    for (int i = 0; i < 600 && !testing::Test::HasFatalFailure(); ++i) {
      const uint32_t dice = below(100);
      if (c.tokens.empty() || dice < 15) {
        const std::vector<Token> prompt = text(1 + below(60));
        SeqId seq;
        const auto priority = static_cast<int32_t>(below(3)) - 1;
        cached += c.open(prompt, seq, {.salt = below(4) == 0 ? 9U : 0, .priority = priority});
      } else {
        const SeqId seq =
            std::next(c.tokens.begin(), below(static_cast<uint32_t>(c.tokens.size())))->first;
        if (dice < 20 && c.tokens.size() < 8) c.fork(seq);
        if (dice >= 20 && dice < 38) c.close(seq);
        if (dice >= 38 && c.tokens[seq].size() < 150) {
          const std::vector<Token> more = text(1 + below(below(4) == 0 ? 40 : 3));
          const auto n = static_cast<uint32_t>(more.size());
          if (!c.add(seq, more, below(3) == 0 ? below(n + 1) : n)) ++shortages;
        }
      }
      const Usage usage = c.usage();
      ASSERT_LE(usage.allocated_bytes, 30 * 4 * kToken);
      ASSERT_LE(usage.used_bytes + usage.cached_bytes, usage.allocated_bytes);
      ASSERT_LE(usage.shared_bytes, usage.used_bytes);
      const std::vector<MapEntry> map = map_of(*c.store);
      ASSERT_EQ(map.size() * usage.page_bytes, usage.allocated_bytes);
      const auto unused =
          std::count_if(map.begin(), map.end(), [](const MapEntry& one) { return one.users == 0; });
      ASSERT_EQ(static_cast<uint64_t>(unused) * usage.page_bytes, usage.cached_bytes);
    }
    EXPECT_GT(cached, 0u);
    EXPECT_GT(shortages, 0u);
    while (!c.tokens.empty()) c.close(c.tokens.begin()->first);
    EXPECT_EQ(c.usage().used_bytes, 0u);
    EXPECT_EQ(c.usage().wasted_bytes, 0u);
    EXPECT_EQ(c.usage().allocated_bytes, c.usage().cached_bytes);
  }
}

}  // namespace
}  // namespace kvick::kv::test
