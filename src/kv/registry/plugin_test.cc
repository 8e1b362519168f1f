// Tests strategies and policies that are built outside of kvick. A separate program, because rows
// cannot be removed from the tables again.

#include "kv/registry/plugin.h"

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>

#include "kv/registry/policies.h"
#include "kv/registry/registry.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

std::string message_of(const base::Status<>& status) {
  return status.ok() ? "" : status.error().message;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Plugin, WhatIsNoPluginIsOneSentence) {
  const std::string missing = message_of(load_plugin("/nowhere/mine.so"));
  EXPECT_TRUE(contains(missing, "cannot load the plugin /nowhere/mine.so: ")) << missing;
  const std::string text = message_of(load_plugin(__FILE__));
  EXPECT_TRUE(contains(text, "cannot load the plugin ")) << text;
  const std::string empty = message_of(load_plugin(KVICK_EMPTY_PLUGIN));
  EXPECT_TRUE(contains(empty, "it has no function kvick_strategies")) << empty;
  const std::string old = message_of(load_plugin(KVICK_OLD_PLUGIN));
  EXPECT_TRUE(contains(old, "compiled with the headers of another kvick")) << old;
  EXPECT_TRUE(contains(old, "compile it again")) << old;
}

TEST(Plugin, RowsOfTheTableAreAddedAllOrNone) {
  const size_t before = strategies().size();
  Strategy good = *find_strategy("upfront");
  good.name = "mine";
  const auto refusal_of = [&](auto change) {
    Strategy bad = good;
    bad.name = "other";
    change(bad);
    const Strategy rows[] = {good, bad};
    const std::string message = message_of(add_strategies(rows));
    EXPECT_EQ(strategies().size(), before);
    EXPECT_EQ(find_strategy("mine"), nullptr);
    return message;
  };
  EXPECT_EQ(refusal_of([](Strategy& bad) { bad.name = "paged"; }),
            "there is a strategy named paged already");
  EXPECT_EQ(refusal_of([](Strategy& bad) { bad.name = "mine"; }),
            "there is a strategy named mine already");
  EXPECT_TRUE(contains(refusal_of([](Strategy& bad) { bad.name = "a:b"; }), "small letters"));
  EXPECT_TRUE(contains(refusal_of([](Strategy& bad) { bad.name = ""; }), "small letters"));
  EXPECT_TRUE(contains(refusal_of([](Strategy& bad) { bad.cost = nullptr; }), "needs cost"));
  EXPECT_TRUE(contains(refusal_of([](Strategy& bad) { bad.make_rows = nullptr; }), "make_rows"));
  const std::vector<Strategy> many(100, good);
  EXPECT_TRUE(contains(message_of(add_strategies(many)), "at most 64 in all"));
}

TEST(Policies, RowsOfTheTableAreAddedAllOrNone) {
  const size_t before = policies().size();
  const Policy* const quest = find_policy("quest");
  Policy good = *quest;
  good.name = "mine";
  const auto refusal_of = [&](auto change) {
    Policy bad = good;
    bad.name = "other";
    change(bad);
    const Policy rows[] = {good, bad};
    const std::string message = message_of(add_policies(rows));
    EXPECT_EQ(policies().size(), before);
    EXPECT_EQ(find_policy("mine"), nullptr);
    return message;
  };
  EXPECT_EQ(refusal_of([](Policy& bad) { bad.name = "h2o"; }),
            "there is a policy named h2o already");
  EXPECT_EQ(refusal_of([](Policy& bad) { bad.name = "mine"; }),
            "there is a policy named mine already");
  EXPECT_TRUE(contains(refusal_of([](Policy& bad) { bad.name = "a:b"; }), "small letters"));
  EXPECT_TRUE(contains(refusal_of([](Policy& bad) { bad.name = ""; }), "small letters"));
  EXPECT_TRUE(contains(refusal_of([](Policy& bad) { bad.cost = nullptr; }), "cost"));
  EXPECT_TRUE(contains(refusal_of([](Policy& bad) { bad.make = nullptr; }), "make"));
  EXPECT_TRUE(contains(refusal_of([](Policy& bad) { bad.change_traits = nullptr; }), "traits"));
  EXPECT_TRUE(contains(message_of(add_policies(std::vector<Policy>(100, good))), "at most 64"));
  ASSERT_TRUE(add_policies({&good, 1}).ok());
  ASSERT_NE(find_policy("mine"), nullptr);
  EXPECT_EQ(find_policy("mine")->summary, quest->summary);
  EXPECT_EQ(find_policy("quest"), quest);  // rows stay where they are
}

// The test kv_plugin runs the whole conformance suite on this strategy.
TEST(Plugin, AStrategyBuiltOutsideServesRows) {
  const auto loaded = load_plugin(KVICK_DOUBLING_PLUGIN);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  ASSERT_NE(find_strategy("doubling"), nullptr);
  const Shape shape = {.layers = 2,
                       .kv_heads = 2,
                       .head_dim = 32,
                       .max_tokens = 100,
                       .k_type = kernels::DType::kF32,
                       .v_type = kernels::DType::kF32};
  Pair p("doubling:first=4", shape);
  const SeqId a = p.open();
  for (uint32_t i = 0; i < 20; ++i) p.add(a, 1 + i % 5);
  p.expect_contents();
  EXPECT_EQ(p.store->usage().allocated_bytes, 64 * shape.token_bytes());
  const auto refused = make_store(parse_spec("doubling:first=0").value(), test_setup(shape));
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(contains(refused.error().message, "first")) << refused.error().message;
  const std::string twice = message_of(load_plugin(KVICK_DOUBLING_PLUGIN));
  EXPECT_TRUE(contains(twice, "there is a strategy named doubling already")) << twice;
}

// The test kv_plugin runs the whole conformance suite on this policy, too.
TEST(Plugin, APolicyBuiltOutsideChoosesRows) {
  const auto loaded = load_plugin(KVICK_PRODUCTS_PLUGIN);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  ASSERT_NE(find_policy("products"), nullptr);
  constexpr uint32_t kRows = 60, kSinks = 2, kRecent = 4, kBudget = 20;
  const Shape shape = {.layers = 1,
                       .kv_heads = 1,
                       .head_dim = 24,
                       .max_tokens = 100,
                       .k_type = kernels::DType::kF32,
                       .v_type = kernels::DType::kF32};
  Pair p("virtual products:budget=20,sinks=2,recent=4", shape);
  const SeqId a = p.open();
  for (uint32_t i = 0; i < kRows; ++i) p.add(a, 1);
  auto step = p.begin({{a, 1}});
  write_all(*step, shape, p.fresh);
  base::Arena scratch;
  kernels::View view;
  const Query query = query_of(0, 0, 0);
  step->view(query, scratch, view);

  std::vector<std::pair<double, uint32_t>> products;  // negated product, row
  for (uint32_t row = kSinks; row < kRows - kRecent; ++row) {
    double product = 0;
    for (uint32_t i = 0; i < shape.head_dim; ++i)
      product += double{query.q[i]} * value_of(p.twin[a][row], 0, 0, false, i);
    products.emplace_back(-product, row);
  }
  std::sort(products.begin(), products.end());
  Rows expected = {0, 1, 56, 57, 58, 59};
  for (uint32_t i = 0; i < kBudget - kSinks - kRecent; ++i) expected.push_back(products[i].second);
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(positions(view), expected);
  const std::string twice = message_of(load_plugin(KVICK_PRODUCTS_PLUGIN));
  EXPECT_TRUE(contains(twice, "there is a policy named products already")) << twice;
}

}  // namespace
}  // namespace kvick::kv::test
