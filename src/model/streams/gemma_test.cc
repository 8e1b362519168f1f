// Gemma 3n and 4 with made weights, compared with a twin in doubles.

#include <gtest/gtest.h>
#include <numeric>

#include "make_model/families.h"

#include "model/core/test_plain_step.h"
#include "model/core/test_runner.h"
#include "model/parallel/test_team.h"
#include "model/streams/test_gemma_twin.h"

namespace kvick::model {
namespace {

tools::Spec made(const char* family) { return tools::made_family(family).value(); }

// Fewer layers than llama.cpp needs: two with their own rows, and two that read those rows.
tools::Spec small_3n() {
  tools::Spec spec = made("gemma3n");
  tools::Features& f = spec.features;
  spec.layers = 4;
  f.windowed = {true, false, true, false};
  f.sparsity = {1.6F, 0.5F, 0, 0};
  f.shared_layers = 2, f.layer_inputs = 32, f.laurel = 32;
  return spec;
}
tools::Spec gemma4() { return made("gemma4"); }
tools::Spec gemma4_experts() { return made("gemma4-experts"); }

// Returns the logits of every token, fed in pieces of `piece` tokens.
std::vector<float> run_tokens(Executor& executor, kv::Store& store, std::span<const Token> tokens,
                              size_t piece) {
  const kv::SeqId seq = store.open({}).seq;
  std::vector<float> all;
  for (size_t past = 0; past < tokens.size(); past += piece) {
    const auto part = tokens.subspan(past, std::min(piece, tokens.size() - past));
    const Slot slot = {.seq = seq, .past = store.length(seq), .tokens = part, .parents = {}};
    std::vector<uint32_t> rows(part.size());
    std::iota(rows.begin(), rows.end(), 0U);
    auto step = executor.run(store, {.slots = {&slot, 1}}, rows).value();
    all.insert(all.end(), executor.logits().begin(), executor.logits().end());
    step.commit({.rows = {rows}});
  }
  return all;
}

struct Made {
  explicit Made(const tools::Spec& wanted)
      : spec(*tools::checked(wanted)), path(write_model(wanted, pool, false)) {
    auto loaded = load();
    EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message);
    model = std::move(loaded).value();
  }
  base::Result<std::unique_ptr<Model>> load(Ranks* ranks = nullptr,
                                            RankSplit split = RankSplit::kTensor) {
    return Model::load(io::ModelFile::open(path).value(),
                       {.kernels = &kernels, .pool = &pool, .ranks = ranks, .split = split});
  }

  // Returns the logits of every token, fed in pieces of `piece` tokens.
  std::vector<float> feed(std::span<const Token> tokens, size_t piece) {
    PlainRows rows(model->config());
    std::vector<float> all;
    for (size_t past = 0; past < tokens.size(); past += piece) {
      const auto part = tokens.subspan(past, std::min(piece, tokens.size() - past));
      const Slot slot = {.past = static_cast<uint32_t>(past), .tokens = part, .parents = {}};
      std::vector<uint32_t> wanted(part.size());
      std::iota(wanted.begin(), wanted.end(), 0U);
      all.resize(all.size() + part.size() * spec.vocab);
      PlainStep step(rows, static_cast<uint32_t>(past), static_cast<uint32_t>(part.size()));
      model->forward({.slots = {&slot, 1}}, step, workspace, wanted,
                     all.data() + all.size() - part.size() * spec.vocab);
    }
    return all;
  }
  // Does the same over a store.
  std::vector<float> feed_store(const char* strategy, std::span<const Token> tokens, size_t piece) {
    kv::Setup setup = {.shape = {.max_tokens = 100,
                                 .k_type = kernels::DType::kF32,
                                 .v_type = kernels::DType::kF32},
                       .layers = model->kv_layers()};
    const auto store = kv::make_store(*kv::parse_spec(strategy), setup).value();
    Executor executor(*model, {pool, kernels});
    return run_tokens(executor, *store, tokens, piece);
  }

