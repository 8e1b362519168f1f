// Policies over rows in a slower tier choose the same rows as in memory, and read only their bytes.

#include <gtest/gtest.h>
#include <numeric>
#include <random>

#include "kv/registry/policies.h"
#include "kv/select/predictor.h"
#include "kv/select/select_store.h"
#include "kv/testing/policies.h"
#include "kv/testing/store_and_twin.h"
#include "kv/tier/test_tier.h"
#include "kv/tier/tiered.h"

namespace kvick::kv::test {
namespace {

constexpr Shape kShape = {.layers = 3, .kv_heads = 2, .head_dim = 8, .max_tokens = 400};
constexpr uint64_t kRow = 2 * 16;  // a key and a value
constexpr uint32_t kDim = 5;       // of a layer's input

// A predictor that uses the layer's input and the positions.
std::shared_ptr<const Predictor> trained_predictor() {
  auto made = std::make_shared<Predictor>();
  made->shape = {.layers = kShape.layers,
                 .heads = kShape.kv_heads,
                 .kv_heads = kShape.kv_heads,
                 .head_dim = kShape.head_dim,
                 .dim = kDim,
                 .rank = 4,
                 .form = PredictorForm::kTrained};
  made->frequency = {0.5F, 0.01F};
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  made->layers.resize(kShape.layers);
  for (PredictorLayer& layer : made->layers)
    for (std::vector<float>* w : {&layer.q, &layer.k}) {
      w->resize(size_t{kShape.kv_heads} * 4 * kDim);
      for (float& x : *w) x = 4 * normal(random);
    }
  return made;
}

kv::Setup setup_of(const std::string& policy, const std::string& tier) {
  kv::Setup setup = setup_for(policy.empty() ? "virtual" : "virtual " + policy, kShape);
  setup.select.model_dim = kDim;
  if (policy.find("form=trained") != std::string::npos)
    setup.select.predictor = trained_predictor();
  if (!tier.empty()) setup.tier.spec = parse_spec(tier).value();
  return setup;
}

// Decodes two sequences of random rows in one store.
class Decoder {
 public:
  explicit Decoder(std::unique_ptr<Store> store) : store_(std::move(store)) {
    for (SeqId& seq : seqs_) seq = store_->open({}).seq;
  }

  Store& store() { return *store_; }
  SeqId seq(uint32_t slot) const { return seqs_[slot]; }
  std::unique_ptr<Step> begin(uint32_t fresh) {
    slots_.clear();
    for (const SeqId seq : seqs_) slots_.push_back({.seq = seq, .fresh = fresh, .tokens = {}});
    auto step = store_->begin({slots_});
    EXPECT_TRUE(step.ok()) << step.error().what;
    return step.ok() ? std::move(step).value() : nullptr;
  }
  void enter(Step& step, uint32_t layer) {
    if (step.facets().inputs)
      step.facets().inputs->inputs(layer, floats(kDim).data(), step_slots());
  }
  void write(Step& step, uint32_t layer) {
    const size_t n = size_t{kShape.kv_heads} * kShape.head_dim;
    const std::vector<float> k = floats(n), v = floats(n);
    step.write(layer, k.data(), v.data());
  }
  // Records the positions and the bytes of the rows that a layer's views show.
  void view(Step& step, uint32_t layer) {
    const std::vector<float> q = floats(kShape.head_dim);
    for (uint32_t slot = 0; slot < slots_.size(); ++slot)
      for (uint32_t head = 0; head < kShape.kv_heads; ++head) {
        base::Arena scratch;
        kernels::View view;
        step.view({.slot = slot,
                   .layer = layer,
                   .head = head,
                   .q = q.data() + size_t{slot} * slots_[0].fresh * kShape.head_dim,
                   .q_stride = kShape.head_dim},
                  scratch, view);
        read_rows += rows_of(view) - slots_[slot].fresh;
        shown.push_back(positions(view));
        for (const bool is_v : {false, true}) bytes.push_back(gather(view, kShape, is_v));
      }
  }
  void step(uint32_t fresh, const Kept* kept = nullptr) {
    const std::unique_ptr<Step> step = begin(fresh);
    if (step == nullptr) return;
    for (uint32_t layer = 0; layer < kShape.layers; ++layer) {
      enter(*step, layer);
      write(*step, layer);
      view(*step, layer);
    }
    step->commit(kept != nullptr ? *kept : Kept::all({slots_}));
  }
  void fill(uint32_t tokens) {
    for (uint32_t i = 0; i < tokens / 4; ++i) step(4);
  }
  // A prompt, a dropped step, a draft tree with one accepted path, then single tokens.
  void decode(uint32_t prompt, uint32_t tokens) {
    step(prompt);
    for (uint32_t i = 0; i < 10; ++i) step(4);
    begin(3).reset();
    const Kept path = {.rows = {{0, 2, 3}, {1}}};
    step(5, &path);
    for (uint32_t i = 0; i < tokens; ++i) step(1);
  }

