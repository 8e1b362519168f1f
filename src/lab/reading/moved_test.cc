#include <filesystem>
#include <gtest/gtest.h>

#include "lab/core/lab.h"
#include "lab/core/test_bench.h"
#include "lab/core/test_text.h"

namespace kvick::lab {
namespace {

// A bench with a model of `layers` layers, and a context that the experiment fits into.
struct DeepBench : TestBench {
  explicit DeepBench(uint32_t layers) {
    tools::Spec spec = model::tiny_spec(tools::Arch::kLlama);
    spec.layers = layers;
    spec.context = 1024;
    engine = engine::engine_of(spec);
    bench.model_path = "models/tiny.gguf";
    bench.model = [this](engine::Attention) -> base::Result<engine::Engine*> {
      return engine.get();
    };
    bench.file = write_words(2000);
    bench.prompts = 1;
  }
  ~DeepBench() { std::filesystem::remove(bench.file); }
  Json seams() {
    const auto experiment = find_experiment("moved")->make(bench);
    return experiment->findings(measure_all(*experiment)).summary["seams"];
  }
  std::unique_ptr<engine::Engine> engine;
};

TEST(Moved, CostsNothingWhereRowsHangOnTheirTokenAlone) {
  for (const Json& seam : DeepBench(1).seams()) {
    EXPECT_LT(seam["kl"].get<double>(), 1e-5) << seam;
    EXPECT_GT(seam["agreement"].get<double>(), 0.95) << seam;
  }
}

TEST(Moved, CostsSomethingWhereRowsKnowWhatStoodBeforeThem) {
  const Json seams = DeepBench(3).seams();
  ASSERT_EQ(seams.size(), 5U);
  EXPECT_EQ(seams[0]["seam"], 0);
  EXPECT_GT(seams[0]["kl"].get<double>(), 1e-5) << seams;
}

TEST(Moved, SaysWhatIsWrong) {
  DeepBench deep(1);
  deep.bench.prompts = 100;
  const auto cells = find_experiment("moved")->make(deep.bench)->cells();
  ASSERT_FALSE(cells.ok());
  EXPECT_TRUE(cells.error().message.starts_with("moved: 100 places take 84900 tokens, and "))
      << cells.error().message;
}

}  // namespace
}  // namespace kvick::lab
