// A model on several ranks computes what one process computes, with every strategy.

#include "model/parallel/ranked_store.h"

#include <atomic>
#include <random>

#include "make_model/families.h"

#include "kv/strategy/facet_calls.h"
#include "model/core/test_runner.h"
#include "model/parallel/test_passing_store.h"
#include "model/parallel/test_team.h"

namespace kvick::model {
namespace {

constexpr auto kF16 = kernels::DType::kF16;

// Runs steps over one sequence and its forks, on several ranks or in one process.
template <typename Side>
class Play {
 public:
  Play(Side& side, std::vector<Token> text) : side_(side), text_(std::move(text)) {}

  // Does everything that a scheduler does. Returns the logits of all steps.
  std::vector<float> all() {
    const kv::SeqId seq = side_.store->open({}).seq;
    step(seq, 20, {}, true);
    step(seq, 1, {}, true);
    step(seq, 4, {}, false);  // dropped
    const std::vector<int32_t> tree = {-1, 0, 0, 2};
    const kv::Kept path = {.rows = {{0, 2, 3}}};
    step(seq, 4, tree, true, &path);
    const auto fork = side_.store->fork(seq);
    EXPECT_TRUE(fork.ok());
    step(seq, 3, {}, true);
    step(*fork, 5, {}, true);
    both(seq, *fork);
    dropped(seq, *fork);
    EXPECT_EQ(side_.store->length(seq), 20u + 1 + 3 + 3 + 1);
    side_.store->close(seq);
    step(*fork, 2, {}, true);
    side_.store->close(*fork);
    EXPECT_EQ(side_.store->usage().sequences, 0u);
    return logits_;
  }

  // Reads a prompt that was read before, from its cached tokens on. Returns their number.
  uint32_t again(std::span<const Token> prompt) {
    const kv::Opened opened = side_.store->open(prompt);
    for (uint32_t at = opened.cached; at < prompt.size();) {
      const uint32_t n = std::min<uint32_t>(16, static_cast<uint32_t>(prompt.size()) - at);
      run({{.seq = opened.seq, .past = at, .tokens = prompt.subspan(at, n), .parents = {}}}, true);
      at += n;
    }
    side_.store->close(opened.seq);
    return opened.cached;
  }
  const std::vector<float>& logits() const { return logits_; }

 private:
  void step(kv::SeqId seq, uint32_t count, std::span<const int32_t> parents, bool commit,
            const kv::Kept* kept = nullptr) {
    const auto tokens = std::span<const Token>(text_).subspan(at_, count);
    at_ += commit ? count : 0;
    run({{.seq = seq, .past = side_.store->length(seq), .tokens = tokens, .parents = parents}},
        commit, kept);
  }
  void both(kv::SeqId a, kv::SeqId b) {
    const auto tokens = std::span<const Token>(text_);
    run({{.seq = a, .past = side_.store->length(a), .tokens = tokens.subspan(3, 1), .parents = {}},
         {.seq = b,
          .past = side_.store->length(b),
          .tokens = tokens.subspan(5, 27),
          .parents = {}}},
        true);
  }
  // A tree of draft tokens in a batch with a long chain, and draft tokens with skipped layers.
  void dropped(kv::SeqId a, kv::SeqId b) {
    const auto tokens = std::span<const Token>(text_);
    const std::vector<int32_t> tree = {-1, 0, 0, -1, 3};
    const uint32_t of_a = side_.store->length(a), of_b = side_.store->length(b);
    run({{.seq = b, .past = of_b, .tokens = tokens.subspan(9, 5), .parents = {}},
         {.seq = a, .past = of_a, .tokens = tokens.subspan(2, 5), .parents = tree}},
        false);
    run({{.seq = a, .past = of_a, .tokens = tokens.subspan(2, 5), .parents = tree},
         {.seq = b, .past = of_b, .tokens = tokens.subspan(9, 30), .parents = {}}},
        false);
    std::vector<bool> skipped(side_.executor->model().all_layers());
    skipped[1] = skipped[2] = true;
    run({{.seq = a, .past = of_a, .tokens = tokens.subspan(1, 20), .parents = {}}}, false, nullptr,
        &skipped);
  }
  void run(std::vector<Slot> slots, bool commit, const kv::Kept* kept = nullptr,
           const std::vector<bool>* skipped = nullptr) {
    const Batch batch = {.slots = slots, .skipped = skipped};
    std::vector<uint32_t> wanted(batch.tokens());
    for (uint32_t i = 0; i < wanted.size(); ++i) wanted[i] = i;
    auto step = side_.executor->run(*side_.store, batch, wanted);
    ASSERT_TRUE(step.ok()) << step.error().what;
    const auto now = side_.executor->logits();
    logits_.insert(logits_.end(), now.begin(), now.end());
    if (commit) step->commit(kept != nullptr ? *kept : step->all());
  }