  std::vector<Rows> shown;
  std::vector<std::vector<std::byte>> bytes;
  uint64_t read_rows = 0;

 private:
  // Returns the positions of all fresh tokens, as chains.
  std::vector<uint32_t> step_slots() const {
    std::vector<uint32_t> made;
    for (const Slot& slot : slots_)
      for (uint32_t t = 0; t < slot.fresh; ++t) made.push_back(store_->length(slot.seq) + t);
    return made;
  }
  // Returns random floats: [fresh tokens][width].
  std::vector<float> floats(size_t width) {
    size_t tokens = 0;
    for (const Slot& slot : slots_) tokens += slot.fresh;
    std::normal_distribution<float> normal;
    std::vector<float> made(tokens * width);
    for (float& x : made) x = normal(random_);
    return made;
  }

  std::unique_ptr<Store> store_;
  SeqId seqs_[2];
  std::vector<Slot> slots_;
  std::mt19937 random_{7};
};

const char* const kPolicies[] = {"quest:budget=0.25,least=12,page=4,dense_layers=1",
                                 "maple:budget=24,dense_layers=0",
                                 "maple:budget=0.2,least=0,form=trained,type=f16",
                                 "maple:budget=0.2,least=40,form=trained,dense_layers=1"};

void expect_as_in_memory(const std::string& policy, const std::string& tier) {
  SCOPED_TRACE(policy + " " + tier);
  auto fast = make_store({"virtual", {}}, setup_of(policy, ""));
  auto slow = make_store({"tiered", {}}, setup_of(policy, tier));
  ASSERT_TRUE(fast.ok() && slow.ok());
  Decoder in_memory(std::move(fast).value()), in_tier(std::move(slow).value());
  in_memory.decode(34, 40);
  in_tier.decode(34, 40);
  ASSERT_EQ(in_tier.shown, in_memory.shown);
  ASSERT_TRUE(in_tier.bytes == in_memory.bytes);
  ASSERT_EQ(in_tier.store().usage().read_bytes, in_memory.store().usage().read_bytes);
  // Forks share the data kept beside rows, so they must agree too.
  ASSERT_TRUE(in_memory.store().fork(in_memory.seq(0)).ok());
  ASSERT_TRUE(in_tier.store().fork(in_tier.seq(0)).ok());
  in_memory.decode(5, 5);
  in_tier.decode(5, 5);
  ASSERT_EQ(in_tier.shown, in_memory.shown);
  ASSERT_TRUE(in_tier.bytes == in_memory.bytes);
}

TEST(SelectTier, ShowsTheRowsThatAPolicyChoosesInMemory) {
  for (const std::string policy : kPolicies)
    for (const char* tier : {"ram:fast=24KiB,access=copy", "ram:fast=1MiB,access=copy",
                             "ram:fast=48KiB,unit=6,access=copy", "ram:fast=24KiB,unit=8",
                             "ram:fast=1MiB,access=load", "ram:fast=48KiB,unit=6"})
      expect_as_in_memory(policy, tier);
}

// Blocks of 16 and 64 rows fill over many steps, so rows are grouped again that have left the
// frames.
TEST(SelectTier, GroupsRowsAgainThatAreLoaded) {
  for (const char* policy : {"clusters:budget=24,recent=4,cluster=2,block=16",
                             "clusters:budget=0.3,least=12,recent=4,cluster=4,block=64,rest=off,"
                             "dense_layers=1"})
    for (const char* tier :
         {"ram:fast=24KiB,unit=8", "ram:fast=1MiB,access=load", "ram:fast=48KiB,unit=6"})
      expect_as_in_memory(policy, tier);
}

// Rows that are put into new groups are read from the tier, and these reads are counted.
TEST(SelectTier, CountsTheRowsThatAreLoadedToGroupThemAgain) {
  const auto setup =
      setup_of("clusters:budget=24,recent=4,cluster=4,block=64", "ram:fast=16KiB,unit=8");
  Decoder decoder(make_store({"tiered", {}}, setup).value());
  decoder.fill(124);  // two sequences of three full blocks but for four rows
  for (uint32_t i = 0; i < 3; ++i) decoder.step(1);
  const auto read_by_commit = [&] {
    const std::unique_ptr<Step> step = decoder.begin(1);
    for (uint32_t layer = 0; layer < kShape.layers; ++layer) decoder.write(*step, layer);
    const uint64_t before = decoder.store().usage().slow_read_bytes;
    step->commit({.rows = {{0}, {0}}});
    return decoder.store().usage().slow_read_bytes - before;
  };
  // The last row of a block, whose 64 rows become one span; the newest ones may be in frames.
  const uint64_t all = uint64_t{2} * kShape.layers * kShape.kv_heads * 63 * kRow;
  const uint64_t frames = 16 << 10, merges = read_by_commit();
  EXPECT_LE(merges, all);
  EXPECT_GE(merges + frames, all);
  EXPECT_GT(merges, 0U);
  EXPECT_EQ(read_by_commit(), 0U) << "the first row of the next block";
}

// Returns the bytes that a step of one token per sequence reads from the tier.
uint64_t slow_bytes(Decoder& decoder) {
  const uint64_t before = decoder.store().usage().slow_read_bytes;
  decoder.step(1);
  return decoder.store().usage().slow_read_bytes - before;
}

TEST(SelectTier, ReadsChosenRowsFromTheTierAndNoOthersAsThePlannerSays) {
  for (const std::string policy : {"quest:budget=0.25,least=40,page=4,dense_layers=0",
                                   "maple:budget=0.25,least=40,form=trained"}) {
    SCOPED_TRACE(policy);
    // Frames for little more than what one layer reads, so that no row stays until the next token.
    const kv::Setup setup = setup_of(policy, "ram:fast=12KiB,access=copy");
    Decoder decoder(make_store({"tiered", {}}, setup).value());
    decoder.fill(300);
    const uint64_t dense = uint64_t{2} * kShape.layers * kShape.kv_heads * 300 * kRow;
    const uint64_t read = slow_bytes(decoder);
    const Cost cost = cost_of({"tiered", {}}, setup, {.tokens = 301, .sequences = 2}).value();
    // The four rows of the last step may still be in their frames.
    const uint64_t last = uint64_t{2} * kShape.layers * kShape.kv_heads * 4 * kRow;
    EXPECT_LE(read, cost.slow_read_bytes_per_token);
    EXPECT_GE(read + last, cost.slow_read_bytes_per_token);
    EXPECT_LE(read, dense / 4);
    EXPECT_EQ(decoder.store().usage().slow_bytes, cost.slow_bytes);
    EXPECT_EQ(decoder.store().usage().allocated_bytes, cost.fast_bytes);
  }
}

TEST(SelectTier, LoadsTheChosenRowsAloneAsThePlannerSays) {
  for (const std::string policy : kPolicies) {
    SCOPED_TRACE(policy);
    const kv::Setup setup = setup_of(policy, "ram:fast=16KiB,unit=8");
    Decoder decoder(make_store({"tiered", {}}, setup).value());
    decoder.fill(300);
    decoder.read_rows = 0;
    const uint64_t loaded = slow_bytes(decoder);
    const Cost cost = cost_of({"tiered", {}}, setup, {.tokens = 301, .sequences = 2}).value();
    // Of the rows that a view shows, those of the last units are still in frames.
    EXPECT_LE(loaded, decoder.read_rows * kRow);
    EXPECT_GE(loaded + cost.fast_bytes, decoder.read_rows * kRow);
    EXPECT_LE(loaded, cost.slow_read_bytes_per_token);
    EXPECT_GE(loaded + cost.fast_bytes, cost.slow_read_bytes_per_token);
    EXPECT_EQ(decoder.store().usage().slow_bytes, cost.slow_bytes);
  }
}

TEST(SelectTier, ReadsAtMostWhatThePlannerSaysWhereRowsStay) {
  for (const std::string policy : kPolicies)
    for (const char* fast : {"48KiB", "64KiB", "96KiB"}) {
      const kv::Setup setup = setup_of(policy, fmt::format("ram:fast={},access=copy", fast));
      Decoder decoder(make_store({"tiered", {}}, setup).value());
      decoder.fill(300);
      const Cost cost = cost_of({"tiered", {}}, setup, {.tokens = 301, .sequences = 2}).value();
      EXPECT_LE(slow_bytes(decoder), cost.slow_read_bytes_per_token) << policy << fast;
    }
}

TEST(SelectTier, ReadsRowsThatAreForeseenBeforeTheyAreViewed) {
  const kv::Setup setup =
      setup_of("maple:budget=0.25,least=40,form=trained", "ram:fast=24KiB,access=copy");
  Decoder decoder(make_store({"tiered", {}}, setup).value());
  decoder.fill(300);
  const auto read = [&] { return decoder.store().usage().slow_read_bytes; };
  const std::unique_ptr<Step> step = decoder.begin(1);
  ASSERT_NE(step, nullptr);
  for (uint32_t layer = 0; layer < kShape.layers; ++layer) {
    const uint64_t before = read();
    decoder.enter(*step, layer);
    const uint64_t foreseen = read();
    EXPECT_GT(foreseen, before);
    decoder.write(*step, layer);
    decoder.view(*step, layer);
    EXPECT_EQ(read(), foreseen);
  }
}

// Chooses the oldest rows.
class Oldest final : public Selector {
 public:
  using Selector::Selector;
  void choose(const SelectRequest& question, base::Arena& scratch,
              SelectedRows& choice) const override {
    const std::span<uint32_t> rows = scratch.make<uint32_t>(question.top_rows.take);
    std::iota(rows.begin(), rows.end(), question.top_rows.first);
    choice.rows = rows;
  }
  uint64_t choice_bytes(const TopRows&, uint32_t) const override { return 0; }
};

TEST(SelectTier, ATierThatFailsEndsItsSequenceAlone) {
  const kv::Setup setup = setup_of("", "ram:unit=4");
  auto owned = std::make_unique<MadeTier>();
  MadeTier* const tier = owned.get();
  TierOptions options = read_tier(*setup.tier.spec).value();
  options.fast_bytes = 12 << 10;
  options.timeout_s = 5;
  Decoder decoder(make_select_store(setup, options, std::move(owned),
                                    std::make_unique<Oldest>(Selection{.rows = 40, .unit = 4}))
                      .value());
  decoder.fill(100);
  tier->fails = [](const Transfer& transfer) {
    return transfer.way == Way::kRead && transfer.at / kTierPage % 2 == 0;
  };
  const uint32_t before = decoder.store().length(decoder.seq(0));
  const auto failed = [&](uint32_t slot) {
    return !failure(decoder.store(), decoder.seq(slot)).empty();
  };
  for (int i = 0; i < 9 && !failed(0) && !failed(1); ++i) decoder.step(1);
  const bool first = failed(0);
  const SeqId bad = decoder.seq(first ? 0 : 1);
  EXPECT_EQ(failure(decoder.store(), bad), "the disk is broken");
  EXPECT_GE(decoder.store().length(bad), before);
  const Slot slot = {.seq = bad, .fresh = 1, .tokens = {}};
  const auto refused = decoder.store().begin({.slots = {&slot, 1}});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().what.find("the disk is broken"), std::string::npos);
  tier->fails = {};
  decoder.store().close(bad);
  decoder.store().close(decoder.seq(first ? 1 : 0));
  EXPECT_EQ(decoder.store().usage().allocated_bytes, decoder.store().usage().cached_bytes);
  EXPECT_EQ(decoder.store().usage().slow_bytes, 0u);
}

// Has no memory for summaries when the test says so.
class Scarce final : public Selector {
 public:
  Scarce(const Selection& selection, const bool& scarce) : Selector(selection), scarce_(scarce) {}
  SummaryShape summary() const override { return {.rows = 16, .bytes = 16}; }
  void summarise(const RowsOfHead&, uint32_t, uint32_t) const override {
    if (scarce_) throw std::bad_alloc();
  }
  void choose(const SelectRequest&, base::Arena&, SelectedRows&) const override {}
  uint64_t choice_bytes(const TopRows&, uint32_t) const override { return 0; }

