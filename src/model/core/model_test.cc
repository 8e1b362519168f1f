#include "model/core/model.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <optional>
#include <utility>

#include "kv/registry/registry.h"
#include "model/core/test_runner.h"

namespace kvick::model {
namespace {

class EveryArch : public testing::TestWithParam<Arch> {};
INSTANTIATE_TEST_SUITE_P(Model, EveryArch,
                         testing::Values(Arch::kLlama, Arch::kQwen2, Arch::kQwen3, Arch::kOpt,
                                         Arch::kBct),
                         [](const auto& instance) {
                           return std::string(tools::arch_name(instance.param));
                         });

TEST_P(EveryArch, GivesTheSameBitsHoweverAPromptIsCut) {
  Runner runner(GetParam());
  const std::vector<Token> tokens = tokens_of(300, 1, runner.model->config().vocab);
  const auto whole = runner.feed(runner.store->open({}).seq, tokens, {300});
  for (const std::vector<uint32_t>& pieces :
       std::vector<std::vector<uint32_t>>{{1}, {7}, {255, 1}, {256, 44}, {100, 150, 3}})
    EXPECT_TRUE(same_bits(whole, runner.feed(runner.store->open({}).seq, tokens, pieces)))
        << "pieces of " << pieces[0];
}

TEST_P(EveryArch, GivesTheSameLogitsOfSomeTokensOnly) {
  const std::vector<Token> outputs = {3, 4, 77, 200, 5};
  for (const auto type : {kernels::DType::kF32, kernels::DType::kQ8_0}) {
    if (type != kernels::DType::kF32 && GetParam() != Arch::kLlama) continue;
    Runner runner(GetParam(), "", 2, type);
    const std::vector<Token> tokens = tokens_of(9, 1, runner.model->config().vocab);
    const auto all = runner.feed(runner.store->open({}).seq, tokens, {9});
    std::vector<float> expected;
    for (size_t i = 0; i < tokens.size(); ++i)
      for (const Token output : outputs)
        expected.push_back(runner.row(all, i)[static_cast<size_t>(output)]);
    const uint64_t bytes = runner.model->weights().output.bytes;
    // The store may hold keys of the model that it was made for, so that model must live on.
    const auto whole =
        runner.exchange(load_model(runner.path, runner.pool, runner.kernels, outputs));
    EXPECT_EQ(runner.model->outputs(), outputs.size());
    EXPECT_LT(runner.model->weights().output.bytes, bytes);
    EXPECT_TRUE(same_bits(expected, runner.feed(runner.store->open({}).seq, tokens, {9})));
  }
}

TEST_P(EveryArch, GivesTheSameBitsAloneAndInARaggedBatch) {
  Runner runner(GetParam());
  const uint32_t vocab = runner.model->config().vocab;
  const auto first = tokens_of(40, 1, vocab), second = tokens_of(3, 2, vocab),
             third = tokens_of(17, 3, vocab);
  std::vector<std::vector<float>> alone;
  for (const auto& tokens : {first, second, third})
    alone.push_back(runner.feed(runner.store->open({}).seq, tokens, {64}));

  std::vector<kv::SeqId> seqs;
  for (int i = 0; i < 3; ++i) seqs.push_back(runner.store->open({}).seq);
  (void)runner.feed(seqs[2], std::span(third).first(16), {16});
  const std::vector<Slot> slots = {
      {.seq = seqs[0], .past = 0, .tokens = first, .parents = {}},
      {.seq = seqs[2], .past = 16, .tokens = std::span(third).subspan(16), .parents = {}},
      {.seq = seqs[1], .past = 0, .tokens = second, .parents = {}}};
  const auto together = runner.step(slots);
  EXPECT_TRUE(same_bits(alone[0], std::span(together).first(alone[0].size())));
  EXPECT_TRUE(same_bits(runner.row(alone[2], 16), runner.row(together, 40)));
  EXPECT_TRUE(same_bits(alone[1], std::span(together).last(alone[1].size())));
}

TEST_P(EveryArch, GivesEachBranchOfATreeWhatItsPathAloneGives) {
  Runner runner(GetParam());
  const uint32_t vocab = runner.model->config().vocab;
  const auto prompt = tokens_of(20, 4, vocab), draft = tokens_of(6, 5, vocab);
  // 0 -> 1 -> 3, 0 -> 2 -> 4 -> 5
  const std::vector<int32_t> parents = {-1, 0, 0, 1, 2, 4};
  const kv::SeqId seq = runner.store->open({}).seq;
  (void)runner.feed(seq, prompt, {20});
  const Slot tree = {.seq = seq, .past = 20, .tokens = draft, .parents = parents};
  const kv::Kept kept = {.rows = {{0, 2, 4}}};
  const auto logits = runner.step({&tree, 1}, &kept);

  std::vector<Token> path = prompt;
  for (const size_t i : {0u, 2u, 4u, 5u}) path.push_back(draft[i]);
  const auto chain = runner.feed(runner.store->open({}).seq, path, {64});
  EXPECT_TRUE(same_bits(runner.row(logits, 2), runner.row(chain, 21)));
  EXPECT_TRUE(same_bits(runner.row(logits, 5), runner.row(chain, 23)));
  // Continues after the kept path.
  EXPECT_EQ(runner.store->length(seq), 23u);
  const auto next = runner.feed(seq, std::span(draft).subspan(5, 1), {1});
  EXPECT_TRUE(same_bits(next, runner.row(chain, 23)));
}

TEST(Model, GivesTheSameBitsOnEveryStrategyAndThreadCount) {
  const auto logits = [](const std::string& spec, unsigned threads) {
    Runner runner(Arch::kLlama, spec, threads, kernels::DType::kQ8_0);
    const auto tokens = tokens_of(350, 9, runner.model->config().vocab);
    return runner.feed(runner.store->open({}).seq, tokens, {300, 1});
  };
  const auto expected = logits(std::string(kv::strategies().front().name), 1);
  for (const kv::Strategy& strategy : kv::strategies()) {
    if (!strategy.traits.exact) continue;
    EXPECT_TRUE(same_bits(expected, logits(std::string(strategy.name), 3))) << strategy.name;
  }
}

TEST(Model, GivesTheSameBitsOfOldRowsOnEveryStrategyAndThreadCount) {
  using kernels::DType;
  for (const kv::Aging& aging :
       {kv::Aging{.k_type = DType::kQ8, .v_type = DType::kQ4, .window = 64},
        kv::Aging{.k_type = DType::kKivi4K, .v_type = DType::kKivi4V, .window = 32}}) {
    const auto logits = [&](const std::string& spec, unsigned threads) {
      Runner runner(Arch::kLlama, spec, threads, DType::kQ8_0, aging);
      const auto tokens = tokens_of(350, 9, runner.model->config().vocab);
      return runner.feed(runner.store->open({}).seq, tokens, {300, 1});
    };
    const auto expected = logits("virtual", 1);
    for (const kv::Strategy& strategy : kv::strategies()) {
      if (!strategy.traits.holds_old) continue;
      EXPECT_TRUE(same_bits(expected, logits(std::string(strategy.name), 3))) << strategy.name;
    }
    // Close to the logits with all rows in f16, and different from the second step on.
    Runner exact(Arch::kLlama, "virtual", 2, DType::kQ8_0,
                 kv::Aging{.k_type = DType::kF16, .v_type = DType::kF16, .window = 64});
    const auto tokens = tokens_of(350, 9, exact.model->config().vocab);
    const auto all_f16 = exact.feed(exact.store->open({}).seq, tokens, {300, 1});
    const size_t second = 300 * size_t{exact.model->config().vocab};
    double squares = 0, first = 0, off = 0;
    for (size_t i = 0; i < all_f16.size(); ++i) {
      const double error = expected[i] - all_f16[i];
      (i < second ? first : off) += error * error;
      if (i >= second) squares += double{all_f16[i]} * all_f16[i];
    }
    EXPECT_EQ(first, 0);
    EXPECT_GT(off, 0);
    // Random weights attend to noise, so the bound is loose: 4-bit rows change the logits by about
    // a tenth, wrong rows by their full size.
    EXPECT_LT(std::sqrt(off / squares), 0.25);
  }
}

TEST(Model, GivesTheSameLogitsFromGgufAndHuggingFace) {
  base::ThreadPool pool(2);
  const kernels::Table& kernels = kernels::table(base::best_isa());
  for (const Arch arch : {Arch::kLlama, Arch::kQwen2, Arch::kQwen3}) {
    std::vector<std::vector<float>> results;
    for (const bool hugging_face : {false, true}) {
      const auto model =
          load_model(write_model(tiny_spec(arch), pool, hugging_face), pool, kernels);
      kv::Setup setup;
      setup.shape = model->kv_shape(kernels::DType::kF32, kernels::DType::kF32);
      const auto store = std::move(kv::make_store(*kv::parse_spec("virtual"), setup)).value();
      Executor executor(*model, {pool, kernels});
      const auto tokens = tokens_of(30, 6, model->config().vocab);
      const Slot slot = {.seq = store->open({}).seq, .past = 0, .tokens = tokens, .parents = {}};
      const uint32_t last = 29;
      EXPECT_TRUE(executor.run(*store, {.slots = {&slot, 1}}, {&last, 1}).ok());
      results.emplace_back(executor.logits().begin(), executor.logits().end());
    }
    // The order of pairs in a head differs, and so do the sums over its elements.
    for (size_t i = 0; i < results[0].size(); ++i)
      EXPECT_NEAR(results[0][i], results[1][i], 1e-4) << tools::arch_name(arch) << " token " << i;
  }
}

// Layers: q, k, v and out of 64 x (64, 32, 32, 64), three matrices of 64 x 96, two norms of 64.
TEST(Model, CountsWhatAForwardReadsAndMultiplies) {
  constexpr uint64_t kLayers = 2 * (64 * (64 + 32 + 32 + 64) + 3 * 64 * 96), kOutput = 64 * 512;
  constexpr uint64_t kNorms = 2 * 2 * 64 + 64;
  base::ThreadPool pool(1);
  const kernels::Table& scalar = kernels::table(base::Isa::kScalar);
  const auto weights_of = [&](kernels::DType type, bool tied, const kernels::Table& table) {
    tools::Spec spec = tiny_spec(Arch::kLlama, type);
    spec.tied = tied;
    return load_model(write_model(spec, pool, false), pool, table)->weights();
  };
  for (const bool tied : {false, true}) {
    const Weights floats = weights_of(kernels::DType::kF16, tied, scalar);
    EXPECT_EQ(floats.layers.half, kLayers);
    EXPECT_EQ(floats.output.half, kOutput) << "an embedding that is only looked up does not count";
    EXPECT_EQ(floats.layers.int8 + floats.output.int8, 0u);
    EXPECT_EQ(floats.layers.f32 + floats.output.f32, 0u);
    EXPECT_EQ(floats.layers.bytes, 2 * kLayers + 4 * kNorms);
    EXPECT_EQ(floats.output.bytes, 2 * kOutput) << "nor does a tied one count twice";
    EXPECT_EQ(floats.lookup_bytes, 2 * 64u);
    if (const kernels::Table* rounding = kernels::rounding_table(base::best_isa()))
      for (const auto type : {kernels::DType::kF16, kernels::DType::kBF16}) {
        const Weights bf16 = weights_of(type, tied, *rounding);
        EXPECT_EQ(bf16.layers.bf16, kLayers);
        EXPECT_EQ(bf16.output.bf16, kOutput);
        EXPECT_EQ(bf16.layers.half + bf16.output.half, 0u);
        EXPECT_EQ(bf16.layers.bytes, floats.layers.bytes);
        EXPECT_EQ(bf16.output.bytes, floats.output.bytes);
      }
    const Weights bytes = weights_of(kernels::DType::kQ8_0, tied, scalar);
    EXPECT_EQ(bytes.layers.int8, kLayers);
    EXPECT_EQ(bytes.output.int8, kOutput);
    EXPECT_EQ(bytes.layers.half + bytes.output.half, 0u);
    EXPECT_EQ(bytes.layers.f32 + bytes.output.f32, 0u);
    EXPECT_EQ(bytes.output.bytes, kOutput / 32 * 34) << "packed Q8_0 takes what it takes in a file";
    EXPECT_EQ(bytes.lookup_bytes, 2 * 34u);
    const Weights wide = weights_of(kernels::DType::kF32, tied, scalar);
    EXPECT_EQ(wide.layers.f32, kLayers);
    EXPECT_EQ(wide.output.f32, kOutput);
    EXPECT_EQ(wide.layers.half + wide.output.half, 0u);
  }
}

TEST(Model, LooksUpPositionsToo) {
  base::ThreadPool pool(1);
  const auto model = load_model(write_model(tiny_spec(Arch::kOpt), pool, true), pool,
                                kernels::table(base::Isa::kScalar));
  EXPECT_EQ(model->weights().lookup_bytes, 2 * 64 * sizeof(float));
}

TEST(Model, SaysWhichArchitecturesItRuns) {
  base::ThreadPool pool(1);
  const std::string path = write_model(tiny_spec(Arch::kLlama), pool, false);
  // The architecture's name is the first value of the file. It is overwritten with five letters.
  std::FILE* file = std::fopen(path.c_str(), "r+b");
  std::string head(4096, '\0');
  head.resize(std::fread(head.data(), 1, head.size(), file));
  for (size_t at = head.find("llama"); at != std::string::npos; at = head.find("llama", at + 1)) {
    std::fseek(file, static_cast<long>(at), SEEK_SET);
    std::fwrite("mamba", 1, 5, file);
  }
  std::fclose(file);
  auto opened = io::ModelFile::open(path);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const auto model = Model::load(std::move(opened).value(),
                                 {.kernels = &kernels::table(base::Isa::kScalar), .pool = &pool});
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("llama, qwen2, qwen3, qwen2moe"), std::string::npos)
      << model.error().message;
}

TEST(Model, RefusesABatchThatNoModelCanRun) {
  Runner runner(Arch::kLlama);
  const Token outside = static_cast<Token>(runner.model->config().vocab);
  const Slot slot = {
      .seq = runner.store->open({}).seq, .past = 0, .tokens = {&outside, 1}, .parents = {}};
  EXPECT_THROW((void)runner.step({&slot, 1}), base::Bug);
}

}  // namespace
}  // namespace kvick::model
