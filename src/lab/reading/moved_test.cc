#include <filesystem>
#include <gtest/gtest.h>

#include "lab/core/lab.h"
#include "lab/core/test_deep_bench.h"
#include "lab/core/test_text.h"

namespace kvick::lab {
namespace {

struct MovedBench : DeepBench {
  explicit MovedBench(uint32_t layers) : DeepBench(layers) {
    bench.file = write_words(2000);
    bench.prompts = 1;
  }
  ~MovedBench() { std::filesystem::remove(bench.file); }
  Json seams() {
    const auto experiment = find_experiment("moved")->make(bench);
    return experiment->findings(measure_all(*experiment)).summary["seams"];
  }
};

TEST(Moved, CostsNothingWhereRowsHangOnTheirTokenAlone) {
  for (const Json& seam : MovedBench(1).seams()) {
    EXPECT_LT(seam["kl"].get<double>(), 1e-5) << seam;
    EXPECT_GT(seam["agreement"].get<double>(), 0.95) << seam;
  }
}

TEST(Moved, CostsSomethingWhereRowsKnowWhatStoodBeforeThem) {
  const Json seams = MovedBench(3).seams();
  ASSERT_EQ(seams.size(), 5U);
  EXPECT_EQ(seams[0]["seam"], 0);
  EXPECT_GT(seams[0]["kl"].get<double>(), 1e-5) << seams;
}

TEST(Moved, SaysWhatIsWrong) {
  MovedBench deep(1);
  deep.bench.prompts = 100;
  const auto cells = find_experiment("moved")->make(deep.bench)->cells();
  ASSERT_FALSE(cells.ok());
  EXPECT_TRUE(cells.error().message.starts_with("moved: 100 places take 84900 tokens, and "))
      << cells.error().message;
}

}  // namespace
}  // namespace kvick::lab
