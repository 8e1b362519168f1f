// Tests moving rows between stores as they are stored, for every strategy with RowMover and every
// element type.

#include <gtest/gtest.h>

#include "kv/testing/cases.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

class Moved : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const std::string why = unavailable(GetParam().spec); !why.empty()) GTEST_SKIP() << why;
  }
  static Shape shape() {
    return shape_of(GetParam(), {.layers = 2, .kv_heads = 3, .head_dim = 6, .max_tokens = 100});
  }
  static Pair pair(uint64_t max_bytes = UINT64_MAX) {
    return {GetParam().spec, shape(), max_bytes};
  }
};

INSTANTIATE_TEST_SUITE_P(Registry, Moved, testing::ValuesIn(moving_cases()), name_of);

// Returns rows in the layout of RowMover::read_rows (facets.h).
std::vector<std::byte> expected_rows(const Shape& shape, const Rows& rows) {
  std::vector<std::byte> all;
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    for (uint32_t head = 0; head < shape.kv_heads; ++head)
      for (const bool is_v : {false, true}) {
        const auto some = bytes_of(shape, rows, layer, head, is_v);
        all.insert(all.end(), some.begin(), some.end());
      }
  return all;
}

TEST_P(Moved, RowsAreReadAsTheyWereWritten) {
  Pair p = pair();
  const SeqId a = p.open(), b = p.open();
  p.add(a, 40);
  p.add(b, 3);
  p.add(a, 31);
  const Rows& rows = p.twin[a];
  for (const auto& [first, count] : std::vector<std::pair<uint32_t, uint32_t>>{
           {0, 71}, {0, 1}, {70, 1}, {13, 50}, {32, 32}, {71, 0}, {0, 0}}) {
    const Rows some(rows.begin() + first, rows.begin() + first + count);
    EXPECT_TRUE(p.read(a, first, count) == expected_rows(p.shape, some)) << first << " " << count;
  }
}

TEST_P(Moved, AFreshStoreShowsWhatItWasGiven) {
  Pair from = pair(), to = pair(), other("virtual", shape());
  const SeqId a = from.open(), b = to.open(), c = to.open(), d = other.open();
  from.add(a, 60);
  auto step = from.begin({{a, 5}});
  write_all(*step, from.shape, from.fresh);
  from.commit(*step, {.rows = {{0, 2, 4}}});  // commit moves these rows
  step.reset();
  from.add(a, 1);
  to.next_row = other.next_row = from.next_row;
  const Rows rows = from.twin[a];
  for (const auto& [first, count] :
       std::vector<std::pair<uint32_t, uint32_t>>{{0, 17}, {17, 0}, {17, 1}, {18, 46}}) {
    const Rows some(rows.begin() + first, rows.begin() + first + count);
    const std::vector<std::byte> bytes = from.read(a, first, count);
    EXPECT_TRUE(to.append(b, some, bytes));
    EXPECT_TRUE(other.append(d, some, bytes));
  }
  to.add(c, 9);
  to.expect_contents();
  other.expect_contents();
  to.add(b, 7);  // continues as if the rows had been written here
  EXPECT_TRUE(from.append(a, Rows(to.twin[b].end() - 7, to.twin[b].end()), to.read(b, 64, 7)));
  from.expect_contents();
  EXPECT_TRUE(from.read(a, 0, 71) == to.read(b, 0, 71));
}

TEST_P(Moved, AppendedRowsAreCountedAsIfTheyHadBeenWritten) {
  const auto usage_of = [](const Pair& pair) {
    Usage usage = pair.store->usage();
    usage.metadata_bytes = 0;  // appended rows have tokens, for which the prefix tree takes memory
    return usage;
  };
  Pair written = pair(), appended = pair();
  const SeqId a = written.open(), b = appended.open();
  for (const uint32_t rows : {30, 1, 40}) {
    const uint32_t first = written.store->length(a);
    written.add(a, rows);
    const Rows some(written.twin[a].begin() + first, written.twin[a].end());
    EXPECT_TRUE(appended.append(b, some, written.read(a, first, rows)));
    EXPECT_EQ(usage_of(written), usage_of(appended));
  }
  EXPECT_TRUE(appended.append(b, {}, {}));  // appends no row
  EXPECT_EQ(usage_of(written), usage_of(appended));
}

TEST_P(Moved, AFailedAppendLeavesNoTrace) {
  const Spec spec = spec_of(GetParam().spec);
  const uint64_t cap = cost_of(spec, test_setup(shape()), {80, 1}).value().fast_bytes;
  Pair from = pair(), p = pair(cap);
  const SeqId a = from.open(), b = p.open(), c = p.open();
  from.add(a, 90);
  const std::vector<std::byte> bytes = from.read(a, 0, 90);
  p.add(b, 20);
  const Usage before = p.store->usage();
  EXPECT_FALSE(p.append(c, from.twin[a], bytes));
  EXPECT_GT(p.shortage.needed_bytes, p.shortage.available_bytes);
  EXPECT_EQ(p.store->usage(), before);
  EXPECT_FALSE(p.append(b, from.twin[a], bytes));
  EXPECT_EQ(p.shortage.what, "sequence 0: 110 tokens of a context of 100");
  EXPECT_EQ(p.store->usage(), before);
  EXPECT_EQ(p.store->length(c), 0u);
  p.expect_contents();
}

}  // namespace
}  // namespace kvick::kv::test
