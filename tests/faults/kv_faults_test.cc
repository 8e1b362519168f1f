// Runs one request on a store of each strategy while any one allocation fails: other sequences are
// unharmed, the memory adds up, and the request's own sequence continues or is lost, as Health
// says.

#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>

#include "allocations.h"

#include "kv/state/state_store.h"
#include "kv/strategy/budget.h"
#include "kv/testing/cases.h"
#include "kv/testing/slots_twin.h"
#include "kv/testing/store_and_twin.h"
#include "kv/tier/tier.h"

namespace kvick::kv::test {
namespace {

constexpr Shape kShape = {.layers = 2, .kv_heads = 2, .head_dim = 6, .max_tokens = 200};
constexpr uint32_t kMostRows = 60;  // rows of a step and the committed rows before it
constexpr uint32_t kMostApart = 8;  // tokens of a step that a policy observes one by one

// Returns each strategy with one pair of types and, if it supports them, with aging rows.
std::vector<Case> fault_cases() {
  using kernels::DType;
  std::vector<Case> all;
  for (const std::string& spec : specs()) {
    const DType type = traits_of(spec).slots ? DType::kF32 : DType::kF16;
    all.push_back({spec, type, type});
    if (traits_of(spec).holds_old) all.push_back({spec, type, type, kAgings[0]});
  }
  return all;
}

// The input of a step, made before allocations fail, so that only the store's own allocations can
// fail.
struct Input {
  Input(const Shape& of, Row first, uint32_t count, std::vector<uint32_t> kept_rows)
      : shape(of), fresh(count), kept({.rows = {std::move(kept_rows)}}) {
    std::iota(fresh.begin(), fresh.end(), first);
    k.resize(shape.layers), v.resize(shape.layers), q.resize(shape.layers);
    for (uint32_t layer = 0; layer < shape.layers; ++layer)
      for (const Row row : fresh)
        for (uint32_t head = 0; head < shape.kv_heads; ++head)
          for (uint32_t i = 0; i < shape.head_dim; ++i) {
            k[layer].push_back(value_of(row, layer, head, false, i));
            v[layer].push_back(value_of(row, layer, head, true, i));
            q[layer].push_back(query_value(row, layer, head, i));
          }
    read = q[0];
  }

  Shape shape;
  Rows fresh;
  Kept kept;
  std::vector<std::vector<float>> k, v, q;  // per layer
  std::vector<float> read, probs = std::vector<float>(kMostApart * kMostRows, 0.25F);
};

void look(Step& step, uint32_t layer, Input& in, base::Arena& scratch) {
  if (SlotReader* const slots = step.facets().slots) {
    slots->read(layer, {.group = 1, .q = in.q[layer].data(), .out = in.read.data(), .paths = {}});
    return;
  }
  kernels::View view;
  for (uint32_t head = 0; head < in.shape.kv_heads; ++head) {
    const Query query = {.slot = 0,
                         .layer = layer,
                         .head = head,
                         .q = in.q[layer].data() + size_t{head} * in.shape.head_dim,
                         .q_stride = in.shape.kv_heads * in.shape.head_dim};
    step.view(query, scratch, view);
    if (Observer* const observer = step.facets().observer)
      observer->observe(query, view, std::span(in.probs).first(probs_of(*observer, layer, view)));
  }
}

// A request that opens a sequence, adds to it, forks it, adds to the fork and closes both. It ends
// at the first call that fails; its members say how far it came.
struct Request {
  explicit Request(const Shape& shape, Row first)
      : steps({{shape, first, 30, Kept::all({{&kThirty, 1}}).rows[0]},
               {shape, first + 30, 1, {0}},
               {shape, first + 31, 4, {0, 2, 3}}}),
        fork_step(shape, first + 35, 1, {0}) {}

