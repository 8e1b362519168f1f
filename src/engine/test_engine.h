#pragma once

#include "engine/engine.h"
#include "model/test_model.h"

namespace kvick::engine {

// An engine over a small random llama model.
inline std::unique_ptr<Engine> tiny_engine(uint32_t context = 128) {
  base::ThreadPool pool(1);
  tools::Spec spec = model::tiny_spec(tools::Arch::kLlama);
  spec.context = context;
  auto engine = Engine::open({.model_path = model::write_model(spec, pool, false),
                              .threads = 2,
                              .isa = base::best_isa(),
                              .progress = {}});
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
  return std::move(engine).value();
}

}  // namespace kvick::engine
