#include "kv/registry/registry.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <set>

#include "kv/strategy/options.h"
#include "kv/strategy/ranges.h"
#include "kv/testing/memory.h"

namespace kvick::kv {
namespace {

const Setup kSetup = {.shape = {.layers = 1, .kv_heads = 1, .head_dim = 4, .max_tokens = 8}};

std::string parse_error(std::string_view text) { return parse_spec(text).error().message; }
std::string make_error(std::string_view text, const Setup& setup = kSetup) {
  return make_store(parse_spec(text).value(), setup).error().message;
}

TEST(ParseSpec, ReadsANameAndItsOptions) {
  EXPECT_EQ(parse_spec("virtual")->name, "virtual");
  EXPECT_TRUE(parse_spec("virtual")->options.empty());
  const Spec spec = parse_spec("file_2-x:dir=/a:b=c,fast=512MiB").value();
  EXPECT_EQ(spec.name, "file_2-x");
  EXPECT_EQ(spec.options,
            (std::map<std::string, std::string>{{"dir", "/a:b=c"}, {"fast", "512MiB"}}));
}

TEST(ParseSpec, SaysWhatIsWrongWithAMalformedSpec) {
  const std::string form = "a KV spec is NAME[:key=value[,key=value]...]";
  EXPECT_EQ(parse_error(""), "'' does not begin with a strategy's name: " + form);
  EXPECT_EQ(parse_error(":r=1"), "':r=1' does not begin with a strategy's name: " + form);
  EXPECT_EQ(parse_error("Bmc"), "'Bmc' does not begin with a strategy's name: " + form);
  EXPECT_EQ(parse_error("bmc:"), "'' in 'bmc:' is not key=value: " + form);
  EXPECT_EQ(parse_error("bmc:r"), "'r' in 'bmc:r' is not key=value: " + form);
  EXPECT_EQ(parse_error("bmc:r="), "'r=' in 'bmc:r=' is not key=value: " + form);
  EXPECT_EQ(parse_error("bmc:=1"), "'=1' in 'bmc:=1' is not key=value: " + form);
  EXPECT_EQ(parse_error("bmc:r=1,"), "'' in 'bmc:r=1,' is not key=value: " + form);
  EXPECT_EQ(parse_error("bmc:r=1,r=2"), "'bmc:r=1,r=2' gives r twice");
}

TEST(ParseSpec, QuotesTextFromOutsideInOnePrintableLine) {
  EXPECT_EQ(quote("a\nb\x1b[0m"), "'a?b?[0m'");
  EXPECT_EQ(quote(std::string(1000, 'x')), "'" + std::string(60, 'x') + "...'");
}

TEST(Registry, HasTheDefaultFirstAndEachNameOnce) {
  EXPECT_EQ(strategies().front().name, "virtual");
  std::set<std::string_view> names;
  for (const Strategy& strategy : strategies()) {
    EXPECT_TRUE(names.insert(strategy.name).second);
    EXPECT_EQ(find_strategy(strategy.name), &strategy);
    EXPECT_FALSE(strategy.summary.empty());
    EXPECT_TRUE(parse_spec(strategy.name).ok());
    for (const Option& option : strategy.options) EXPECT_FALSE(option.summary.empty());
  }
  for (const char* name : {"virtual", "bmc", "iterative", "upfront"})
    EXPECT_TRUE(names.count(name));
  EXPECT_EQ(find_strategy("none"), nullptr);
}

TEST(Registry, TakesEveryFallbackAsIfItWereGiven) {
  for (const Strategy& strategy : strategies()) {
    Spec spec{.name = std::string(strategy.name), .options = {}};
    for (const Option& option : strategy.options)
      spec.options[std::string(option.name)] = option.fallback;
    const kv::Setup setup = test::setup_for(spec.name, kSetup.shape);
    EXPECT_TRUE(make_store(spec, setup).ok()) << strategy.name;
    EXPECT_TRUE(cost_of(spec, setup, {8, 1}).ok()) << strategy.name;
  }
}

TEST(Registry, NamesWhatExistsWhenAStrategyDoesNot) {
  EXPECT_EQ(make_error("virtaul"),
            "'virtaul' is not a KV strategy; did you mean virtual?; there are virtual, bmc, "
            "iterative, upfront, paged, sliding, bounded, tiered");
  EXPECT_EQ(make_error("zzzzzzzzz"),
            "'zzzzzzzzz' is not a KV strategy; there are virtual, bmc, iterative, upfront, "
            "paged, sliding, bounded, tiered");
  EXPECT_FALSE(cost_of({"zzz", {}}, kSetup, {}).ok());
}

TEST(Registry, AutoTakesTheRowsThatTheRatesAskFor) {
  auto setup = kSetup;
  setup.shape.max_tokens = 1000;
  setup.compute.growth_rates = [] {  // growth steps T = sqrt(1000 * 0.1) = 10, rounded to 8
    return GrowthRates{.copy_bytes_s = 1e9, .growth_s = 0, .attention_bytes_s = 1e10};
  };
  const uint64_t token = setup.shape.token_bytes();
  const auto bytes = [&](const char* spec, uint32_t tokens) {
    return cost_of(*parse_spec(spec), setup, {.tokens = tokens}).value().fast_bytes;
  };
  EXPECT_EQ(bytes("bmc:r=auto", 1), 125 * token);
  EXPECT_EQ(bytes("bmc:r=auto", 126), bytes("bmc:r=125", 126));
  setup.compute.growth_rates = []() -> base::Result<GrowthRates> { return base::fail("no room"); };
  EXPECT_EQ(make_store(*parse_spec("bmc:r=auto"), setup).error().message, "no room");
}

TEST(Registry, NamesTheOptionItsRangeAndItsMeaning) {
  EXPECT_EQ(make_error("bmc:rows=4"), "bmc has no option 'rows'; it has r");
  EXPECT_EQ(make_error("virtual:hugepage=on"),
            "virtual has no option 'hugepage'; did you mean hugepages?; it has hugepages");
  EXPECT_EQ(make_error("upfront:r=4"), "upfront has no options, but r is given");
  for (const char* bad : {"0", "-1", "4294967296", "1e3", "64 ", "0x10", "99999999999999999999"})
    EXPECT_EQ(make_error(std::string("bmc:r=") + bad),
              "bmc: r='" + std::string(bad) +
                  "' is not a whole number from 1 to 4294967295 (rows added at each growth; auto: "
                  "what takes least time on this machine)");
  EXPECT_EQ(make_error("bmc:r=auto"),
            "bmc: r=auto needs a measurement of this machine, and there is none; give r a number");
  EXPECT_EQ(make_error("virtual:hugepages=yes"),
            "virtual: hugepages='yes' is neither on nor off (pages of 2 MiB: fewer page faults and "
            "TLB misses, more waste; forks are copies)");
  EXPECT_FALSE(cost_of({"bmc", {{"r", "x"}}}, kSetup, {}).ok());
  EXPECT_FALSE(cost_of({"bmc", {{"s", "1"}}}, kSetup, {}).ok());
}

TEST(Registry, FindsTheClosestName) {
  const std::vector<std::string_view> names = {"virtual", "bmc", "iterative"};
  EXPECT_EQ(closest("virtul", names), "virtual");
  EXPECT_EQ(closest("bcm", names), "bmc");
  EXPECT_EQ(closest("iteratif", names), "iterative");
  EXPECT_EQ(closest("paged", names), "");
  EXPECT_EQ(closest("", names), "");
  EXPECT_EQ(closest(std::string(100000, 'b'), names), "");
}

TEST(Registry, RefusesShapesThatNoMemoryHolds) {
  const Shape good = kSetup.shape;
  for (uint32_t Shape::*field :
       {&Shape::layers, &Shape::kv_heads, &Shape::head_dim, &Shape::max_tokens}) {
    kv::Setup setup = kSetup;
    setup.shape.*field = 0;
    EXPECT_FALSE(make_store({"virtual", {}}, setup).ok());
    EXPECT_FALSE(cost_of({"virtual", {}}, setup, {}).ok());
    setup.shape.*field = UINT32_MAX;
    for (const Strategy& strategy : strategies())
      if (!strategy.traits.slots && !strategy.traits.tiered) {
        EXPECT_EQ(make_store({std::string(strategy.name), {}}, setup).ok(),
                  field == &Shape::max_tokens);
      }
  }
  kv::Setup setup{.shape = good};
  setup.shape = {.layers = 1u << 24, .kv_heads = 1, .head_dim = 1u << 20, .max_tokens = UINT32_MAX};
  EXPECT_NE(make_error("virtual", setup).find("smaller context"), std::string::npos);
  setup.shape = good;
  setup.shape.v_type = kernels::DType::kQ8_0;
  EXPECT_EQ(make_error("bmc", setup),
            "keys and values are kept as f32, f16, bf16, q8, q4, q3, q2, static8 or static16, not "
            "as Q8_0");
  setup.shape.v_type = kernels::DType::kQ4;
  EXPECT_NE(make_error("bmc", setup).find("groups of 32: use f16"), std::string::npos);
}

TEST(Registry, RefusesStaticTypesWithoutRangesOfEveryHead) {
  kv::Setup setup = kSetup;
  setup.shape.v_type = kernels::DType::kStatic8;
  EXPECT_EQ(make_error("virtual", setup), "rows of type STATIC8 need the ranges of a calibration");
  setup.ranges = std::make_shared<StaticRanges>(StaticRanges{.k = {}, .v = {1, 2}});
  EXPECT_EQ(make_error("virtual", setup),
            "ranges of 2 heads, but there are 1 layers of 1 KV heads");
  for (const float bad : {-1.0F, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    setup.ranges = std::make_shared<StaticRanges>(StaticRanges{.k = {}, .v = {bad}});
    EXPECT_NE(make_error("virtual", setup).find("finite and not negative"), std::string::npos);
  }
  setup.ranges = std::make_shared<StaticRanges>(StaticRanges{.k = {}, .v = {0}});
  EXPECT_TRUE(make_store({"virtual", {}}, setup).ok());
}

TEST(Registry, KeepsAMemoryForModelsThatHaveOneAndRowsForTheOthers) {
  EXPECT_EQ(make_error("bounded"),
            "bounded needs a model that was trained with a memory of slots (architecture bct), and "
            "this one was not: use one of virtual, bmc, iterative, upfront, paged, "
            "sliding");
  EXPECT_FALSE(cost_of({"bounded", {}}, kSetup, {}).ok());
  const kv::Setup with_memory = test::setup_for("bounded", kSetup.shape);
  EXPECT_EQ(make_error("paged", with_memory),
            "the model was trained with a memory of slots, which paged does not keep: use bounded");
  EXPECT_FALSE(cost_of({"virtual", {}}, with_memory, {}).ok());
}

TEST(Registry, CostsOnlyLoadsThatFitTheContext) {
  EXPECT_EQ(cost_of({"bmc", {}}, kSetup, {9, 1}).error().message,
            "a sequence of 9 tokens is past the context of 8");
}

TEST(Registry, StoresConvertRowsWithTheGivenFunction) {
  kv::Setup setup = kSetup;
  setup.compute.store_row = [](kernels::DType, const float* in, size_t n, std::byte* out) {
    for (size_t i = 0; i < n; ++i) {
      const uint16_t value = static_cast<uint16_t>(in[i]) + 1;
      std::memcpy(out + 2 * i, &value, 2);
    }
  };
  for (const Strategy& strategy : strategies()) {
    if (strategy.traits.slots) continue;  // keeps no rows
    setup.tier = test::setup_for(std::string(strategy.name), setup.shape).tier;
    auto store = make_store({std::string(strategy.name), {}}, setup).value();
    const Slot slot = {store->open({}).seq, 1};
    auto step = store->begin({{&slot, 1}}).value();
    const float k[] = {1, 2, 3, 4}, v[] = {5, 6, 7, 8};
    step->write(0, k, v);
    base::Arena scratch;
    kernels::View view;
    step->view({}, scratch, view);
    uint16_t last = 0;
    std::memcpy(&last, view.fresh.v + 6, 2);
    EXPECT_EQ(last, 9) << strategy.name;
  }
}

}  // namespace
}  // namespace kvick::kv