  void run(Store& store) try {
    seq = store.open({}).seq;
    for (Input& in : steps) {
      if (!add(store, *seq, in)) return;
      ++committed;
    }
    const auto copy = store.fork(*seq);
    if (!copy.ok()) return;
    forked = *copy;
    fork_committed = add(store, *forked, fork_step);
    done = fork_committed && failure(store, *forked).empty();
  } catch (const std::bad_alloc&) {
  }

  bool add(Store& store, SeqId to, Input& in) {
    const Slot slot = {.seq = to, .fresh = static_cast<uint32_t>(in.fresh.size()), .tokens = {}};
    const auto step = store.begin({{&slot, 1}});
    if (!step.ok()) return false;
    base::Arena scratch;
    for (uint32_t layer = 0; layer < in.shape.layers; ++layer) {
      (*step)->write(layer, in.k[layer].data(), in.v[layer].data());
      look(**step, layer, in, scratch);
    }
    (*step)->commit(in.kept);
    // The step has ended though it is still held, so the store takes calls even if rows are lost.
    if (!failure(store, to).empty()) store.close(store.open({}).seq);
    return true;
  }
  Rows rows() const {  // the rows of seq
    Rows all;
    for (uint32_t i = 0; i < committed; ++i)
      for (const uint32_t row : steps[i].kept.rows[0]) all.push_back(steps[i].fresh[row]);
    return all;
  }

  static constexpr Slot kThirty = {.seq = SeqId{}, .fresh = 30, .tokens = {}};
  std::vector<Input> steps;
  Input fork_step;
  std::optional<SeqId> seq, forked;
  uint32_t committed = 0;  // committed steps of seq
  bool fork_committed = false, done = false;
};

class KvFaults : public testing::TestWithParam<Case> {
 protected:
  KvFaults()
      : shape_(shape_of(GetParam(), kShape)), pair_(GetParam().spec, shape_, UINT64_MAX, budget_) {}
  void SetUp() override {
    if (const std::string why = unavailable(GetParam().spec); !why.empty()) GTEST_SKIP() << why;
    // Other sequences, which share rows if the strategy shares any.
    const SeqId a = pair_.open();
    pair_.add(a, 40);
    pair_.fork(a);
    pair_.next_row = 1000;  // beyond the request's rows
  }

  // Runs a request whose n-th allocation fails (0: none). Returns the allocations that it made.
  uint64_t run(uint64_t n) {
    Request request(shape_, 500);
    faults::fail_nth(n);
    request.run(*pair_.store);
    const uint64_t took = faults::allocations();
    faults::fail_nth(0);
    if (n == 0) {
      EXPECT_TRUE(request.done);
    }
    adopt(request);
    check();
    close(request, n);
    return took;
  }
  // Adds the request's sequences that are not lost to those of the pair.
  void adopt(const Request& request) {
    if (request.seq && failure(*pair_.store, *request.seq).empty())
      pair_.twin[*request.seq] = request.rows();
    if (!request.forked || !failure(*pair_.store, *request.forked).empty()) return;
    Rows& rows = pair_.twin[*request.forked] = request.rows();
    if (request.fork_committed) rows.push_back(request.fork_step.fresh[0]);
  }
  void check() {
    const Usage usage = pair_.store->usage();
    EXPECT_EQ(usage.wasted_bytes, usage.allocated_bytes - usage.used_bytes - usage.cached_bytes);
    EXPECT_EQ(usage.allocated_bytes, budget_->used());
    uint64_t mapped = 0;
    for (const MapEntry& piece : map_of(*pair_.store)) mapped += piece.bytes;
    EXPECT_EQ(usage.allocated_bytes, mapped);
    pair_.expect_contents();
  }
  // Lost sequences take no step, the others take one more. Closing succeeds even if no allocation
  // does.
  void close(const Request& request, uint64_t n) {
    for (const std::optional<SeqId>& seq : {request.seq, request.forked}) {
      if (!seq) continue;
      const bool lost = !failure(*pair_.store, *seq).empty();
      EXPECT_EQ(pair_.begin({{*seq, 1}}) == nullptr, lost) << n;
      if (!lost) pair_.add(*seq, 1);
      pair_.store->close(*seq);
      pair_.twin.erase(*seq);
    }
    EXPECT_EQ(pair_.store->usage().sequences, pair_.twin.size()) << n;
  }