  Side& side_;
  std::vector<Token> text_;
  size_t at_ = 0;
  std::vector<float> logits_;
};

struct Case {
  Arch arch;
  kernels::DType type;
  unsigned ranks;
  RankSplit split = RankSplit::kTensor;
};

class Ranked : public testing::TestWithParam<Case> {};

TEST_P(Ranked, IsWhatOneProcessDoesOnEveryStrategy) {
  const auto [arch, type, ranks, split] = GetParam();
  const bool pipeline = split == RankSplit::kPipeline;
  const std::string path = model_path(arch, type);
  const std::vector<Token> text = tokens_of(200, 3, 512);
  std::vector<float> exact;  // logits of the first exact strategy
  for (const kv::Strategy& strategy : kv::strategies()) {
    if (strategy.traits.slots) continue;
    const std::string spec(strategy.name);
    Team team(path, ranks, spec, kF16, {}, {}, split);
    Alone alone(path, spec);
    const std::vector<float> ours = Play(team, text).all(), theirs = Play(alone, text).all();
    // Ranks add floats in another order, and activations are rounded to 8 bits in between. A
    // pipeline has no such sums.
    EXPECT_LT(error_of(ours, theirs), 0.02) << spec;
    EXPECT_TRUE(!pipeline || same_bits(ours, theirs)) << spec;
    if (exact.empty()) exact = ours;
    EXPECT_TRUE(!strategy.traits.exact || same_bits(ours, exact)) << spec;
    // Prompts with the same beginning.
    Play prompts(team, text);
    Play prompts_alone(alone, text);
    const std::span<const Token> prompt = text;
    prompts.again(prompt.first(100));
    prompts_alone.again(prompt.first(100));
    EXPECT_EQ(prompts.again(prompt.first(120)), prompts_alone.again(prompt.first(120))) << spec;
    EXPECT_LT(error_of(prompts.logits(), prompts_alone.logits()), 0.02) << spec;
    EXPECT_TRUE(!pipeline || same_bits(prompts.logits(), prompts_alone.logits())) << spec;
  }
}

// Under sanitizers this test takes minutes, so they run half of it: each number of ranks and both
// splits, but not each type, because other tests multiply with the types.
const Case kRanked[] = {
    {Arch::kLlama, kernels::DType::kF32, 2},
    {Arch::kQwen2, kernels::DType::kQ8_0, 4},
    {Arch::kOpt, kernels::DType::kF16, 3, RankSplit::kPipeline},
    {Arch::kLlama, kernels::DType::kQ4_0, 2, RankSplit::kPipeline},
#if !defined(KVICK_SANITIZED)
    {Arch::kLlama, kernels::DType::kQ4_0, 3},
    {Arch::kQwen3, kernels::DType::kBF16, 2},
    {Arch::kOpt, kernels::DType::kF16, 2},
    {Arch::kLlama, kernels::DType::kQ4_K, 2},
    {Arch::kQwen3, kernels::DType::kBF16, 4, RankSplit::kPipeline},
#endif
};

INSTANTIATE_TEST_SUITE_P(Some, Ranked, testing::ValuesIn(kRanked), [](const auto& one) {
  const bool pipeline = one.param.split == RankSplit::kPipeline;
  return fmt::format("{}_{}_{}{}", tools::arch_name(one.param.arch),
                     kernels::dtype_info(one.param.type).name, one.param.ranks,
                     pipeline ? "_pipeline" : "");
});

// Every rank routes by the same sums, so all of them choose the same experts.
TEST(RankedStore, DividesTheExpertsOfMixtures) {
  const std::vector<Token> text = tokens_of(200, 3, 256);
  for (const char* family : {"mixtral", "qwen2moe", "qwen3moe", "granitemoe", "llama4", "gpt-oss"})
    for (const kernels::DType type : {kernels::DType::kF32, kernels::DType::kQ8_0}) {
      // With some of the experts, rounding would change a few choices, so all are used.
      const bool all = type != kernels::DType::kF32;
      auto spec = tools::made_family(family);
      ASSERT_TRUE(spec.ok()) << spec.error().message;
      spec->type = type;
      spec->layers = std::max(spec->layers, 4U);
      if (all) spec->features.experts_used = spec->features.experts;
      base::ThreadPool pool(1);
      const std::string path = write_model(*spec, pool, false);
      Team team(path, 2, "virtual", kF16);
      Alone alone(path, "virtual");
      const std::vector<float> ours = Play(team, text).all(), theirs = Play(alone, text).all();
      EXPECT_LT(error_of(ours, theirs), all ? 0.03 : 1e-3)
          << family << " " << kernels::dtype_info(type).name;
    }
}

// Only rank 0 is asked for states; after its last layer it has all of them.
TEST(RankedStore, GivesTheStatesThatOneProcessGives) {
  const std::string path = model_path(Arch::kLlama, kernels::DType::kF32);
  Team team(path, 3, "virtual", kF16);
  Alone alone(path, "virtual");
  ASSERT_TRUE(team.executor->model().has_states());
  const std::vector<Token> text = tokens_of(20, 3, 512);
  const auto states = [&](auto& side) {
    const Slot slot = {.seq = side.store->open({}).seq, .past = 0, .tokens = text, .parents = {}};
    auto step = side.executor->begin(*side.store, {.slots = {&slot, 1}}).value();
    step.want_states({0, 7, 18});
    const uint32_t last = 19;
    step.forward({&last, 1});
    const std::span<const float> all = side.executor->states();
    return std::vector<float>(all.begin(), all.end());
  };
  const std::vector<float> ours = states(team), theirs = states(alone);
  ASSERT_EQ(ours.size(), size_t{3} * team.executor->model().config().dim);
  EXPECT_LT(error_of(ours, theirs), 1e-4);
}

TEST(RankedStore, RefusesWhatAnotherRankHasNoRoomFor) {
  const std::string path = model_path(Arch::kLlama, kernels::DType::kF32);
  Team team(path, 2, "paged:block=4", kF16, {}, [](unsigned r, kv::Setup& setup) {
    if (r == 1) setup.limits.max_bytes = 8 * 4 * setup.shape.token_bytes();
  });
  const std::vector<Token> text = tokens_of(200, 3, 512);
  const std::span<const Token> tokens = text;
  const kv::SeqId seq = team.store->open({}).seq, other = team.store->open({}).seq;
  const auto add = [&](kv::SeqId to, uint32_t count) {
    const uint32_t past = team.store->length(to);
    const Slot slot = {.seq = to,
                       .past = past,
                       .tokens = tokens.subspan(past, count),
                       .parents = {},
                       .reusable = false};
    const uint32_t last = count - 1;
    return team.executor->advance(*team.store, {.slots = {&slot, 1}}, {&last, 1});
  };
  ASSERT_TRUE(add(seq, 24).ok());
  const auto full = add(other, 12);
  ASSERT_FALSE(full.ok());
  EXPECT_GT(full.error().needed_bytes, 0u);
  EXPECT_EQ(team.store->length(other), 0u);
  ASSERT_TRUE(add(other, 8).ok());
  EXPECT_FALSE(add(seq, 1).ok());
  team.store->close(other);
  EXPECT_TRUE(add(seq, 8).ok());
}

// A store whose steps throw once when `throwing` is set, in the middle of a layer if they can.
std::atomic<bool> throwing = false;
class ThrowingStep final : public PassingStep, kv::PieceWriter {
 public:
  using PassingStep::PassingStep;
  void write(uint32_t layer, const float* k, const float* v) override {
    if (throwing.exchange(false)) throw std::bad_alloc();
    PassingStep::write(layer, k, v);
  }
  void write_piece(uint32_t layer, uint32_t first, uint32_t count, const float* k,
                   const float* v) override {
    if (first > 0 && throwing.exchange(false)) throw std::bad_alloc();
    inner_->facets().pieces->write_piece(layer, first, count, k, v);
  }
  kv::StepFacets facets() override { return {.pieces = this}; }
};
using ThrowingStore = PassingStore<ThrowingStep>;

TEST(RankedStore, DropsAStepThatARankCannotCompute) {
  const std::string path = model_path(Arch::kLlama, kernels::DType::kF32);
  const std::vector<Token> text = tokens_of(60, 3, 512);
  for (const auto& [failing, split] :
       std::vector<std::pair<unsigned, RankSplit>>{{0, RankSplit::kTensor},
                                                   {1, RankSplit::kTensor},
                                                   {2, RankSplit::kTensor},
                                                   {0, RankSplit::kPipeline},
                                                   {1, RankSplit::kPipeline},
                                                   {2, RankSplit::kPipeline}}) {
    const auto change = [of = failing](unsigned r, std::unique_ptr<kv::Store> store) {
      if (r != of) return store;
      return std::unique_ptr<kv::Store>(std::make_unique<ThrowingStore>(std::move(store)));
    };
    Team team(path, 3, "virtual", kF16, change, {}, split);
    Alone alone(path, "virtual");
    const kv::SeqId seq = team.store->open({}).seq;
    const Slot slot = {.seq = seq, .past = 0, .tokens = text, .parents = {}};
    const uint32_t last = 59;
    throwing = true;
    const auto advance = [&] {
      (void)team.executor->advance(*team.store, {.slots = {&slot, 1}}, {&last, 1});
    };
    if (failing == 0) {
      EXPECT_THROW(advance(), std::bad_alloc);
    } else {
      EXPECT_THROW(advance(), RankFailed);
    }
    EXPECT_EQ(team.store->length(seq), 0u);
    ASSERT_TRUE(team.executor->advance(*team.store, {.slots = {&slot, 1}}, {&last, 1}).ok());
    // Each rank that failed has reported before it took part in the second step.
    std::vector<std::string> why;
    if (failing != 0)
      why = {fmt::format("rank {} could not compute its part of a step: the system gives no memory",
                         failing)};
    EXPECT_EQ(team.reports, why);
    Slot same = slot;
    same.seq = alone.store->open({}).seq;
    ASSERT_TRUE(alone.executor->advance(*alone.store, {.slots = {&same, 1}}, {&last, 1}).ok());
    EXPECT_LT(error_of(team.executor->logits(), alone.executor->logits()), 1e-4);
  }
}

// A store that records which slots of a step read all rows.
class NotingStore final : public PassingStore<PassingStep> {
 public:
  NotingStore(std::unique_ptr<kv::Store> inner, std::vector<bool>& read_all)
      : PassingStore(std::move(inner)), read_all_(read_all) {}
  base::Result<std::unique_ptr<kv::Step>, kv::Shortage> begin(const kv::Batch& batch) override {
    read_all_.clear();
    for (const kv::Slot& slot : batch.slots) read_all_.push_back(slot.reads_all);
    return PassingStore::begin(batch);
  }

