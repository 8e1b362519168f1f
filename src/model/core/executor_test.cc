#include "model/core/executor.h"

#include <array>
#include <numeric>

#include "model/core/test_runner.h"

namespace kvick::model {
namespace {

std::vector<uint32_t> every(uint32_t tokens) {
  std::vector<uint32_t> all(tokens);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// A model, a store of some strategy with one sequence, and an executor.
struct Fixture : Runner {
  explicit Fixture(const std::string& spec = "") : Runner(Arch::kLlama, spec) {}
  Slot slot(std::span<const Token> of, std::span<const int32_t> parents = {}) const {
    return {.seq = seq, .past = store->length(seq), .tokens = of, .parents = parents};
  }
  // Returns the logits after these tokens if they came next, computed by hand; drops the step.
  std::vector<float> next(std::span<const Token> of) {
    const Slot one = slot(of);
    const Batch batch = {.slots = {&one, 1}};
    const auto slots = kv_slots(batch);
    const auto step = std::move(store->begin({.slots = slots})).value();
    const auto last = static_cast<uint32_t>(of.size() - 1);
    std::vector<float> logits(model->outputs());
    model->forward(batch, *step, workspace, {&last, 1}, logits.data());
    return logits;
  }

  std::vector<Token> tokens = tokens_of(40, 5, model->config().vocab);
  kv::SeqId seq = store->open({}).seq;
  Workspace workspace{pool, kernels};  // for steps computed by hand
};

// The slow twin: begin, forward and commit by hand.
std::vector<float> by_hand(Fixture& f, const Batch& batch, std::span<const uint32_t> wanted,
                           const kv::Kept* kept) {
  const auto slots = kv_slots(batch);
  const auto step = std::move(f.store->begin({.slots = slots})).value();
  std::vector<float> logits(wanted.size() * f.model->outputs());
  f.model->forward(batch, *step, f.workspace, wanted, logits.data());
  if (kept != nullptr) step->commit(*kept);
  return logits;
}

TEST(Executor, DoesWhatIsDoneByHandOnEveryStrategy) {
  for (const kv::Strategy& strategy : kv::strategies()) {
    if (strategy.traits.slots) continue;  // only models trained with slots run on it
    const std::string name(strategy.name);
    Fixture one(name), twin(name);
    const std::span<const Token> tokens = one.tokens;
    const std::vector<int32_t> tree = {-1, 0, 0, 2};
    // A prompt, then one token, then a tree of which one path is kept, then three tokens of which
    // none is kept.
    const std::vector<std::vector<uint32_t>> keep = {every(20), {0}, {0, 2, 3}, {}};
    size_t at = 0;
    for (size_t i = 0; i < keep.size(); ++i) {
      const uint32_t n = std::array{20U, 1U, 4U, 3U}[i];
      const auto part = tokens.subspan(at, n);
      const Slot slot = one.slot(part, i == 2 ? tree : std::span<const int32_t>());
      const std::vector<uint32_t> wanted = i == 0 ? std::vector{n - 1} : every(n);
      const kv::Kept kept = {.rows = {keep[i]}};
      auto step = one.executor->run(*one.store, {.slots = {&slot, 1}}, wanted);
      ASSERT_TRUE(step.ok()) << step.error().what;
      const auto logits = by_hand(twin, {.slots = {&slot, 1}}, wanted, &kept);
      EXPECT_TRUE(same_bits(one.executor->logits(), logits)) << name << ' ' << i;
      step->commit(kept);
      EXPECT_EQ(one.store->length(one.seq), twin.store->length(twin.seq)) << name << ' ' << i;
      at += n;
    }
    EXPECT_TRUE(same_bits(one.next(tokens.subspan(at, 5)), twin.next(tokens.subspan(at, 5))))
        << name;
  }
}

TEST(Executor, AdvancesByWholeBatchesOfSequences) {
  Fixture one, twin;
  const kv::SeqId other = one.store->open({}).seq;
  ASSERT_EQ(other, twin.store->open({}).seq);
  const std::span<const Token> tokens = one.tokens;
  const Slot slots[] = {
      one.slot(tokens.first(9)),
      {.seq = other, .past = 0, .tokens = tokens.first(3), .parents = {}, .reusable = false}};
  const Batch batch = {.slots = slots};
  const std::vector<uint32_t> wanted = {8, 11};
  ASSERT_TRUE(one.executor->advance(*one.store, batch, wanted).ok());
  const kv::Kept all = {.rows = {every(9), every(3)}};
  EXPECT_TRUE(same_bits(one.executor->logits(), by_hand(twin, batch, wanted, &all)));
  EXPECT_EQ(one.store->length(one.seq), 9u);
  EXPECT_EQ(one.store->length(other), 3u);
}

TEST(Executor, ChangesNothingByAStepThatIsDropped) {
  Fixture f;
  const std::span<const Token> tokens = f.tokens;
  const Slot prompt = f.slot(tokens.first(12));
  ASSERT_TRUE(f.executor->advance(*f.store, {.slots = {&prompt, 1}}, {}).ok());
  const auto before = f.next(tokens.subspan(12, 4));
  const Slot more = f.slot(tokens.subspan(20, 6));
  { ASSERT_TRUE(f.executor->begin(*f.store, {.slots = {&more, 1}}).ok()); }
  { ASSERT_TRUE(f.executor->run(*f.store, {.slots = {&more, 1}}, every(6)).ok()); }
  EXPECT_EQ(f.store->length(f.seq), 12u);
  EXPECT_TRUE(same_bits(f.next(tokens.subspan(12, 4)), before));
}

TEST(Executor, ChangesNothingWhereThereIsNoRoom) {
  Fixture f;
  const uint32_t most = f.store->most_tokens();
  const std::vector<Token> long_text = tokens_of(most + 1, 2, f.model->config().vocab);
  const kv::SeqId other = f.store->open({}).seq;
  const Slot slots[] = {f.slot(f.tokens),
                        {.seq = other, .past = 0, .tokens = long_text, .parents = {}}};
  ASSERT_FALSE(f.executor->begin(*f.store, {.slots = slots}).ok());
  ASSERT_FALSE(f.executor->run(*f.store, {.slots = slots}, {}).ok());
  const auto done = f.executor->advance(*f.store, {.slots = slots}, {});
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().what.find("of a context of"), std::string::npos) << done.error().what;
  EXPECT_EQ(f.store->length(f.seq), 0u);
  EXPECT_EQ(f.store->usage().used_bytes, 0u);
}

// Forwards all calls, and throws in layer 1.
class Failing final : public kv::Step {
 public:
  explicit Failing(kv::Step& inner) : inner_(inner) {}
  void write(uint32_t layer, const float* k, const float* v) override {
    inner_.write(layer, k, v);
    if (layer == 1) throw std::bad_alloc();
  }
  void view(const kv::Query& query, base::Arena& scratch, kernels::View& out) override {
    inner_.view(query, scratch, out);
  }
  void commit(const kv::Kept& kept) override { inner_.commit(kept); }

