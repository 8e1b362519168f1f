// Tests rows whose type changes with age. conformance_test and random_test test what all stores
// have in common.

#include "kv/aging/aged.h"

#include <gtest/gtest.h>

#include "kv/testing/cases.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

constexpr Shape kShape = {
    .layers = 2,
    .kv_heads = 2,
    .head_dim = 32,
    .max_tokens = 300,
    .aging = Aging{.k_type = kernels::DType::kQ8, .v_type = kernels::DType::kQ4, .window = 64}};

// Returns the committed rows of a sequence as bytes; it must have room for one more row.
std::vector<std::byte> committed(Pair& p, SeqId seq) {
  const uint32_t old = p.shape.aging->old_rows(p.store->length(seq));
  auto step = p.begin({{seq, 1}});
  write_all(*step, p.shape, p.fresh);
  base::Arena scratch;
  kernels::View view;
  std::vector<std::byte> bytes;
  for (const uint32_t layer : {0u, 1u})
    for (const uint32_t head : {0u, 1u}) {
      step->view({.slot = 0, .layer = layer, .head = head}, scratch, view);
      EXPECT_EQ(old > 0 ? rows_of(view.past[0]) : 0, old);
      for (const kernels::Segment& segment : view.past)
        for (const bool is_v : {false, true}) append(segment, is_v, p.shape.head_dim, bytes);
    }
  return bytes;
}

TEST(Aging, WholeGroupsBeyondTheWindowAreOld) {
  constexpr Aging kAging = {.window = 64};
  for (const auto& [tokens, old] : std::initializer_list<std::pair<uint32_t, uint32_t>>{
           {0, 0}, {64, 0}, {95, 0}, {96, 32}, {127, 32}, {128, 64}, {1000, 928}})
    EXPECT_EQ(kAging.old_rows(tokens), old) << tokens;
  EXPECT_EQ(Aging{.window = 0}.old_rows(31), 0u);
  EXPECT_EQ(Aging{.window = 0}.old_rows(32), 32u);
  EXPECT_EQ(Aging{.window = 0}.old_rows(UINT32_MAX), UINT32_MAX - 31);
}

TEST(AgedStore, RowsAreNotMoved) {
  Pair p("virtual", kShape);
  EXPECT_FALSE(traits_of(*find_strategy("virtual"), kShape).moves_rows);
  EXPECT_EQ(p.store->facets().rows, nullptr);
}

TEST(AgedStore, RowsThatAreOldFollowFromTheNumberOfTokensAlone) {
  std::vector<std::byte> expected;
  for (const std::vector<uint32_t>& steps : std::vector<std::vector<uint32_t>>{
           {200}, {96, 104}, {1, 95, 1, 31, 40, 32}, {64, 32, 32, 72}}) {
    Pair p("virtual", kShape);
    const SeqId a = p.open();
    for (const uint32_t rows : steps) p.add(a, rows);
    const auto bytes = committed(p, a);
    if (expected.empty()) expected = bytes;
    EXPECT_TRUE(bytes == expected);
  }
}

TEST(AgedStore, ARowOnceOldNeverChangesItsBytes) {
  for (const char* spec : {"virtual", "iterative", "paged:block=7"}) {
    Pair p(spec, kShape);
    const SeqId a = p.open();
    std::vector<std::byte> old;  // keys of layer 0, head 0
    for (uint32_t i = 0; i < 70; ++i) {
      p.add(a, 1 + i % 6);
      auto step = p.begin({{a, 2}});
      write_all(*step, p.shape, p.fresh);
      base::Arena scratch;
      kernels::View view;
      step->view({.slot = 0, .layer = 0, .head = 0}, scratch, view);
      std::vector<std::byte> now;
      if (p.shape.aging->old_rows(p.store->length(a)) > 0) append(view.past[0], false, 32, now);
      ASSERT_GE(now.size(), old.size());
      EXPECT_TRUE(std::equal(old.begin(), old.end(), now.begin())) << spec << " " << i;
      old = now;
    }
    EXPECT_EQ(old.size(), 160 * kShape.of_old_rows().row_bytes(false));
  }
}

