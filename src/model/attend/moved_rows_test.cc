// Rows of the first layer depend only on a token and its position. So there, moved rows equal the
// rows computed at the new position.

#include "model/attend/moved_rows.h"

#include <cmath>

#include "kv/strategy/facet_calls.h"
#include "model/core/test_runner.h"

namespace kvick::model {
namespace {

constexpr uint32_t kTokens = 40;

struct Rows {
  explicit Rows(Runner& runner, kernels::DType type, kv::Hadamard hadamard = {}) : runner_(runner) {
    kv::Setup setup;
    setup.shape = runner.model->kv_shape(type, type);
    setup.shape.hadamard = hadamard;
    setup.compute.store_row = runner.kernels.store_row;
    setup.compute.pool = &runner.pool;
    setup.compute.kernels = &runner.kernels;
    store = std::move(kv::make_store(*kv::parse_spec("paged:block=8"), setup)).value();
  }
  // Returns the rows of kTokens tokens after `before` other tokens.
  std::vector<std::byte> behind(uint32_t before) {
    std::vector<Token> text = tokens_of(before, 9, runner_.model->config().vocab);
    const std::vector<Token> tokens = tokens_of(kTokens, 2, runner_.model->config().vocab);
    text.insert(text.end(), tokens.begin(), tokens.end());
    const kv::SeqId seq = store->open({}).seq;
    const Slot slot = {.seq = seq, .past = 0, .tokens = text, .parents = {}};
    const uint32_t last = 0;
    EXPECT_TRUE(runner_.executor->advance(*store, {.slots = {&slot, 1}}, {&last, 1}).ok());
    std::vector<std::byte> rows(kTokens * store->info().token_bytes());
    store->facets().rows->read_rows(seq, before, kTokens, rows);
    store->close(seq);
    return rows;
  }
  void move(int64_t by, std::vector<std::byte>& rows) const {
    move_rows(runner_.model->config(), store->info().groups.front(), {.by = by, .count = kTokens},
              rows, runner_.kernels, runner_.pool);
  }
  // Returns the first layer's keys and values.
  std::vector<float> first_layer(std::span<const std::byte> rows) const {
    const kv::Shape& shape = store->info().groups.front();
    std::vector<float> out(size_t{2} * shape.kv_heads * kTokens * shape.head_dim);
    for (size_t row = 0; row < out.size() / shape.head_dim; ++row)
      kernels::to_f32(shape.k_type, rows.data() + row * shape.row_bytes(false), shape.head_dim,
                      out.data() + row * shape.head_dim);
    return out;
  }

  std::unique_ptr<kv::Store> store;

 private:
  Runner& runner_;
};

// Returns the largest difference, relative to the largest value of a.
float difference(std::span<const float> a, std::span<const float> b) {
  float worst = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::fabs(a[i] - b[i]));
    largest = std::max(largest, std::fabs(a[i]));
  }
  return worst / largest;
}

class MovedRows : public testing::TestWithParam<Arch> {};

TEST_P(MovedRows, AreThoseOfTheirNewPlaceInTheFirstLayer) {
  Runner runner(GetParam());
  Rows rows(runner, kernels::DType::kF32);
  ASSERT_EQ(why_not_moved(runner.model->config(), rows.store->info()), "");
  const std::vector<float> expected = rows.first_layer(rows.behind(23));
  for (const uint32_t before : {0U, 5U, 23U, 60U}) {
    std::vector<std::byte> moved = rows.behind(before);
    const std::vector<float> stayed = rows.first_layer(moved);
    rows.move(23 - static_cast<int64_t>(before), moved);
    EXPECT_LT(difference(rows.first_layer(moved), expected), 2e-5) << before;
    if (before != 23) {
      EXPECT_GT(difference(stayed, expected), 1e-2) << before;
    }
  }
}

TEST_P(MovedRows, ThatDoNotMoveStayTheSameBits) {
  Runner runner(GetParam());
  Rows rows(runner, kernels::DType::kF16);
  const std::vector<std::byte> before = rows.behind(7);
  std::vector<std::byte> moved = before;
  rows.move(0, moved);
  EXPECT_EQ(moved, before);
}

INSTANTIATE_TEST_SUITE_P(Families, MovedRows, testing::Values(Arch::kLlama, Arch::kQwen2));

TEST(MovedRows, OfRotatedCodesAreTurnedAsTheyWereBeforeTheTransform) {
  Runner runner(Arch::kLlama, "", 2, kernels::DType::kF32, kv::Aging{});  // heads of 32 values
  Rows plain(runner, kernels::DType::kF32);
  const std::vector<float> expected = plain.first_layer(plain.behind(31));
  Rows codes(runner, kernels::DType::kQ8, {.k = true});
  std::vector<std::byte> moved = codes.behind(4);
  codes.move(27, moved);
  const std::vector<float> transformed = codes.first_layer(codes.behind(31));
  EXPECT_LT(difference(codes.first_layer(moved), transformed), 0.02);
  EXPECT_GT(difference(expected, transformed), 0.05) << "nothing was transformed";
}

TEST(MovedRows, AreRefusedWherePlacesAreInMoreThanTheKeys) {
  Runner learned(Arch::kOpt);
  Rows rows(learned, kernels::DType::kF16);
  EXPECT_EQ(why_not_moved(learned.model->config(), rows.store->info()),
            "the model adds a position to every token");
}

}  // namespace
}  // namespace kvick::model
