// States that a store keeps as bfloat16: compared with float32 states that are rounded after each
// step, and with themselves after drafts, forks and moves.

#include "model/states/state_type.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

#include "make_model/families.h"

#include "kv/strategy/facet_calls.h"
#include "model/core/test_runner.h"

namespace kvick::model {
namespace {

using kernels::DType;

constexpr const char* kStrategy = "paged:block=4";

class StatesOfBf16 : public testing::TestWithParam<const char*> {
 protected:
  kv::Setup setup(DType states) const {
    kv::Setup setup = {.shape = {.max_tokens = 128, .k_type = DType::kF32, .v_type = DType::kF32}};
    set_layers(model_->config(), setup);
    set_state_type(states, setup);
    setup.compute.store_row = kernels_.store_row;
    setup.compute.store_group = kernels_.store_group;
    setup.compute.kernels = &kernels_;
    return setup;
  }
  std::unique_ptr<kv::Store> store(DType states) const {
    return std::move(kv::make_store(*kv::parse_spec(kStrategy), setup(states))).value();
  }
  std::vector<Token> tokens(uint32_t count, uint32_t seed) const {
    return tokens_of(count, seed, spec_.vocab);
  }
  // Returns the logits of every token. kept: rows to keep; null: the step is dropped.
  std::vector<float> step(kv::Store& store, const Slot& slot, const kv::Kept* kept) {
    std::vector<uint32_t> wanted(slot.tokens.size());
    std::iota(wanted.begin(), wanted.end(), 0U);
    auto step = executor_.run(store, {.slots = {&slot, 1}}, wanted).value();
    if (kept != nullptr) step.commit(*kept);
    return {executor_.logits().begin(), executor_.logits().end()};
  }
  std::vector<float> add(kv::Store& store, kv::SeqId seq, std::span<const Token> tokens) {
    const Slot slot = {.seq = seq, .past = store.length(seq), .tokens = tokens, .parents = {}};
    kv::Kept all = {.rows = {std::vector<uint32_t>(tokens.size())}};
    std::iota(all.rows[0].begin(), all.rows[0].end(), 0U);
    return step(store, slot, &all);
  }
  std::span<const float> rows(const std::vector<float>& logits, size_t first, size_t count) const {
    return std::span(logits).subspan(first * spec_.vocab, count * spec_.vocab);
  }