// A layer's window begins anywhere, but the kernels read keys with one scale per channel in groups.
TEST(AgedStore, ShowsWholeGroupsAlsoWhereAWindowBeginsWithinOne) {
  for (const uint32_t recent : {0u, 32u})
    for (const char* spec : {"virtual", "bmc:r=7", "paged:block=16"}) {
      SCOPED_TRACE(spec);
      Shape shape = kShape;
      shape.window = 70;
      shape.aging = {
          .k_type = kernels::DType::kKivi4K, .v_type = kernels::DType::kKivi4V, .window = recent};
      Pair p(spec, shape);
      const SeqId a = p.open();
      bool within = false;
      for (uint32_t i = 0; i < 70; ++i) {
        p.add(a, 1 + i % 6);
        const uint32_t length = p.store->length(a), first = shape.first_seen(length);
        auto step = p.begin({{a, 1}});
        write_all(*step, p.shape, p.fresh);
        if (shape.aging->old_rows(length) <= first) continue;
        base::Arena scratch;
        kernels::View view;
        step->view({.slot = 0, .layer = 1, .head = 1}, scratch, view);
        EXPECT_EQ(view.past[0].runs[0].pos, first / 32 * 32) << length;
        EXPECT_EQ(rows_of(view.past[0]), shape.aging->old_rows(length) - first / 32 * 32) << length;
        within = within || first % 32 != 0;
      }
      EXPECT_TRUE(within);
    }
}

TEST(AgedStore, ADroppedStepMakesNothingOld) {
  Pair p("paged", kShape);
  const SeqId a = p.open();
  p.add(a, 95);
  const auto before = committed(p, a);
  const Usage usage = p.store->usage();
  {
    auto step = p.begin({{a, 100}});
    write_all(*step, p.shape, p.fresh);
    EXPECT_GT(p.store->usage().allocated_bytes, usage.allocated_bytes);
  }
  EXPECT_TRUE(committed(p, a) == before);
  EXPECT_EQ(p.store->usage().used_bytes, usage.used_bytes);
}

TEST(AgedStore, TheRoomOfALongStepIsGivenBackAtItsEnd) {
  Pair p("virtual", kShape);
  const SeqId a = p.open();
  auto step = p.begin({{a, 250}});
  write_all(*step, p.shape, p.fresh);
  p.commit(*step, Kept::all({p.slots}));
  // 192 rows are old, each region of them in whole pages; the buffer of recent rows holds 96.
  const uint64_t regions = 2 * 2 * 2, page = base::page_bytes();
  EXPECT_EQ(p.store->usage().allocated_bytes,
            96 * kShape.token_bytes() + regions / 2 * ((192 * 34 + page - 1) / page * page) +
                regions / 2 * ((192 * 18 + page - 1) / page * page));
}

TEST(AgedStore, AForkOverBlocksCopiesTheRecentRowsAlone) {
  Pair p("paged", kShape);
  const SeqId a = p.open();
  p.add(a, 200);
  const Usage before = p.store->usage();
  const SeqId b = p.store->fork(a).value();
  p.twin[b] = p.twin[a];
  const Usage after = p.store->usage();
  EXPECT_EQ(after.allocated_bytes - before.allocated_bytes, 96 * kShape.token_bytes());
  EXPECT_EQ(after.copied_bytes - before.copied_bytes, (200 - 128) * kShape.token_bytes());
  EXPECT_EQ(after.shared_bytes, 128 * kShape.of_old_rows().token_bytes());
  p.add(b, 40);
  p.add(a, 3);
  p.expect_contents();
}

TEST(AgedStore, AForkPastTheCapIsAShortageAndChangesNothing) {
  const uint64_t one = cost_of({"paged", {}}, {.shape = kShape}, {200, 1})->fast_bytes;
  const uint64_t prompt = 200 * kShape.token_bytes();
  Pair p("paged", kShape, one + prompt);
  const SeqId a = p.open();
  p.add(a, 200);
  ASSERT_TRUE(p.store->fork(a).ok());
  const Usage before = p.store->usage();
  while (true) {
    const Usage now = p.store->usage();
    const auto fork = p.store->fork(a);
    if (fork.ok()) continue;
    EXPECT_NE(fork.error().what.find("fork of sequence 0"), std::string::npos);
    EXPECT_EQ(p.store->usage(), now);
    break;
  }
  EXPECT_GT(p.store->usage().allocated_bytes, before.allocated_bytes);
}

