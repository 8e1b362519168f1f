#include <gtest/gtest.h>

#include "lab/core/lab.h"
#include "lab/core/test_bench.h"

namespace kvick::lab {
namespace {

TEST(SlidingExperiment, FindsTheSizesOfItsSource) {
  TestBench t;
  const auto experiment = find_experiment("sliding")->make(t.bench);
  const std::vector<Cell> cells = experiment->cells().value();
  const auto formula = [&](const char* type, const char* reserve) -> Json {
    for (const Cell& cell : cells)
      if (cell.what["part"] == "size" && cell.what["kv_type"] == type &&
          cell.what["reserve"] == reserve)
        return experiment->measure(cell).value();
    return {};
  };
  const Json two = formula("f16", "2");
  EXPECT_EQ(two["formula_bytes"], 2'146'435'072U);
  EXPECT_EQ(two["planned_bytes"], 2'146'435'072U);
  EXPECT_EQ(two["layer_counted_bytes"], 2'146'435'072U / 32);
  // The buffer has 3070.5 rows, so each tensor allocates half a row more than the formula says.
  const Json half = formula("f16", "1.5");
  EXPECT_EQ(half["formula_bytes"], 1'609'826'304U);
  EXPECT_EQ(half["planned_bytes"], 1'609'826'304U + 2 * 32 * 32 * 128);
  EXPECT_EQ(formula("static16", "2")["formula_bytes"], 2'146'435'072U);
  EXPECT_EQ(formula("static8", "2")["formula_bytes"], 2'146'435'072U / 2);
}

TEST(SlidingExperiment, CopiesOnceInAsManyTokensAsThereAreSpareRows) {
  TestBench t;
  t.bench.tokens = 33;  // a window of 32
  t.bench.shapes = {"s"};
  const auto experiment = find_experiment("sliding")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  const Findings found = experiment->findings(all);
  std::map<std::string, double> copies;
  for (const Measured& one : all)
    if (one.cell.what["part"] == "decode") {
      copies[one.cell.what["reserve"].get<std::string>()] = one.median("copies");
      EXPECT_EQ(one.median("copied_bytes"), one.median("planned_copied_bytes")) << one.cell.key;
      EXPECT_EQ(one.median("tokens"), 4 * 32);
    }
  // 128 tokens: each stretch of spare rows except the first begins with a move of the window.
  EXPECT_EQ(copies, (std::map<std::string, double>{
                        {"1", 128}, {"1.25", 128 / 8 - 1}, {"1.5", 128 / 16 - 1}, {"2", 3}}));
  for (const Json& row : found.summary["sizes"]) EXPECT_TRUE(row["counted_as_planned"]);
  for (const Json& row : found.summary["decode"]) EXPECT_TRUE(row["copied_as_planned"]);
  EXPECT_EQ(found.charts[0].series[0].points.size(), 4U);
}

}  // namespace
}  // namespace kvick::lab