 private:
  std::vector<bool>& read_all_;
};

// Without this, a policy would choose rows for a prompt on some ranks only.
TEST(RankedStore, TellsTheOtherRanksWhoseTokensReadAllRows) {
  const std::string path = model_path(Arch::kLlama, kernels::DType::kF32);
  const std::vector<Token> text = tokens_of(4, 3, 512);
  const std::span<const Token> tokens = text;
  std::vector<bool> read_all;  // for the last step, on rank 1
  const auto change = [&](unsigned r, std::unique_ptr<kv::Store> store) {
    if (r == 0) return store;
    return std::unique_ptr<kv::Store>(std::make_unique<NotingStore>(std::move(store), read_all));
  };
  Team team(path, 2, "virtual", kF16, change);
  const kv::SeqId prompt = team.store->open({}).seq, answer = team.store->open({}).seq;
  const std::vector<Slot> slots = {
      {.seq = prompt, .past = 0, .tokens = tokens.first(3), .parents = {}, .prompt = true},
      {.seq = answer, .past = 0, .tokens = tokens.subspan(3), .parents = {}}};
  const uint32_t last = 3;
  ASSERT_TRUE(team.executor->advance(*team.store, {.slots = slots}, {&last, 1}).ok());
  EXPECT_EQ(read_all, (std::vector<bool>{true, false}));
}

TEST(RankedStore, MovesNoRowsThatARankCannotMove) {
  const std::string path = model_path(Arch::kLlama, kernels::DType::kF32);
  for (const unsigned failing : {0U, 1U}) {
    const auto change = [=](unsigned r, std::unique_ptr<kv::Store> store) {
      if (r != failing) return store;
      return std::unique_ptr<kv::Store>(std::make_unique<ThrowingStore>(std::move(store)));
    };
    Team team(path, 2, "paged:block=4", kF16, change);
    EXPECT_EQ(team.store->facets().rows, nullptr) << failing;
  }
}

TEST(RankedStore, GivesBackTheSameBlocksOnAllRanksAndKnowsTheirAge) {
  const std::string path = model_path(Arch::kLlama, kernels::DType::kF32);
  const std::vector<Token> text = tokens_of(196, 3, 512);  // 49 blocks; 49 * (1.0 / 49) < 1
  for (const auto& [ranks, split] : std::vector<std::pair<unsigned, RankSplit>>{
           {2, RankSplit::kTensor}, {3, RankSplit::kPipeline}}) {
    SCOPED_TRACE(ranks);
    std::vector<kv::Store*> stores(ranks);
    const auto change = [&](unsigned r, std::unique_ptr<kv::Store> store) {
      stores[r] = store.get();
      return store;
    };
    Team team(path, ranks, "paged:block=4", kF16, change, {}, split);
    // Opening waits for the answers of all ranks, so their stores can be looked at.
    const auto cached_blocks = [&] {
      const kv::SeqId seq = team.store->open({}).seq;
      std::vector<uint64_t> blocks;
      for (const kv::Store* store : stores) {
        const kv::Usage usage = store->usage();
        blocks.push_back(usage.cached_bytes / usage.page_bytes);
      }
      team.store->close(seq);
      return blocks;
    };
    kv::Holdings* const holdings = team.store->facets().holdings;
    ASSERT_NE(holdings, nullptr);
    EXPECT_LT(holdings->idle_seconds(), 0);
    Play(team, text).again(text);
    EXPECT_EQ(cached_blocks(), std::vector<uint64_t>(ranks, 49));
    EXPECT_GE(holdings->idle_seconds(), 0);
    for (const uint64_t left : {48U, 47U}) {
      EXPECT_GT(kv::shrink(*team.store, 1), 0u);
      EXPECT_EQ(cached_blocks(), std::vector<uint64_t>(ranks, left));
    }
  }
}

}  // namespace
}  // namespace kvick::model
