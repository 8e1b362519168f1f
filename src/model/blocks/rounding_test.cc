// BF16 and F16 weights multiplied in bfloat16: a token's bits depend only on the tokens before it,
// not on how the text is cut or which sequences are in the batch.

#include <cmath>
#include <gtest/gtest.h>

#include "kernels/formats/test_weights.h"
#include "model/blocks/linear.h"
#include "model/core/test_runner.h"

namespace kvick::model {
namespace {

using kernels::DType;

struct RoundingCase {
  Arch arch;
  DType type;
};

class Rounding : public testing::TestWithParam<RoundingCase> {
 protected:
  void SetUp() override {
    if (kernels::rounding_table(base::best_isa()) == nullptr)
      GTEST_SKIP() << "no products of bfloat16 on this processor";
  }
  static Runner runner(std::string spec, unsigned threads) {
    return Runner(GetParam().arch, std::move(spec), threads, GetParam().type, {},
                  *kernels::rounding_table(base::best_isa()));
  }
};
INSTANTIATE_TEST_SUITE_P(Model, Rounding,
                         testing::Values(RoundingCase{Arch::kLlama, DType::kBF16},
                                         RoundingCase{Arch::kLlama, DType::kF16},
                                         RoundingCase{Arch::kQwen2, DType::kBF16},
                                         RoundingCase{Arch::kOpt, DType::kF16},
                                         RoundingCase{Arch::kBct, DType::kBF16}),
                         [](const auto& instance) {
                           return std::string(tools::arch_name(instance.param.arch)) + "_" +
                                  std::string(kernels::dtype_info(instance.param.type).name);
                         });

TEST_P(Rounding, GivesATokenTheSameBitsHoweverItIsRead) {
  Runner two = runner("", 2);
  const uint32_t vocab = two.model->config().vocab;
  const std::vector<Token> tokens = tokens_of(320, 1, vocab), other = tokens_of(30, 2, vocab);
  const kv::SeqId all = two.store->open({}).seq;
  const std::vector<float> expected = two.feed(all, tokens, {320});
  two.store->close(all);
  for (const std::vector<uint32_t>& pieces :
       std::vector<std::vector<uint32_t>>{{1}, {7}, {255, 1}, {100, 150, 3}, {290, 30}}) {
    const kv::SeqId seq = two.store->open({}).seq;
    EXPECT_TRUE(same_bits(expected, two.feed(seq, tokens, pieces))) << "pieces of " << pieces[0];
    two.store->close(seq);
  }
  Runner three = runner("", 3);
  EXPECT_TRUE(same_bits(expected, three.feed(three.store->open({}).seq, tokens, {33})));
  // In one batch with other sequences, before it and after it.
  const kv::SeqId first = two.store->open({}).seq;
  const auto alone = two.feed(first, other, {30});
  two.store->close(first);
  kv::SeqId seqs[3];
  for (kv::SeqId& seq : seqs) seq = two.store->open({}).seq;
  const Slot slots[] = {
      {.seq = seqs[0], .past = 0, .tokens = other, .parents = {}},
      {.seq = seqs[1], .past = 0, .tokens = std::span(tokens).first(290), .parents = {}},
      {.seq = seqs[2], .past = 0, .tokens = other, .parents = {}}};
  const std::vector<float> together = two.step(slots);
  const std::span<const float> span(together);
  EXPECT_TRUE(same_bits(alone, span.first(alone.size())));
  EXPECT_TRUE(same_bits(alone, span.last(alone.size())));
  EXPECT_TRUE(same_bits(std::span(expected).first(size_t{290} * vocab),
                        span.subspan(alone.size(), size_t{290} * vocab)));
}

TEST_P(Rounding, IsAboutWhatFloat32IsAndNotTheSame) {
  Runner rounding = runner("", 2), exact(GetParam().arch, "", 2, GetParam().type);
  const std::vector<Token> tokens = tokens_of(120, 1, exact.model->config().vocab);
  const auto got = rounding.feed(rounding.store->open({}).seq, tokens, {120});
  const auto expected = exact.feed(exact.store->open({}).seq, tokens, {120});
  EXPECT_FALSE(same_bits(got, expected));
  double squares = 0, off = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    squares += double{expected[i]} * expected[i];
    off += double{got[i] - expected[i]} * (got[i] - expected[i]);
  }
  EXPECT_LT(std::sqrt(off / squares), 0.02);  // bfloat16 has 8 significant bits
}

TEST(Project, GivesLayersOfSeveralTypesTheBitsThatEachHasAlone) {
  const kernels::Table* kernels = kernels::rounding_table(base::best_isa());
  if (kernels == nullptr) GTEST_SKIP() << "no products of bfloat16 on this processor";
  constexpr uint32_t kInputs = 96, kRows = 40;
  std::vector<Linear> layers;
  for (const DType type : {DType::kQ8_0, DType::kBF16, DType::kF16, DType::kF32})
    layers.push_back({.w = kernels::Weights(type, kRows, kInputs, uint64_t{3}).packed, .bias = {}});
  base::ThreadPool pool(2);
  Workspace workspace(pool, *kernels);
  const auto prepare = [](uint32_t) {};
  for (const uint32_t tokens : {1U, 9U, 45U}) {
    const std::vector<float> x = kernels::random_values(size_t{tokens} * kInputs, 4);
    const TokenRun run = {.first = 0, .tokens = tokens};
    std::vector<std::vector<float>> y(4, std::vector<float>(size_t{tokens} * kRows));
    project(workspace, {&run, 1}, x.data(), prepare,
            {{&layers[0], y[0].data()},
             {&layers[1], y[1].data()},
             {&layers[2], y[2].data()},
             {&layers[3], y[3].data()}});
    for (size_t i = 0; i < layers.size(); ++i) {
      std::vector<float> alone(y[i].size());
      project(workspace, {&run, 1}, x.data(), prepare, {{&layers[i], alone.data()}});
      EXPECT_TRUE(same_bits(alone, y[i])) << "layer " << i << ", " << tokens << " tokens";
    }
  }
}

}  // namespace
}  // namespace kvick::model