 private:
  kv::Step& inner_;
};

TEST(Executor, DropsAStepWhoseForwardThrows) {
  Fixture f;
  const std::span<const Token> tokens = f.tokens;
  const Slot prompt = f.slot(tokens.first(12));
  ASSERT_TRUE(f.executor->advance(*f.store, {.slots = {&prompt, 1}}, {}).ok());
  const auto before = f.next(tokens.subspan(12, 4));
  const Slot more = f.slot(tokens.subspan(20, 6));
  auto step = f.executor->begin(*f.store, {.slots = {&more, 1}});
  ASSERT_TRUE(step.ok());
  Failing failing(step->rows());
  EXPECT_THROW(step->forward({}, failing), std::bad_alloc);
  // The step has ended although `step` still exists, so the store takes the next one.
  EXPECT_THROW(step->commit(step->all()), base::Bug);
  EXPECT_THROW(step->forward({}), base::Bug);
  EXPECT_EQ(f.store->length(f.seq), 12u);
  EXPECT_TRUE(same_bits(f.next(tokens.subspan(12, 4)), before));
}

TEST(Executor, EndsAStepByItsCommit) {
  Fixture f;
  const Slot prompt = f.slot(f.tokens);
  auto step = f.executor->run(*f.store, {.slots = {&prompt, 1}}, {});
  ASSERT_TRUE(step.ok());
  ASSERT_EQ(step->all().rows.size(), 1u);
  EXPECT_EQ(step->all().rows[0], every(40));
  step->commit(step->all());
  EXPECT_THROW(step->commit(step->all()), base::Bug);
  EXPECT_THROW(step->rows(), base::Bug);
  EXPECT_EQ(f.store->length(f.seq), 40u);
}

TEST(Executor, KeepsTheMemoryOfItsLogits) {
  Fixture f;
  const Slot prompt = f.slot(f.tokens);
  const Batch batch = {.slots = {&prompt, 1}};
  ASSERT_TRUE(f.executor->run(*f.store, batch, every(40)).ok());
  const float* const first = f.executor->logits().data();
  EXPECT_EQ(f.executor->logits().size(), 40u * f.model->outputs());
  for (const uint32_t wanted : {0U, 1U, 40U}) {
    ASSERT_TRUE(f.executor->run(*f.store, batch, every(wanted)).ok());
    EXPECT_EQ(f.executor->logits().data(), first);
    EXPECT_EQ(f.executor->logits().size(), wanted * f.model->outputs());
  }
}

// Reports its sequences as lost as soon as a step has begun.
class Losing final : public kv::Store, kv::Health {
 public:
  explicit Losing(kv::Store& inner) : Store(inner.info()), inner_(inner) {}
  kv::Opened open(std::span<const Token> prompt, const kv::Owner& owner) override {
    return inner_.open(prompt, owner);
  }
  base::Result<kv::SeqId, kv::Shortage> fork(kv::SeqId seq) override { return inner_.fork(seq); }
  void close(kv::SeqId seq) override { inner_.close(seq); }
  base::Result<std::unique_ptr<kv::Step>, kv::Shortage> begin(const kv::Batch& batch) override {
    lost_ = true;
    return inner_.begin(batch);
  }
  uint32_t length(kv::SeqId seq) const override { return inner_.length(seq); }
  kv::Usage usage() const override { return inner_.usage(); }
  kv::StoreFacets facets() override { return {.health = this}; }
  std::string failure(kv::SeqId) const override { return lost_ ? "the disk is gone" : ""; }
  bool ran_out_of_memory(kv::SeqId) const override { return false; }

 private:
  kv::Store& inner_;
  bool lost_ = false;
};

TEST(Executor, DoesNotAdvanceASequenceThatIsLostMeanwhile) {
  Fixture f;
  Losing losing(*f.store);
  const Slot prompt = f.slot(f.tokens);
  const auto done = f.executor->advance(losing, {.slots = {&prompt, 1}}, {});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().what, "sequence 0: the disk is gone");
  EXPECT_EQ(f.store->length(f.seq), 0u);
}

TEST(Executor, GivesNoPromptTheRowsOfSlotsThatAreNotReusable) {
  for (const bool reusable : {false, true}) {
    Fixture f("paged:block=4");
    Slot prompt = f.slot(f.tokens);
    prompt.reusable = reusable;
    ASSERT_TRUE(f.executor->advance(*f.store, {.slots = {&prompt, 1}}, {}).ok());
    EXPECT_EQ(f.store->open(f.tokens).cached > 0, reusable);
  }
}

}  // namespace
}  // namespace kvick::model
