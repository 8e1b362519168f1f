#pragma once
// Benches with which the tests of the lab run experiments.

#include <map>

#include "engine/core/test_engine.h"
#include "lab/core/experiment.h"

namespace kvick::lab {

struct TestBench {
  base::ThreadPool pool{2};
  Bench bench = {.pool = pool,
                 .kernels = kernels::table(base::best_isa()),
                 .model = [](engine::Attention) -> base::Result<engine::Engine*> {
                   return base::fail("no model");
                 },
                 .shapes = {},
                 .file = {},
                 .note = [](std::string_view) {}};
};

// A bench with a small random model, "tiny", with a context of 512 tokens.
struct ModelBench : TestBench {
  ModelBench() {
    bench.model_path = "models/tiny.gguf";
    bench.model = [this](engine::Attention attention) -> base::Result<engine::Engine*> {
      auto& engine = engines[attention];
      if (engine == nullptr)
        engine = engine::engine_of(model::tiny_spec(tools::Arch::kLlama), attention);
      return engine.get();
    };
  }
  std::map<engine::Attention, std::unique_ptr<engine::Engine>> engines;
};

// Measures each cell of an experiment once.
inline std::vector<Measured> measure_all(Experiment& experiment) {
  auto cells = experiment.cells();
  EXPECT_TRUE(cells.ok()) << (cells.ok() ? "" : cells.error().message);
  std::vector<Measured> all;
  if (!cells.ok()) return all;
  for (Cell& cell : *cells) {
    auto run = experiment.measure(cell);
    EXPECT_TRUE(run.ok()) << cell.key << ": " << (run.ok() ? "" : run.error().message);
    if (run.ok()) all.push_back({.cell = std::move(cell), .runs = {*run}});
  }
  return all;
}

// Makes up the runs instead of measuring.
template <typename Made>
std::vector<Measured> make_up_all(Experiment& experiment, Made made) {
  auto cells = experiment.cells();
  EXPECT_TRUE(cells.ok()) << (cells.ok() ? "" : cells.error().message);
  std::vector<Measured> all;
  if (!cells.ok()) return all;
  for (Cell& cell : *cells) {
    const Json run = made(cell);
    all.push_back({.cell = std::move(cell), .runs = {run}});
  }
  return all;
}

}  // namespace kvick::lab
