#include "model/blocks/read_ahead.h"

#include <gtest/gtest.h>
#include <vector>

namespace kvick::model {
namespace {

using kernels::Matrix;
using kernels::ReadAhead;

double g_now = 0;
double now() { return g_now; }

// The seconds that a matrix takes with each way, and the calls of each way.
double g_seconds[kernels::kReadAheads];
int g_calls[kernels::kReadAheads];

void slow_matmul(const Matrix&, const kernels::Activations& a, float*, size_t, uint32_t, uint32_t) {
  g_now += g_seconds[static_cast<int>(a.read_ahead)];
  ++g_calls[static_cast<int>(a.read_ahead)];
}

// Returns the choice if passes take these seconds.
ReadAhead choice(double twice, double once, double none, size_t matrices = 7,
                 base::Isa isa = base::Isa::kAvx2) {
  kernels::Table kernels = kernels::table(base::Isa::kScalar);
  kernels.isa = isa;
  kernels.matmul = slow_matmul;
  g_seconds[0] = twice, g_seconds[1] = once, g_seconds[2] = none;
  for (int& calls : g_calls) calls = 0;
  std::vector<Matrix> all;
  for (size_t i = 0; i < matrices; ++i)
    all.push_back(kernels::make_matrix(kernels::DType::kQ8_0, 16, (2 << 20) / 16));
  base::ThreadPool pool(1);
  return choose_read_ahead(all, kernels, pool, now);
}

TEST(ReadAheadChoice, is_the_way_that_takes_least) {
  EXPECT_EQ(choice(2, 1, 3), ReadAhead::kOnce);
  EXPECT_EQ(choice(2, 3, 1), ReadAhead::kNone);
  EXPECT_EQ(choice(1, 2, 3), ReadAhead::kTwice);
  EXPECT_EQ(choice(1, 0.99, 0.995), ReadAhead::kTwice) << "not worth it";
}

TEST(ReadAheadChoice, meets_every_matrix_by_every_way) {
  choice(1, 1, 1, 5);
  EXPECT_EQ(g_calls[0], 5 + 5);  // plus the first pass, which is not measured
  EXPECT_EQ(g_calls[1], 5);
  EXPECT_EQ(g_calls[2], 5);
}

TEST(ReadAheadChoice, takes_short_passes_several_times) {
  choice(1e-4, 1e-4, 1e-4, 1);
  EXPECT_GT(g_calls[1], 50);
  EXPECT_LE(g_calls[1], 67);
  EXPECT_EQ(choice(0, 0, 0, 1), ReadAhead::kTwice);  // a clock that stands still
}

TEST(ReadAheadChoice, needs_no_matrix) {
  EXPECT_EQ(choice(2, 1, 1, 0), ReadAhead::kTwice);
  EXPECT_EQ(g_calls[1], 0);
}

TEST(ReadAheadChoice, is_not_looked_for_where_kernels_ask_for_nothing) {
  for (const base::Isa isa : {base::Isa::kScalar, base::Isa::kNeonDot, base::Isa::kNeonI8mm}) {
    EXPECT_EQ(choice(2, 1, 1, 7, isa), ReadAhead::kTwice);
    EXPECT_EQ(g_calls[0] + g_calls[1] + g_calls[2], 0);
  }
}

TEST(ReadAheadChoice, runs_with_real_kernels_of_every_type) {
  for (const base::Isa isa : base::kIsas) {
    if (!base::isa_supported(isa)) continue;
    const kernels::Table* const rounding = kernels::rounding_table(isa);
    base::ThreadPool pool(2);
    std::vector<Matrix> all;
    for (int type = 0; type < kernels::kWeightTypes; ++type)
      all.push_back(kernels::make_matrix(static_cast<kernels::DType>(type), 200, 1024));
    (void)choose_read_ahead(all, kernels::table(isa), pool);
    if (rounding != nullptr) (void)choose_read_ahead(all, *rounding, pool);
  }
}

}  // namespace
}  // namespace kvick::model
