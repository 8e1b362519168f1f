// A model computes the same with rows that are Hadamard transforms as with plain rows.

#include <cmath>

#include "kv/registry/policies.h"
#include "kv/testing/policies.h"
#include "model/core/test_runner.h"

namespace kvick::model {
namespace {

constexpr kv::Hadamard kBoth = {.k = true, .v = true}, kKeys = {.k = true}, kValues = {.v = true};

// A model whose heads are wide enough for the transform, over a store with rows of this type.
struct Case {
  Arch arch = Arch::kLlama;
  std::string store = "virtual", select;
  kernels::DType type = kernels::DType::kF32;
  std::optional<kv::Aging> aging = {};
};

std::vector<float> logits_of(const Case& test, kv::Hadamard hadamard,
                             const std::vector<uint32_t>& pieces) {
  Runner runner(test.arch, "virtual", 2, kernels::DType::kF32, kv::Aging{.window = 64});
  kv::Setup setup;
  setup.shape.k_type = setup.shape.v_type = test.type;
  set_layers(runner.model->config(), setup);
  setup.shape.aging = test.aging;
  setup.shape.hadamard = hadamard;
  setup.compute = {.store_row = runner.kernels.store_row,
                   .store_group = runner.kernels.store_group,
                   .kernels = &runner.kernels,
                   .pool = &runner.pool};
  setup.select.group = runner.model->config().heads_layer().group();
  if (!test.select.empty()) setup.select.spec = kv::parse_spec(test.select).value();
  const Rope& rope = runner.model->config().rope_of_full();
  setup.select.rotation = {
      .frequency = rope.frequency, .dims = rope.dims, .interleaved = rope.interleaved};
  const auto spec = kv::parse_spec(test.store).value();
  if (kv::find_strategy(spec.name)->traits.tiered)
    setup.tier.spec = kv::parse_spec("ram:unit=16,fast=1MiB,size=16MiB").value();
  runner.store = kv::make_store(spec, setup).value();
  const auto tokens = tokens_of(200, 9, runner.model->config().vocab);
  return runner.feed(runner.store->open({}).seq, tokens, pieces);
}

// Returns |a - b| / |b|.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double off = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    off += std::pow(double{a[i]} - b[i], 2);
    size += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(off / size);
}

TEST(HadamardRows, GiveTheLogitsOfPlainRowsOnEveryStrategy) {
  const std::vector<float> plain = logits_of({}, {}, {170, 1});
  for (const kv::Strategy& strategy : kv::strategies()) {
    if (strategy.traits.slots) continue;
    const Case test = {.store = std::string(strategy.name)};
    const std::vector<float> turned = logits_of(test, kBoth, {170, 1});
    EXPECT_LT(difference(turned, plain), 1e-4) << strategy.name;
    EXPECT_GT(difference(turned, plain), 0) << strategy.name;  // the rows were in fact transformed
  }
  for (const kv::Hadamard which : {kKeys, kValues})
    EXPECT_LT(difference(logits_of({}, which, {170, 1}), plain), 1e-4);
}

TEST(HadamardRows, GiveTheSameBitsHoweverATextIsCut) {
  for (const kernels::DType type : {kernels::DType::kQ4, kernels::DType::kQ2}) {
    const std::vector<float> one = logits_of({.type = type}, kBoth, {200});
    EXPECT_TRUE(same_bits(one, logits_of({.type = type}, kBoth, {33, 1, 70})));
    EXPECT_TRUE(same_bits(one, logits_of({.store = "paged", .type = type}, kBoth, {64, 7})));
  }
}

TEST(HadamardRows, LoseLittleWithFewBits) {
  const std::vector<float> plain = logits_of({}, {}, {170, 1});
  // Random weights attend to noise, so the bounds are as loose as the few bits make them.
  EXPECT_LT(difference(logits_of({.type = kernels::DType::kQ8}, kBoth, {170, 1}), plain), 0.03);
  EXPECT_LT(difference(logits_of({.type = kernels::DType::kQ4}, kBoth, {170, 1}), plain), 0.25);
}

TEST(HadamardRows, OfTypesThatChangeWithAgeAreTransformedAtEveryAge) {
  using kernels::DType;
  const kv::Aging f32 = {.k_type = DType::kF32, .v_type = DType::kF32, .window = 32};
  const std::vector<float> plain = logits_of({.aging = f32}, {}, {64, 1});
  for (const char* store : {"virtual", "paged"}) {
    EXPECT_LT(difference(logits_of({.store = store, .aging = f32}, kBoth, {64, 1}), plain), 1e-4);
    const kv::Aging kivi = {.k_type = DType::kKivi4K, .v_type = DType::kKivi4V, .window = 32};
    EXPECT_LT(difference(logits_of({.store = store, .aging = kivi}, kBoth, {64, 1}), plain), 0.25);
  }
}

TEST(HadamardRows, AreChosenByPoliciesAsPlainRowsAre) {
  for (const char* policy :
       {"quest:budget=64,page=4", "sparq:budget=64,r=8", "streaming:budget=64"}) {
    const Case test = {.select = policy};
    const std::vector<float> plain = logits_of(test, {}, {20, 1});
    EXPECT_LT(difference(logits_of(test, kBoth, {20, 1}), plain), 1e-3) << policy;
  }
}

TEST(HadamardRows, OfLatentLayersAreTransformedInBlocksThatDivideTheirValues) {
  EXPECT_EQ(kv::hadamard_blocks(kBoth, 576, 512, true).k, 64U);
  EXPECT_EQ(kv::hadamard_blocks(kBoth, 576, 512, true).v, 64U);
  EXPECT_EQ(kv::hadamard_blocks(kBoth, 192, 128, false).k, 64U);
  EXPECT_EQ(kv::hadamard_blocks(kBoth, 256, 256, false).k, 256U);
  EXPECT_EQ(kv::hadamard_blocks(kBoth, 256, 256, false).v, 64U);
  EXPECT_EQ(kv::hadamard_blocks(kValues, 128, 128, false).k, 0U);
}

}  // namespace
}  // namespace kvick::model