 private:
  const bool& scarce_;
};

TEST(SelectTier, SequencesThatACommitHasLostCanBeClosedBeforeTheStepIsGone) {
  const kv::Setup setup = setup_of("", "ram:unit=4,size=16MiB");
  const TierOptions options = read_tier(*setup.tier.spec).value();
  bool scarce = false;
  Decoder decoder(make_select_store(setup, options, make_tier(options, 4 * kRow).value(),
                                    std::make_unique<Scarce>(Selection{.rows = 400}, scarce))
                      .value());
  decoder.fill(20);
  const std::unique_ptr<Step> step = decoder.begin(1);
  ASSERT_NE(step, nullptr);
  for (uint32_t layer = 0; layer < kShape.layers; ++layer) decoder.write(*step, layer);
  scarce = true;
  step->commit({.rows = {{0}, {0}}});
  for (const uint32_t slot : {0U, 1U}) {
    EXPECT_TRUE(ran_out_of_memory(decoder.store(), decoder.seq(slot)));
    EXPECT_EQ(decoder.store().length(decoder.seq(slot)), 20U);
    EXPECT_NO_THROW(decoder.store().close(decoder.seq(slot)));
  }
  EXPECT_EQ(decoder.store().usage().slow_bytes, 0U);
}

TEST(SelectTier, RefusesPoliciesThatHaveNoUseForIt) {
  const auto error = [](const std::string& policy, const char* tier = "ram") {
    return make_store({"tiered", {}}, setup_of(policy, tier)).error().message;
  };
  EXPECT_NE(error("sparq").find("sparq looks at keys of all rows to choose"), std::string::npos);
  EXPECT_NE(error("h2o").find("leave --kv-tier out"), std::string::npos);
  for (const char* copies : {"ram:access=copy", "file:dir=/tmp"})
    EXPECT_NE(error("clusters", copies).find("clusters reads rows again while their block fills"),
              std::string::npos);
  const auto planned =
      cost_of({"tiered", {}}, setup_of("clusters", "ram:access=copy"), {.tokens = 100});
  EXPECT_FALSE(planned.ok());
}

}  // namespace
}  // namespace kvick::kv::test