  Shape shape_;
  std::shared_ptr<Budget> budget_ = std::make_shared<Budget>(uint64_t{1} << 40);
  Pair pair_;
};

INSTANTIATE_TEST_SUITE_P(Registry, KvFaults, testing::ValuesIn(fault_cases()), name_of);

TEST_P(KvFaults, AnyAllocationOfARequestMayFailAndOtherSequencesAreUnharmed) {
  run(0);  // until the store's own tables have reached their size
  const uint64_t took = run(0);
  ASSERT_GT(took, 10U);
  const uint64_t stride = kSanitized ? took / 30 + 1 : 1;
  uint64_t failed = 0, least = took;
  for (uint64_t n = 1; n <= took; n += stride) {
    SCOPED_TRACE(fmt::format("allocation {}", n));
    const uint64_t before = faults::failed_allocations();
    const uint64_t made = run(n);
    if (faults::failed_allocations() > before) {
      ++failed;
    } else {
      // Threads of a slower tier make varying numbers of allocations.
      EXPECT_LT(made, n);
      least = std::min(least, made);
    }
    if (HasFailure()) return;
  }
  EXPECT_GE(failed, least / stride * 9 / 10);
  while (!pair_.twin.empty()) pair_.close(pair_.twin.begin()->first);
  shrink(*pair_.store, UINT64_MAX);
  EXPECT_EQ(pair_.store->usage().allocated_bytes, 0U);
  EXPECT_EQ(pair_.store->usage().slow_bytes, 0U);
  EXPECT_EQ(budget_->used(), 0U);
}

TEST_P(KvFaults, AnyAllocationOfACloseMayFailAndEverythingIsGivenBack) {
  check();  // its steps may let the memory grow
  const auto held = [&] {
    const Usage usage = pair_.store->usage();
    return usage.allocated_bytes - usage.cached_bytes;
  };
  const uint64_t before = held();
  bool failed = true;
  for (uint64_t n = 1; failed; ++n) {
    SCOPED_TRACE(fmt::format("allocation {}", n));
    Request request(shape_, 500);
    request.run(*pair_.store);
    ASSERT_TRUE(request.done);
    const uint64_t failures = faults::failed_allocations();
    for (const SeqId seq : {*request.seq, *request.forked}) {
      faults::fail_nth(n);
      EXPECT_NO_THROW(pair_.store->close(seq));
      faults::fail_nth(0);
    }
    failed = faults::failed_allocations() > failures;
    check();
    EXPECT_EQ(held(), before);
    if (HasFailure()) return;
  }
}

TEST(TieredStep, ThatFindsNoMemoryToCommitNeedsItsSequencesNoLonger) {
  const Shape shape = shape_of({"tiered", kernels::DType::kF16, kernels::DType::kF16}, kShape);
  Pair pair("tiered", shape);
  const SeqId first = pair.open();  // the tier's thread then runs
  pair.add(first, 8);
  pair.close(first);
  const SeqId seq = pair.store->open({}).seq;
  const Slot slot = {.seq = seq, .fresh = 60, .tokens = {}};
  const Input in(shape, 500, slot.fresh, Kept::all({{&slot, 1}}).rows[0]);
  auto step = pair.store->begin({{&slot, 1}});
  ASSERT_TRUE(step.ok());
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    (*step)->write(layer, in.k[layer].data(), in.v[layer].data());
  faults::fail_nth(1);  // an allocation of the tier, for more transfers than it has had
  (*step)->commit(in.kept);
  faults::fail_nth(0);
  EXPECT_FALSE(failure(*pair.store, seq).empty());
  pair.store->close(seq);
  const Usage usage = pair.store->usage();
  EXPECT_EQ(usage.slow_bytes, 0U);
  EXPECT_EQ(usage.allocated_bytes, usage.cached_bytes);
}

// Counts the allocations for a sequence's tokens, beside its states, with one token per step.
TEST(StateStore, MovesTheTokensOfASequenceSeldom) {
  constexpr uint32_t kSteps = 256;
  StateStore store({.shape = {.layers = 1, .max_tokens = kSteps, .state_bytes = 64}});
  const Token token = 7;
  const Kept kept = {.rows = {{0}}};
  // Returns the allocations of all steps after the first.
  const auto allocations = [&](std::span<const Token> tokens) {
    const SeqId seq = store.open({}, {}).seq;
    const Slot slot = {.seq = seq, .fresh = 1, .tokens = tokens};
    for (uint32_t i = 0; i < kSteps; ++i) {
      if (i == 1) faults::fail_nth(0);
      const auto step = store.begin({{&slot, 1}});
      EXPECT_TRUE(step.ok());
      (*step)->write(0, nullptr, nullptr);
      (*step)->commit(kept);
    }
    const uint64_t took = faults::allocations();
    store.close(seq);
    return took;
  };
  EXPECT_LE(allocations({&token, 1}), allocations({}) + 10);
}

TEST(TierFaults, NoTransferIsLostForWantOfMemoryToReportIt) {
  for (const char* io : {"uring", "pread"}) {
    const std::string dir = std::filesystem::temp_directory_path().string();
    const Spec spec = parse_spec(fmt::format("file:io={},direct=off,dir={}", io, dir)).value();
    const auto made = make_tier(read_tier(spec).value(), kTierPage);
    if (!made.ok()) continue;  // io_uring may be forbidden
    Tier& tier = **made;
    ASSERT_TRUE(tier.reserve(0, kTierPage).ok());
    alignas(kTierPage) std::byte data[kTierPage] = {};
    const Transfer transfer = {.way = Way::kWrite, .at = 0, .data = data, .tag = 7};
    tier.start({&transfer, 1});
    std::vector<Moved> ended;
    faults::fail_nth(1);
    try {
      tier.finish(60, ended);
    } catch (const std::bad_alloc&) {  // then the transfer is reported the next time
    }
    faults::fail_nth(0);
    if (ended.empty()) tier.finish(60, ended);
    ASSERT_EQ(ended.size(), 1U) << io;
    EXPECT_EQ(ended[0].tag, 7U);
    EXPECT_EQ(ended[0].error, "");
  }
}

// With two kinds of layers, whose stores begin one after the other.
TEST(GroupedFaults, ABeginThatCannotAllocateIsAShortageAndNoChange) {
  const LayerSpec full = {.kv_heads = 2, .k_dim = 8, .v_dim = 8};
  LayerSpec window = full;
  window.window = 8;
  const auto store =
      make_store(parse_spec("paged:block=4").value(),
                 {.shape = {.max_tokens = 200}, .layers = std::vector<LayerSpec>{full, window}})
          .value();
  bool failed = true, begun = false;
  for (uint64_t n = 1; failed; ++n) {
    SCOPED_TRACE(fmt::format("allocation {}", n));
    const SeqId seq = store->open({}).seq;
    const Slot slot = {.seq = seq, .fresh = 30, .tokens = {}};
    const uint64_t before = faults::failed_allocations();
    begun = false;
    bool thrown = false;
    faults::fail_nth(n);
    try {
      begun = store->begin({{&slot, 1}}).ok();
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    faults::fail_nth(0);
    failed = faults::failed_allocations() > before;
    EXPECT_FALSE(thrown);
    EXPECT_EQ(store->length(seq), 0U);
    store->close(seq);
    EXPECT_EQ(store->usage().allocated_bytes, 0U);
  }
  EXPECT_TRUE(begun) << "though all before it have failed";
}

}  // namespace
}  // namespace kvick::kv::test
