// Strategies that are built outside of kvick. A program of its own: what it adds to the table stays
// there.

#include "kv/registry/plugin.h"

#include <cstdlib>
#include <gtest/gtest.h>

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

// The whole conformance suite meets it in the test kv_plugin.
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

}  // namespace
}  // namespace kvick::kv::test
