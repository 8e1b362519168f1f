// Tests which owners share cached rows, for every strategy of the registry.

#include <gtest/gtest.h>

#include "kv/testing/cases.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

class Owned : public testing::TestWithParam<Case> {
 protected:
  Owned()
      : shape(
            shape_of(GetParam(), {.layers = 2, .kv_heads = 2, .head_dim = 6, .max_tokens = 200})) {}
  void SetUp() override {
    if (const std::string why = unavailable(GetParam().spec); !why.empty()) GTEST_SKIP() << why;
    store = make_store(spec_of(GetParam().spec), setup_for(GetParam().spec, shape)).value();
  }

  // Returns a sequence that holds the rows of the prompt.
  SeqId feed(const Owner& owner) {
    const Opened opened = store->open(prompt, owner);
    EXPECT_EQ(opened.cached, 0u);
    const Slot slot = {.seq = opened.seq, .fresh = kTokens, .tokens = prompt};
    auto step = store->begin({{&slot, 1}});
    write_all(**step, shape, Rows(kTokens, 3));
    (*step)->commit(Kept::all({{&slot, 1}}));
    return opened.seq;
  }

  static constexpr uint32_t kTokens = 100;
  Shape shape;
  std::unique_ptr<Store> store;
  std::vector<Token> prompt = std::vector<Token>(kTokens, 7);
};

INSTANTIATE_TEST_SUITE_P(Registry, Owned, testing::ValuesIn(cases()), name_of);

TEST_P(Owned, RowsAreForPromptsOfTheSameSalt) {
  const Spec spec = spec_of(GetParam().spec);
  const SeqId a = feed({.salt = 1});
  EXPECT_EQ(store->open(prompt, {.salt = 2, .priority = 9}).cached, 0u);
  EXPECT_EQ(store->open(prompt).cached, 0u);
  store->close(a);
  EXPECT_EQ(store->open(prompt, {.salt = 2}).cached, 0u);
  EXPECT_EQ(store->open(prompt).cached, 0u);
  feed({.salt = 2});
  const bool shares =
      kv::traits_of(*find_strategy(spec.name), shape, spec, select_of(GetParam().spec))
          .shares_prefix;
  EXPECT_EQ(store->open(prompt, {.salt = 1, .priority = -9}).cached, shares ? kTokens : 0);
}

TEST_P(Owned, ShrinkingGivesBackWhatIsCachedAndNoMore) {
  const SeqId a = feed({.salt = 1}), b = feed({.salt = 2});
  // Of open sequences only frames of a slower tier can be evicted.
  const uint64_t cached = store->usage().cached_bytes;
  EXPECT_EQ(cached > 0, traits_of(GetParam().spec).tiered);
  EXPECT_EQ(shrink(*store, UINT64_MAX), cached);
  store->close(a);
  const Usage before = store->usage();
  EXPECT_EQ(shrink(*store, 0), 0u);
  const uint64_t some = shrink(*store, before.cached_bytes / 2);
  EXPECT_GE(some, before.cached_bytes / 2);
  EXPECT_EQ(store->usage().cached_bytes, before.cached_bytes - some);
  EXPECT_EQ(store->usage().allocated_bytes, before.allocated_bytes - some);
  EXPECT_EQ(shrink(*store, UINT64_MAX), before.cached_bytes - some);
  EXPECT_EQ(store->usage().used_bytes, before.used_bytes);
  EXPECT_EQ(store->length(b), kTokens);
}

}  // namespace
}  // namespace kvick::kv::test