  base::ThreadPool pool{2};
  const kernels::Table& kernels = kernels::table(base::best_isa());
  tools::Spec spec;
  std::string path;
  std::unique_ptr<Model> model;
  Workspace workspace{pool, kernels};
};

struct GemmaCase {
  const char* name;
  tools::Spec (*spec)();
};
class GemmaFamily : public testing::TestWithParam<GemmaCase> {};
INSTANTIATE_TEST_SUITE_P(Gemma, GemmaFamily,
                         testing::Values(GemmaCase{"Of3n", small_3n}, GemmaCase{"Of4", gemma4},
                                         GemmaCase{"Of4WithExperts", gemma4_experts}),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(GemmaFamily, ComputesWhatItsTwinDoes) {
  Made gemma(GetParam().spec());
  GemmaTwin twin(gemma.spec);
  const std::vector<Token> tokens = tokens_of(26, 7, gemma.spec.vocab);
  const std::vector<float> logits = gemma.feed(tokens, 26);
  double most = 0;
  for (size_t t = 0; t < tokens.size(); ++t) {
    const std::vector<double> expected = twin.logits(tokens[t]);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(logits[t * expected.size() + i], expected[i], 2e-4) << t << ' ' << i;
      most = std::max(most, std::abs(expected[i]));
    }
  }
  EXPECT_GT(most, 3);  // the logits differ
  EXPECT_LT(most, 5);  // the softcap limits them
}

TEST_P(GemmaFamily, GivesTheSameBitsHoweverAPromptIsCutAndOverEveryStrategy) {
  Made gemma(GetParam().spec());
  const std::vector<Token> tokens = tokens_of(40, 3, gemma.spec.vocab);
  const std::vector<float> whole = gemma.feed(tokens, 40);
  for (const size_t piece : {1, 7, 39}) EXPECT_TRUE(same_bits(whole, gemma.feed(tokens, piece)));
  for (const char* strategy : {"virtual", "upfront", "paged:block=4", "sliding"})
    for (const size_t piece : {40, 7})
      EXPECT_TRUE(same_bits(whole, gemma.feed_store(strategy, tokens, piece)))
          << strategy << " in pieces of " << piece;
}

TEST(Gemma, SharesTheRowsOfTheLastLayerOfAKindAndKeepsValuesAsWideAsKeys) {
  const Made gemma(gemma4());
  const Config& config = gemma.model->config();
  ASSERT_EQ(config.layer_count(), 6u);
  EXPECT_EQ(config.layers[3].rows_of, 1u);
  EXPECT_EQ(config.layers[5].rows_of, 2u);
  EXPECT_EQ(config.layers[1].k_dim, 16u);
  EXPECT_EQ(config.layers[2].v_dim, 32u);
  EXPECT_EQ(config.layers[4].ffn, 192u);
  EXPECT_EQ(config.layer_inputs, 32u);
  const Made experts(gemma4_experts());
  EXPECT_EQ(experts.model->config().layers[0].experts.shared_ffn, 96u);
  EXPECT_EQ(experts.model->config().layer_inputs, 0u);
}

TEST(Gemma, SaysWhatSeveralProcessesCannotRun) {
  ThreadRanks ranks(2);
  const auto refusal = [&](tools::Spec spec, RankSplit split) {
    auto loaded = Made(spec).load(&ranks[0], split);
    return loaded.ok() ? "none" : loaded.error().message;
  };
  for (const RankSplit split : {RankSplit::kTensor, RankSplit::kPipeline}) {
    EXPECT_NE(refusal(gemma4(), split).find("leave --ranks and --pipeline out"), std::string::npos);
    EXPECT_NE(refusal(small_3n(), split).find("--ranks and --pipeline out"), std::string::npos);
  }
  tools::Spec experts = gemma4_experts();
  experts.features.kv_heads.assign(experts.layers, 2);
  EXPECT_NE(refusal(experts, RankSplit::kTensor).find("cannot divide; use --pipeline"),
            std::string::npos);
}

TEST(Gemma, GivesTheSameBitsAsAPipeline) {
  Made gemma(gemma4_experts());
  const std::vector<Token> tokens = tokens_of(40, 3, gemma.spec.vocab);
  Team team(gemma.path, 2, "virtual", kernels::DType::kF32, {}, {}, RankSplit::kPipeline);
  EXPECT_TRUE(
      same_bits(gemma.feed(tokens, 40), run_tokens(*team.executor, *team.store, tokens, 9)));
}

}  // namespace
}  // namespace kvick::model
