// Rows of several ranks that are written to files and stores or read from them, and their
// checkpoints.

#include <atomic>

#include "make_model/families.h"

#include "kv/strategy/facet_calls.h"
#include "model/parallel/ranked_store.h"
#include "model/parallel/test_passing_store.h"
#include "model/parallel/test_team.h"

namespace kvick::model {
namespace {

constexpr auto kF16 = kernels::DType::kF16;

// Writes a model whose layers have a window of 16 tokens.
std::string windowed_path() {
  base::ThreadPool pool(1);
  tools::Spec spec = *tools::made_family("gemma3");
  spec.layers = 4;
  spec.dim = 256;
  spec.ffn = 512;
  spec.heads = spec.kv_heads = 8;
  spec.type = kernels::DType::kF16;  // gives its file a different name
  return write_model(spec, pool, false);
}

// Rows that have left their windows are evicted first, except those at a checkpoint.
TEST(RankedStore, KeepsCheckpoints) {
  const std::string path = windowed_path();
  std::vector<Token> text = tokens_of(200, 3, 256);
  const std::span<const Token> tokens = text;
  const auto cached = [&](auto& side, bool keeps) {
    kv::Store& store = *side.store;
    const kv::SeqId seq = store.open({}).seq;
    for (uint32_t past = 0; past < 200; past += 20) {
      const Slot slot = {
          .seq = seq, .past = past, .tokens = tokens.subspan(past, 20), .parents = {}};
      const uint32_t last = 19;
      EXPECT_TRUE(side.executor->advance(store, {.slots = {&slot, 1}}, {&last, 1}).ok());
      EXPECT_NE(store.facets().checkpoints, nullptr);
      if (keeps && past == 40) store.facets().checkpoints->keep(seq, 50);
    }
    store.close(seq);
    kv::shrink(store, store.usage().cached_bytes / 5);
    const kv::Opened opened = store.open(tokens.first(51));
    store.close(opened.seq);
    return opened.cached;
  };
  for (const bool keeps : {false, true}) {
    Alone alone(path, "paged:block=4");
    const uint32_t one = cached(alone, keeps);
    EXPECT_EQ(one >= 50, keeps) << one;
    for (const RankSplit split : {RankSplit::kTensor, RankSplit::kPipeline}) {
      Team team(path, 2, "paged:block=4", kF16, {}, {}, split);
      EXPECT_EQ(cached(team, keeps), one);
    }
  }
}

// Asks for more bytes than there are, as a scheduler does that gives back all it can.
TEST(RankedStore, GivesBackAllCachedRowsOfAllRanks) {
  const kv::Store* other = nullptr;  // the store of rank 1
  const auto look = [&](unsigned r, std::unique_ptr<kv::Store> store) {
    if (r == 1) other = store.get();
    return store;
  };
  Team team(model_path(Arch::kLlama, kernels::DType::kF32), 2, "paged:block=4", kF16, look);
  kv::Store& store = *team.store;
  const std::vector<Token> text = tokens_of(40, 3, 512);
  const Slot slot = {.seq = store.open({}).seq, .past = 0, .tokens = text, .parents = {}};
  const uint32_t last = 39;
  ASSERT_TRUE(team.executor->advance(store, {.slots = {&slot, 1}}, {&last, 1}).ok());
  store.close(slot.seq);
  EXPECT_GT(store.usage().cached_bytes, 0u);
  kv::shrink(store, UINT64_MAX);
  const kv::SeqId after = store.open({}).seq;  // rank 1 answers it after it has given back
  EXPECT_EQ(store.usage().cached_bytes, 0u);
  EXPECT_EQ(other->usage().cached_bytes, 0u);
  store.close(after);
}

// Rows as a tier keeps them: they are read, and appended to another sequence, which then continues
// like the first. In a pipeline over equal layers they are the bytes of a single process.
TEST(RankedStore, MovesRowsOfAllRanks) {
  const std::vector<Token> text = tokens_of(60, 3, 256);
  const std::span<const Token> tokens = text;
  struct Moved {
    std::vector<std::byte> rows;
    uint32_t first_of_others = 0;         // first row of a sequence that holds no rows
    std::vector<float> went_on, as_well;  // logits of both sequences
  };
  const auto move = [&](auto& side) {
    Moved moved;
    kv::Store& store = *side.store;
    const auto advance = [&](kv::SeqId seq, uint32_t past, uint32_t count) {
      const Slot slot = {
          .seq = seq, .past = past, .tokens = tokens.subspan(past, count), .parents = {}};
      const uint32_t last = count - 1;
      EXPECT_TRUE(side.executor->advance(store, {.slots = {&slot, 1}}, {&last, 1}).ok());
      const auto logits = side.executor->logits();
      return std::vector<float>(logits.begin(), logits.end());
    };
    kv::RowMover* const mover = store.facets().rows;
    EXPECT_NE(mover, nullptr);
    if (mover == nullptr) return moved;
    const kv::SeqId seq = store.open({}).seq, gone = store.open({}).seq;
    mover->hold_rows(seq, 0);
    advance(seq, 0, 40);
    EXPECT_EQ(mover->first_row(seq), 0u);
    advance(gone, 0, 40);  // its first rows have left the windows
    moved.first_of_others = mover->first_row(gone);
    store.close(gone);
    const kv::SeqId other = store.open({}).seq;
    // In two pieces, as with blocks.
    for (const auto& [first, count] : {std::pair(0U, 33U), std::pair(33U, 7U)}) {
      std::vector<std::byte> rows(count * kv::moved_token_bytes(store));
      mover->read_rows(seq, first, count, rows);
      EXPECT_TRUE(kv::append_rows(store, other, tokens.subspan(first, count), rows).ok());
      moved.rows.insert(moved.rows.end(), rows.begin(), rows.end());
    }
    EXPECT_EQ(store.length(other), 40u);
    moved.went_on = advance(seq, 40, 20);
    moved.as_well = advance(other, 40, 20);
    return moved;
  };
  const std::string plain = model_path(Arch::kLlama, kernels::DType::kF32);
  const std::string windowed = windowed_path();
  for (const auto& [path, spec] :
       {std::pair(plain, "paged:block=4"), std::pair(plain, "bmc"), {windowed, "paged:block=4"}}) {
    Alone alone(path, spec);
    const Moved one = move(alone);
    EXPECT_EQ(one.first_of_others > 0, path == windowed);
    for (const auto& [ranks, split] :
         {std::pair(2U, RankSplit::kTensor), std::pair(3U, RankSplit::kTensor),
          std::pair(3U, RankSplit::kPipeline)}) {
      Team team(path, ranks, spec, kF16, {}, {}, split);
      const Moved all = move(team);
      EXPECT_EQ(all.rows.size(), one.rows.size()) << spec << " " << ranks;
      EXPECT_EQ(all.first_of_others, one.first_of_others) << spec << " " << ranks;
      EXPECT_TRUE(same_bits(all.went_on, all.as_well)) << spec << " " << ranks;
      EXPECT_LT(error_of(all.as_well, one.went_on), 1e-4) << spec << " " << ranks;
      if (split == RankSplit::kPipeline && path == plain) EXPECT_EQ(all.rows, one.rows) << spec;
    }
  }
}

// A store that once has no memory for rows that are read or put.
std::atomic<bool> no_memory = false;
void fail_once() {
  if (no_memory.exchange(false)) throw std::bad_alloc();
}
class FullStep final : public PassingStep, kv::RowSink {
 public:
  using PassingStep::PassingStep;
  kv::StepFacets facets() override { return {.sink = this}; }
  void put(std::span<const std::byte> rows) override {
    fail_once();
    inner_->facets().sink->put(rows);
  }
};
class FullStore final : public PassingStore<FullStep>, kv::RowMover {
 public:
  using PassingStore::PassingStore;
  kv::StoreFacets facets() override { return {.rows = this}; }
  void read_rows(kv::SeqId seq, uint32_t first, uint32_t count,
                 std::span<std::byte> out) const override {
    fail_once();
    inner_->facets().rows->read_rows(seq, first, count, out);
  }
  uint32_t first_row(kv::SeqId seq) const override { return inner_->facets().rows->first_row(seq); }
  void hold_rows(kv::SeqId seq, uint32_t from) override {
    inner_->facets().rows->hold_rows(seq, from);
  }
};

// Whichever rank has no memory for the rows, no rank takes them, and all ranks continue.
TEST(RankedStore, TakesNoRowsThatARankHasNoMemoryFor) {
  const std::string path = model_path(Arch::kLlama, kernels::DType::kF32);
  const std::vector<Token> text = tokens_of(20, 3, 256);
  for (const unsigned failing : {0U, 1U}) {
    const auto change = [=](unsigned r, std::unique_ptr<kv::Store> store) {
      if (r != failing) return store;
      return std::unique_ptr<kv::Store>(std::make_unique<FullStore>(std::move(store)));
    };
    Team team(path, 2, "paged:block=4", kF16, change);
    kv::Store& store = *team.store;
    const kv::SeqId seq = store.open({}).seq, other = store.open({}).seq;
    const Slot slot = {.seq = seq, .past = 0, .tokens = text, .parents = {}};
    const uint32_t last = 19;
    ASSERT_TRUE(team.executor->advance(store, {.slots = {&slot, 1}}, {&last, 1}).ok());
    std::vector<std::byte> rows(20 * kv::moved_token_bytes(store));
    no_memory = true;
    EXPECT_THROW(store.facets().rows->read_rows(seq, 0, 20, rows), std::bad_alloc) << failing;
    store.facets().rows->read_rows(seq, 0, 20, rows);
    no_memory = true;
    EXPECT_THROW((void)kv::append_rows(store, other, text, rows), std::bad_alloc) << failing;
    EXPECT_EQ(store.length(other), 0u);
    ASSERT_TRUE(kv::append_rows(store, other, text, rows).ok());
    EXPECT_EQ(store.length(other), 20u);
    std::vector<std::byte> again(rows.size());
    store.facets().rows->read_rows(other, 0, 20, again);
    EXPECT_EQ(again, rows);
  }
}

}  // namespace
}  // namespace kvick::model