  base::ThreadPool pool_{2};
  const kernels::Table& kernels_ = kernels::table(base::best_isa());
  const tools::Spec spec_ = *tools::checked(*tools::made_family(GetParam()));
  const std::unique_ptr<Model> model_ =
      load_model(write_model(spec_, pool_, false), pool_, kernels_);
  Executor executor_{*model_, Workspace(pool_, kernels_)};
};
INSTANTIATE_TEST_SUITE_P(Families, StatesOfBf16,
                         testing::Values("lfm2", "granitehybrid", "falcon-h1", "mamba2",
                                         "qwen3next"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// Copies a sequence of these tokens to another store, or to the same one, as a tier does.
// round: rounds its states, which are float32.
kv::SeqId moved(kv::Store& from, kv::SeqId seq, kv::Store& to, std::span<const Token> tokens,
                bool round) {
  const kv::StoreFacets facets = from.facets();
  std::vector<std::byte> rows(tokens.size() * kv::moved_token_bytes(from));
  std::vector<std::byte> states(facets.checkpoints->state_bytes());
  facets.rows->read_rows(seq, 0, static_cast<uint32_t>(tokens.size()), rows);
  facets.checkpoints->read_state(seq, states);
  for (size_t i = 0; round && i < states.size(); i += sizeof(float)) {
    float state;
    std::memcpy(&state, &states[i], sizeof(state));
    state = kernels::bf16_to_f32(kernels::f32_to_bf16(state));
    std::memcpy(&states[i], &state, sizeof(state));
  }
  const kv::SeqId copy = to.open({}).seq;
  EXPECT_TRUE(kv::append_rows(to, copy, tokens, rows).ok());
  to.facets().checkpoints->put_state(copy, states);
  return copy;
}

TEST_P(StatesOfBf16, AreStatesOfFloat32ThatAreRoundedAfterEachStep) {
  const std::vector<Token> text = tokens(33, 3);
  const auto half = store(DType::kBF16), exact = store(DType::kF32), plain = store(DType::kF32);
  const kv::SeqId seq = half->open({}).seq, unrounded = plain->open({}).seq;
  kv::SeqId twin = exact->open({}).seq;
  std::vector<float> last, last_unrounded;
  size_t past = 0;
  for (const size_t n : {9, 1, 1, 14, 1, 1, 6}) {
    const std::span<const Token> some = std::span(text).subspan(past, n);
    last = add(*half, seq, some);
    EXPECT_TRUE(same_bits(last, add(*exact, twin, some))) << "at token " << past;
    last_unrounded = add(*plain, unrounded, some);
    past += n;
    const kv::SeqId next = moved(*exact, twin, *exact, std::span(text).first(past), true);
    exact->close(twin);
    twin = next;
  }
  EXPECT_FALSE(same_bits(last, last_unrounded)) << "nothing was rounded";
}

TEST_P(StatesOfBf16, AfterDraftTokensAreThoseOfSingleSteps) {
  const std::vector<Token> text = tokens(13, 5);
  const auto plain = store(DType::kBF16), drafting = store(DType::kBF16);
  const kv::SeqId alone = plain->open({}).seq, seq = drafting->open({}).seq;
  add(*plain, alone, std::span(text).first(8));
  std::vector<float> expected;
  for (size_t i = 8; i < text.size(); ++i) {
    const std::vector<float> one = add(*plain, alone, std::span(text).subspan(i, 1));
    expected.insert(expected.end(), one.begin(), one.end());
  }
  add(*drafting, seq, std::span(text).first(8));
  // Two wrong tokens beside the right ones, each after its parent.
  const std::vector<Token> drafts = {9, text[8], 8, text[9], text[10]};
  const std::vector<int32_t> parents = {-1, -1, 1, 1, 3};
  const Slot slot = {.seq = seq, .past = 8, .tokens = drafts, .parents = parents};
  const kv::Kept path = {.rows = {{1, 3, 4}}};
  const std::vector<float> logits = step(*drafting, slot, &path);
  EXPECT_TRUE(same_bits(rows(logits, 1, 1), rows(expected, 0, 1)));
  EXPECT_TRUE(same_bits(rows(logits, 3, 2), rows(expected, 1, 2)));
  for (size_t i = 11; i < text.size(); ++i)
    EXPECT_TRUE(
        same_bits(add(*drafting, seq, std::span(text).subspan(i, 1)), rows(expected, i - 8, 1)))
        << i;
}

TEST_P(StatesOfBf16, OfABatchAreThoseOfEachSequenceAlone) {
  const auto together = store(DType::kBF16), alone = store(DType::kBF16);
  const std::vector<std::vector<Token>> texts = {tokens(11, 20), tokens(7, 21), tokens(15, 22)};
  std::vector<Slot> slots;
  std::vector<float> expected;
  for (const std::vector<Token>& text : texts) {
    const kv::SeqId single = alone->open({}).seq, seq = together->open({}).seq;
    add(*alone, single, std::span(text).first(6));
    add(*together, seq, std::span(text).first(6));
    const std::vector<float> rest = add(*alone, single, std::span(text).subspan(6));
    expected.insert(expected.end(), rest.begin(), rest.end());
    slots.push_back({.seq = seq, .past = 6, .tokens = std::span(text).subspan(6), .parents = {}});
  }
  const Batch batch = {.slots = slots};
  std::vector<uint32_t> wanted(batch.tokens());
  std::iota(wanted.begin(), wanted.end(), 0U);
  const auto step = executor_.run(*together, batch, wanted);
  ASSERT_TRUE(step.ok()) << step.error().what;
  EXPECT_TRUE(same_bits(executor_.logits(), expected));
}

TEST_P(StatesOfBf16, GoOnFromForksCheckpointsAndCopies) {
  const std::vector<Token> text = tokens(24, 9), wrong = {1, 2, 3};
  const std::span<const Token> begin = std::span(text).first(16), end = std::span(text).last(8);
  const auto plain = store(DType::kBF16), some = store(DType::kBF16), other = store(DType::kBF16);
  const kv::SeqId whole = plain->open({}).seq;
  add(*plain, whole, begin);
  const std::vector<float> expected = add(*plain, whole, end);
  const kv::SeqId seq = some->open({}).seq;
  add(*some, seq, begin);
  // Neither a dropped step nor a fork with other tokens may leave a trace.
  step(*some, {.seq = seq, .past = 16, .tokens = wrong, .parents = {}}, nullptr);
  const kv::SeqId fork = some->fork(seq).value(), another = some->fork(seq).value();
  add(*some, another, wrong);
  EXPECT_TRUE(same_bits(add(*some, fork, end), expected));
  const kv::SeqId copy = moved(*some, seq, *other, begin, false);
  EXPECT_TRUE(same_bits(add(*other, copy, end), expected));
  some->close(seq);
  const kv::Opened again = some->open(text);
  ASSERT_EQ(again.cached, 16u);
  EXPECT_TRUE(same_bits(add(*some, again.seq, end), expected));
}

TEST_P(StatesOfBf16, TakeHalfTheMemory) {
  uint64_t floats = 0;
  for (const LayerConfig& layer : model_->config().layers)
    if (layer.kind == LayerConfig::Kind::kState) floats += layer.state.floats();
  const auto exact = store(DType::kF32), half = store(DType::kBF16);
  EXPECT_EQ(exact->facets().checkpoints->state_bytes(), 4 * floats);
  EXPECT_EQ(half->facets().checkpoints->state_bytes(), 2 * floats);
  for (kv::Store* const one : {exact.get(), half.get()}) add(*one, one->open({}).seq, tokens(5, 1));
  EXPECT_EQ(exact->usage().used_bytes - half->usage().used_bytes, 2 * floats);
  EXPECT_EQ(half->usage().used_bytes, half->info().used_bytes(5));
  // A step has two states per sequence.
  const auto planned = [&](DType states) {
    return kv::cost_of(*kv::parse_spec(kStrategy), setup(states), {.tokens = 20, .sequences = 3})
        ->fast_bytes;
  };
  EXPECT_EQ(planned(DType::kF32) - planned(DType::kBF16), 3 * 2 * 2 * floats);
}

}  // namespace
}  // namespace kvick::model
