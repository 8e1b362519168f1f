// Tests groups of layers with windows, and groups that follow a policy.

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "kv/registry/registry.h"
#include "kv/strategy/facet_calls.h"

namespace kvick::kv::test {
namespace {

constexpr uint32_t kContext = 300;

TEST(GroupedStore, WindowsThatACheckpointNeedsGoLast) {
  const LayerSpec full = {.kv_heads = 1, .k_dim = 32, .v_dim = 32};
  LayerSpec window = full;
  window.window = 8;
  const std::vector<LayerSpec> layers = {full, window};
  const kv::Setup setup = {.shape = {.max_tokens = 1000}, .layers = layers};
  for (const bool keeps : {false, true}) {
    const auto store = make_store(parse_spec("paged:block=4").value(), setup).value();
    const std::vector<float> rows(200 * 32, 1);
    const auto add = [&](SeqId seq, std::span<const Token> tokens) {
      const Slot slot = {
          .seq = seq, .fresh = static_cast<uint32_t>(tokens.size()), .tokens = tokens};
      const auto step = store->begin({{&slot, 1}}).value();
      for (uint32_t layer = 0; layer < 2; ++layer) step->write(layer, rows.data(), rows.data());
      step->commit(Kept::all({{&slot, 1}}));
    };
    std::vector<Token> text(200);
    std::iota(text.begin(), text.end(), 1);
    const SeqId seq = store->open({}).seq;
    add(seq, std::span(text).first(60));
    EXPECT_FALSE(store->facets().checkpoints->only_at_end());
    if (keeps) store->facets().checkpoints->keep(seq, 50);
    for (uint32_t at = 60; at < 200; at += 20) add(seq, std::span(text).subspan(at, 20));
    store->close(seq);
    // Less than the rows of windows that no checkpoint needs.
    shrink(*store, 40 * 64 * 2 * 2);
    std::vector<Token> prompt(text.begin(), text.begin() + 50);
    prompt.push_back(999);
    EXPECT_EQ(store->open(prompt).cached, keeps ? 50u : 0u);
  }
}

TEST(GroupedStore, ASequenceHoldsItsWindowsAndNoMore) {
  for (const char* spec : {"paged:block=4", "bmc:r=16", "iterative", "virtual"}) {
    const LayerSpec window = {.kv_heads = 1, .k_dim = 64, .v_dim = 64, .window = 24};
    const std::vector<LayerSpec> layers = {window,
                                           {.kv_heads = 2, .k_dim = 64, .v_dim = 64, .window = 24}};
    const kv::Setup setup = {.shape = {.max_tokens = 100'000}, .layers = layers};
    const auto store = make_store(parse_spec(spec).value(), setup).value();
    const SeqId seq = store->open({}).seq;
    const std::vector<float> row(128, 1);
    uint64_t most = 0;
    for (int i = 0; i < 2000; ++i) {
      const Token token = i;
      const Slot slot = {.seq = seq, .fresh = 1, .tokens = {&token, 1}};
      const auto step = store->begin({{&slot, 1}}).value();
      for (uint32_t layer = 0; layer < 2; ++layer) step->write(layer, row.data(), row.data());
      step->commit(Kept::all({{&slot, 1}}));
      const Usage usage = store->usage();
      most = std::max(most, usage.allocated_bytes - usage.cached_bytes);
    }
    // virtual: pages of its 2 and 4 regions; per region one page may be partly filled, and one not
    // yet left by the window.
    const uint64_t bound = std::string_view(spec) == "virtual"
                               ? 6 * (24 * 128 + 2 * 4096 + 4096)
                               : (24 + 16 + 1) * store->info().token_bytes();
    EXPECT_LE(most, bound) << spec;
  }
}

TEST(GroupedStore, APolicyIsForTheGroupsThatKeepAllRows) {
  const LayerSpec full = {.kv_heads = 2, .k_dim = 32, .v_dim = 32};
  LayerSpec window = full;
  window.window = 24;
  const auto made = [&](std::vector<LayerSpec> layers) {
    return make_store(parse_spec("paged").value(),
                      {.shape = {.max_tokens = kContext},
                       .layers = std::move(layers),
                       .select = {.spec = parse_spec("quest").value()}});
  };
  const auto mixed = made({full, window});
  ASSERT_TRUE(mixed.ok()) << mixed.error().message;
  const auto windows = made({window, window});
  ASSERT_FALSE(windows.ok());
  EXPECT_EQ(windows.error().message,
            "quest chooses among all keys of a sequence, and no layer of this model keeps them: "
            "leave --kv-select out");
  const auto cost = cost_of(parse_spec("paged").value(),
                            {.shape = {.max_tokens = kContext},
                             .layers = {window, window},
                             .select = {.spec = parse_spec("quest").value()}},
                            {.tokens = 24, .sequences = 1});
  ASSERT_FALSE(cost.ok());
  EXPECT_EQ(cost.error().message, windows.error().message);
  const auto alike = make_store(
      parse_spec("virtual").value(),
      {.shape = {.layers = 2, .kv_heads = 2, .head_dim = 32, .max_tokens = 300, .window = 24},
       .select = {.spec = parse_spec("h2o").value()}});
  ASSERT_FALSE(alike.ok());
  EXPECT_NE(alike.error().message.find("see a window of 24 tokens"), std::string::npos);
  for (const auto& [name, moves] : {std::pair{"virtual", false}, {"bmc", false}, {"paged", true}})
    EXPECT_EQ(
        traits_of(*find_strategy(name), {.layers = 1, .kv_heads = 1, .window = 24}).moves_rows,
        moves)
        << name;
}

TEST(GroupedStore, AsksTheObserverOfALayersOwnGroupWhatItObserves) {
  const LayerSpec full = {.kv_heads = 2, .k_dim = 32, .v_dim = 32};
  LayerSpec window = full;
  window.window = 24;
  const auto store = make_store(parse_spec("virtual").value(),
                                {.shape = {.max_tokens = kContext},
                                 .layers = {window, full},
                                 .select = {.spec = parse_spec("snapkv:window=8").value()}})
                         .value();
  const Slot slot = {.seq = store->open({}).seq, .fresh = 3};
  const auto step = store->begin({{&slot, 1}}).value();
  EXPECT_EQ(step->facets().observer->apart(0), Observer::kQueriesOnly) << "it has none";
  EXPECT_EQ(step->facets().observer->apart(1), 8u);
}

// Layers that see all tokens forget by the policy, the others keep their window, whatever drafts
// are rejected and whatever goes on in a fork.
TEST(GroupedStore, APolicyForgetsInItsOwnGroupWhileWindowsAndForksGoOn) {
  constexpr uint32_t kHeads = 2, kDim = 32, kBudget = 20, kSinks = 2, kWindow = 8;
  const LayerSpec full = {.kv_heads = kHeads, .k_dim = kDim, .v_dim = kDim};
  LayerSpec window = full;
  window.window = kWindow;
  const auto store =
      make_store(parse_spec("virtual").value(),
                 {.shape = {.max_tokens = kContext,
                            .k_type = kernels::DType::kF32,
                            .v_type = kernels::DType::kF32},
                  .layers = {full, window, full},
                  .select = {.spec = parse_spec("streaming:budget=20,sinks=2").value()}})
          .value();
  std::map<SeqId, std::vector<uint32_t>> twin;  // numbers of committed rows
  uint32_t next = 1;
  // Returns the numbers of the committed rows that a view shows: each element of a row is its
  // number.
  const auto shown_in = [](const kernels::View& view) {
    std::vector<uint32_t> shown;
    for (const kernels::Segment& segment : view.past)
      for (const kernels::Run& run : segment.runs)
        for (uint32_t i = 0; i < run.rows; ++i) {
          float number = 0;
          std::memcpy(&number, segment.v + size_t{run.row + i} * segment.v_stride, sizeof number);
          shown.push_back(static_cast<uint32_t>(number));
        }
    std::sort(shown.begin(), shown.end());
    return shown;
  };
  const auto add = [&](SeqId seq, uint32_t fresh, const std::vector<uint32_t>& kept) {
    std::vector<uint32_t>& rows = twin[seq];
    const uint32_t first = std::exchange(next, next + fresh);
    std::vector<float> floats;
    for (uint32_t i = 0; i < fresh; ++i)
      floats.insert(floats.end(), kHeads * kDim, static_cast<float>(first + i));
    const Slot slot = {.seq = seq, .fresh = fresh, .tokens = {}};
    const auto step = store->begin({{&slot, 1}}).value();
    for (uint32_t layer = 0; layer < 3; ++layer) {
      step->write(layer, floats.data(), floats.data());
      std::vector<uint32_t> expected = rows;
      const auto size = static_cast<uint32_t>(rows.size());
      if (layer == 1)
        expected.erase(expected.begin(), expected.end() - std::min(size, kWindow - 1));
      else if (size > kBudget)
        expected.erase(expected.begin() + kSinks, expected.end() - (kBudget - kSinks));
      for (uint32_t head = 0; head < kHeads; ++head) {
        base::Arena scratch;
        kernels::View view;
        step->view({.layer = layer, .head = head}, scratch, view);
        EXPECT_EQ(shown_in(view), expected) << size << " rows, layer " << layer;
        EXPECT_EQ(kernels::rows_of(view.fresh), fresh);
      }
    }
    step->commit({.rows = {kept}});
    for (const uint32_t row : kept) rows.push_back(first + row);
    EXPECT_EQ(store->length(seq), rows.size());
  };
  const SeqId one = store->open({}).seq;
  std::vector<uint32_t> all(30);
  std::iota(all.begin(), all.end(), 0);
  add(one, 30, all);
  add(one, 4, {0, 2});
  add(one, 30, {});
  const SeqId other = store->fork(one).value();
  twin[other] = twin[one];
  for (uint32_t i = 0; i < 12; ++i) {
    add(one, 1, {0});
    add(other, 3, {0, 1});
  }
  store->close(one);
  add(other, 5, {0, 1, 2, 3, 4});
  add(other, 1, {0});
}

// Schedulers with several stores evict by this age.
TEST(GroupedStore, KnowsTheAgeOfItsCachedRows) {
  static double seconds = 0;
  const LayerSpec full = {.kv_heads = 1, .k_dim = 32, .v_dim = 32};
  const LayerSpec state = {.keeps = LayerSpec::Keeps::kState, .state_bytes = 24};
  const auto store = make_store(parse_spec("paged:block=4").value(),
                                {.shape = {.max_tokens = kContext},
                                 .layers = {full, state},
                                 .sharing = {.clock = [] { return seconds; }}})
                         .value();
  const Holdings* const holdings = store->facets().holdings;
  ASSERT_NE(holdings, nullptr);
  const std::vector<Token> tokens = {1, 2, 3, 4};
  const std::vector<float> rows(tokens.size() * 32, 1);
  const Slot slot = {.seq = store->open(tokens).seq, .fresh = 4, .tokens = tokens};
  auto step = store->begin({{&slot, 1}}).value();
  step->write(0, rows.data(), rows.data());
  step->write(1, nullptr, nullptr);
  step->commit(Kept::all({{&slot, 1}}));
  step.reset();
  EXPECT_LT(holdings->idle_seconds(), 0) << "nothing is cached yet";
  store->close(slot.seq);
  ASSERT_GT(store->usage().cached_bytes, 0U);
  seconds += 5;
  EXPECT_EQ(holdings->idle_seconds(), 5);
}

TEST(GroupedStore, RefusesCallsOnItsSequencesWhileAStepIsAlive) {
  const LayerSpec full = {.kv_heads = 1, .k_dim = 32, .v_dim = 32};
  LayerSpec window = full;
  window.window = 8;
  const LayerSpec state = {.keeps = LayerSpec::Keeps::kState, .state_bytes = 24};
  const std::vector<float> row(32, 1);
  for (const char* spec : {"paged:block=4", "bmc:r=16"}) {
    SCOPED_TRACE(spec);
    const bool moves = std::string_view(spec) != "bmc:r=16";
    const std::vector<LayerSpec> layers =
        moves ? std::vector{full, window, state} : std::vector{full, window};
    const auto store =
        make_store(parse_spec(spec).value(), {.shape = {.max_tokens = kContext}, .layers = layers})
            .value();
    const StoreFacets facets = store->facets();
    ASSERT_EQ(facets.rows != nullptr, moves);
    ASSERT_EQ(facets.checkpoints != nullptr, moves);
    ASSERT_EQ(facets.buckets != nullptr, !moves);
    const Token token = 3;
    const Slot slot = {.seq = store->open({}).seq, .fresh = 1, .tokens = {&token, 1}};
    auto step = store->begin({{&slot, 1}}).value();
    for (uint32_t layer = 0; layer < layers.size(); ++layer) {
      const bool rows = layers[layer].keeps == LayerSpec::Keeps::kRows;
      step->write(layer, rows ? row.data() : nullptr, rows ? row.data() : nullptr);
    }
    step->commit(Kept::all({{&slot, 1}}));
    step = store->begin({{&slot, 1}}).value();
    std::vector<std::byte> bytes(store->info().token_bytes());
    if (moves) {
      std::vector<std::byte> states(facets.checkpoints->state_bytes());
      EXPECT_THROW((void)facets.rows->first_row(slot.seq), base::Bug);
      EXPECT_THROW(facets.rows->hold_rows(slot.seq, 0), base::Bug);
      EXPECT_THROW(facets.rows->read_rows(slot.seq, 0, 1, bytes), base::Bug);
      EXPECT_THROW(facets.checkpoints->keep(slot.seq, 1), base::Bug);
      EXPECT_THROW(facets.checkpoints->read_state(slot.seq, states), base::Bug);
      EXPECT_THROW(facets.checkpoints->put_state(slot.seq, states), base::Bug);
    } else {
      EXPECT_THROW((void)facets.buckets->spare_rows(slot.seq), base::Bug);
    }
    step.reset();
    if (moves) {
      EXPECT_EQ(facets.rows->first_row(slot.seq), 0u);
      EXPECT_NO_THROW(facets.rows->hold_rows(slot.seq, 0));
      EXPECT_NO_THROW(facets.rows->read_rows(slot.seq, 0, 1, bytes));
    } else {
      EXPECT_GE(facets.buckets->spare_rows(slot.seq), 1u);
    }
  }
}

// For prefix files: rows are offered in whole blocks, and a window may be smaller than a block.
TEST(GroupedStore, HoldsRowsThatLeaveAWindowUntilTheyWereRead) {
  constexpr uint32_t kWindow = 12, kBlock = 64;
  LayerSpec full = {.kv_heads = 2, .k_dim = 32, .v_dim = 32}, window = full;
  window.window = kWindow;
  const auto made = [&] {
    return make_store(parse_spec("paged:block=4").value(),
                      {.shape = {.max_tokens = kContext}, .layers = {full, window}})
        .value();
  };
  const std::unique_ptr<Store> from = made(), to = made();
  RowMover& mover = *from->facets().rows;
  const SeqId seq = from->open({}).seq;
  mover.hold_rows(seq, 0);
  std::vector<float> row(64);
  std::vector<Token> tokens;
  const auto add = [&](Store& store, SeqId id, Token token) {
    const Slot slot = {.seq = id, .fresh = 1, .tokens = {&token, 1}};
    const auto step = store.begin({{&slot, 1}}).value();
    for (float& value : row) value = static_cast<float>(token % 97);
    for (uint32_t layer = 0; layer < 2; ++layer) step->write(layer, row.data(), row.data());
    step->commit(Kept::all({{&slot, 1}}));
  };
  std::vector<std::byte> rows(kBlock * from->info().token_bytes());
  const SeqId copy = to->open({}).seq;
  for (Token token = 0; token < 3 * Token{kBlock}; ++token) {
    add(*from, seq, token);
    tokens.push_back(token);
    if (tokens.size() < kBlock) continue;
    const uint32_t first = from->length(seq) - kBlock;
    EXPECT_LE(mover.first_row(seq), first);
    mover.read_rows(seq, first, kBlock, rows);
    ASSERT_TRUE(append_rows(*to, copy, tokens, rows).ok());
    mover.hold_rows(seq, first + kBlock);
    tokens.clear();
  }
  mover.hold_rows(seq, UINT32_MAX);
  add(*from, seq, 5);
  add(*to, copy, 5);
  EXPECT_EQ(mover.first_row(seq), (3 * kBlock + 2 - kWindow) / 4 * 4);
  EXPECT_EQ(to->facets().rows->first_row(copy), mover.first_row(seq));
  const uint32_t left = from->length(seq) - mover.first_row(seq);
  std::vector<std::byte> a(left * from->info().token_bytes()), b(a.size());
  mover.read_rows(seq, mover.first_row(seq), left, a);
  to->facets().rows->read_rows(copy, mover.first_row(seq), left, b);
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace kvick::kv::test
