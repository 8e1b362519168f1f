// Prompt tokens may have their own arithmetic: a token's bits then depend on its role and on the
// tokens before it, not on how the text is cut or which sequences are in the batch.

#include <cmath>
#include <gtest/gtest.h>

#include "model/core/test_runner.h"

namespace kvick::model {
namespace {

using kernels::DType;

// Returns the logits of a prompt read in pieces and of the answer after it, [tokens][vocab].
std::vector<float> read_in_roles(Runner& runner, std::span<const Token> tokens, size_t prompt,
                                 const std::vector<uint32_t>& pieces, Role role) {
  const kv::SeqId seq = runner.store->open({}).seq;
  std::vector<float> all = runner.feed(seq, tokens.first(prompt), pieces, role);
  const auto rest = runner.feed(seq, tokens.subspan(prompt), pieces);
  all.insert(all.end(), rest.begin(), rest.end());
  runner.store->close(seq);
  return all;
}

struct RoleCase {
  Arch arch;
  DType type;
  Role role;
};

class EveryRole : public testing::TestWithParam<RoleCase> {
 protected:
  void SetUp() override {
    if (kernels::table(base::best_isa()).matmul_prompt == nullptr)
      GTEST_SKIP() << "one arithmetic on this processor";
  }
};
INSTANTIATE_TEST_SUITE_P(Model, EveryRole,
                         testing::Values(RoleCase{Arch::kLlama, DType::kF32, Role::kPrompt},
                                         RoleCase{Arch::kLlama, DType::kQ8_0, Role::kPrompt},
                                         RoleCase{Arch::kLlama, DType::kQ4_1, Role::kPromptLayers},
                                         RoleCase{Arch::kLlama, DType::kBF16, Role::kPrompt},
                                         RoleCase{Arch::kQwen2, DType::kQ8_0, Role::kPrompt},
                                         RoleCase{Arch::kQwen3, DType::kF16, Role::kPrompt},
                                         RoleCase{Arch::kOpt, DType::kF16, Role::kPrompt},
                                         RoleCase{Arch::kBct, DType::kQ8_0, Role::kPromptLayers}),
                         [](const auto& instance) {
                           return std::string(tools::arch_name(instance.param.arch)) + "_" +
                                  std::string(kernels::dtype_info(instance.param.type).name);
                         });

TEST_P(EveryRole, GivesATokenTheSameBitsHoweverItIsRead) {
  const auto [arch, type, role] = GetParam();
  Runner runner(arch, "", 2, type);
  const uint32_t vocab = runner.model->config().vocab;
  const std::vector<Token> tokens = tokens_of(320, 1, vocab), other = tokens_of(30, 2, vocab);
  const auto expected = read_in_roles(runner, tokens, 290, {290, 1}, role);
  for (const std::vector<uint32_t>& pieces :
       std::vector<std::vector<uint32_t>>{{1}, {7}, {255, 1}, {256, 44}, {100, 150, 3}})
    EXPECT_TRUE(same_bits(expected, read_in_roles(runner, tokens, 290, pieces, role)))
        << "pieces of " << pieces[0];
  if (runner.model->trained_slots() == nullptr)
    for (const char* spec : {"paged:block=16", "iterative", "bmc:r=8"}) {
      Runner on(arch, spec, 3, type);
      EXPECT_TRUE(same_bits(expected, read_in_roles(on, tokens, 290, {33}, role))) << spec;
    }
  // In one batch with answers of other sequences, before it and after it.
  const kv::SeqId first = runner.store->open({}).seq;
  const auto alone = runner.feed(first, other, {30});
  runner.store->close(first);
  kv::SeqId seqs[3];
  for (kv::SeqId& seq : seqs) seq = runner.store->open({}).seq;
  const Slot slots[] = {{.seq = seqs[0], .past = 0, .tokens = other, .parents = {}},
                        {.seq = seqs[1],
                         .past = 0,
                         .tokens = std::span(tokens).first(290),
                         .parents = {},
                         .role = role},
                        {.seq = seqs[2], .past = 0, .tokens = other, .parents = {}}};
  const std::vector<float> together = runner.step(slots);
  const std::span<const float> all(together);
  EXPECT_TRUE(same_bits(alone, all.first(alone.size())));
  EXPECT_TRUE(same_bits(alone, all.last(alone.size())));
  EXPECT_TRUE(same_bits(std::span(expected).first(size_t{290} * vocab),
                        all.subspan(alone.size(), size_t{290} * vocab)));
}

TEST_P(EveryRole, IsAboutWhatAnswersAreAndNotTheSame) {
  const auto [arch, type, role] = GetParam();
  Runner runner(arch, "", 2, type);
  const std::vector<Token> tokens = tokens_of(120, 1, runner.model->config().vocab);
  const auto prompt = runner.feed(runner.store->open({}).seq, tokens, {120}, role);
  const auto answer = runner.feed(runner.store->open({}).seq, tokens, {120});
  EXPECT_FALSE(same_bits(prompt, answer));
  double squares = 0, off = 0;
  for (size_t i = 0; i < answer.size(); ++i) {
    squares += double{answer[i]} * answer[i];
    off += double{prompt[i] - answer[i]} * (prompt[i] - answer[i]);
  }
  // On tiles a float has 8 significant bits; an activation for integer weights has 7 and a sign.
  EXPECT_LT(std::sqrt(off / squares), 0.03);
}

}  // namespace
}  // namespace kvick::model
