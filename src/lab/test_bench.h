#pragma once
// What the tests of this folder run experiments with.

#include "lab/experiment.h"

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

}  // namespace kvick::lab