TEST(AgedStore, PromptsThatBeginAlikeComputeTheirOwnRows) {
  Pair p("paged", kShape);
  const std::vector<Token> tokens(200, 7);
  const SeqId a = p.store->open(tokens).seq;
  const Slot slot = {.seq = a, .fresh = 200, .tokens = tokens};
  p.twin[a];
  auto step = p.begin({slot});
  write_all(*step, p.shape, p.fresh);
  p.commit(*step, Kept::all({p.slots}));
  EXPECT_EQ(p.store->open(tokens).cached, 0u);
  p.store->close(a);
  EXPECT_EQ(p.store->open(tokens).cached, 0u);
  EXPECT_EQ(p.store->usage().allocated_bytes, 0u);
}

std::string refusal(const std::string& spec, const Shape& shape) {
  const Setup setup = {.shape = shape};
  const auto made = make_store(parse_spec(spec).value(), setup);
  const auto cost = cost_of(parse_spec(spec).value(), setup, {.tokens = 1});
  EXPECT_EQ(made.ok(), cost.ok());
  return made.ok() ? "" : made.error().message;
}

TEST(AgedStore, SaysWhatItCannotKeep) {
  Shape shape = kShape;
  EXPECT_EQ(refusal("paged:prefix=on", shape),
            "paged: prefix=on does not work here: rows of types that change with age, or of "
            "policies that keep data beside them, serve one sequence only; leave it out");
  EXPECT_EQ(refusal("paged:prefix=off", shape), "");
  shape.aging->window = 33;
  EXPECT_EQ(refusal("bmc", shape),
            "a window of 33 rows: it must be a multiple of 32, at most "
            "1048576");
  shape.aging->window = 0;
  shape.aging->v_type = kernels::DType::kQ8_0;
  EXPECT_EQ(refusal("bmc", shape),
            "old values are kept as f32, f16, bf16, q8, q4, q3, q2 or kivi4_v, not as Q8_0");
  shape.aging->v_type = kernels::DType::kQ8;
  shape.aging->k_type = kernels::DType::kKivi4V;
  EXPECT_EQ(refusal("bmc", shape),
            "old keys are kept as f32, f16, bf16, q8, q4, q3, q2 or kivi4_k, not as KIVI4_V");
  shape.aging->k_type = kernels::DType::kKivi4K;
  shape.head_dim = 40;
  EXPECT_NE(refusal("bmc", shape).find("groups of 32: use f16"), std::string::npos);
}

TEST(AgedStore, RowsThatGoTogetherAreNotWrittenOneByOne) {
  Shape shape = kShape;
  shape.aging.reset();
  shape.k_type = kernels::DType::kKivi4K;
  EXPECT_EQ(
      refusal("virtual", shape),
      "keys and values are kept as f32, f16, bf16, q8, q4, q3, q2, static8 or static16, not as "
      "KIVI4_K");
}

TEST(AgedStore, NamesTheStrategiesThatHoldOldRows) {
  Strategy other = *find_strategy("bmc");
  other.name = "other";
  other.traits.holds_old = false;
  const std::string expected =
      "other has no types that change with age, such as mixed and kivi4; those that have are "
      "virtual, bmc, iterative, upfront, paged";
  EXPECT_EQ(make_aged_store(other, {"other", {}}, {.shape = kShape}).error().message, expected);
  EXPECT_EQ(aged_cost(other, {"other", {}}, {.shape = kShape}, {}).error().message, expected);
}

TEST(AgedStore, ChangesTheTraitsOfItsStrategy) {
  const Strategy& paged = *find_strategy("paged");
  Shape shape = kShape;
  EXPECT_FALSE(traits_of(paged, shape).exact);
  EXPECT_FALSE(traits_of(paged, shape).shares_prefix);
  EXPECT_FALSE(traits_of(paged, shape).cheap_fork);
  shape.aging.reset();
  EXPECT_TRUE(traits_of(paged, shape).exact);
  EXPECT_TRUE(traits_of(paged, shape).shares_prefix);
  EXPECT_TRUE(traits_of(paged, shape).cheap_fork);
}

}  // namespace
}  // namespace kvick::kv::test
