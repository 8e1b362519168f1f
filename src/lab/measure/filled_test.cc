#include "lab/measure/filled.h"

#include <gtest/gtest.h>

#include "engine/core/test_engine.h"

namespace kvick::lab {
namespace {

TEST(Filled, TimesAttentionWithinAStepWhoseRowsStay) {
  const auto engine = engine::engine_of(model::tiny_spec(tools::Arch::kLlama));
  const std::vector<engine::Token> text(40, 3);
  for (const std::span<const engine::Token> tokens : {std::span(text), std::span(text).first(0)}) {
    Filled filled(*engine, engine->make_store({}).value(), 2, tokens);
    ASSERT_TRUE(filled.fill(20).ok());
    const uint64_t before = filled.usage().used_bytes;
    ASSERT_TRUE(filled.step().ok());
    const uint64_t step = filled.usage().used_bytes - before;
    EXPECT_GT(step, 0U);
    const auto seconds = filled.attend_in_step();
    ASSERT_TRUE(seconds.ok()) << seconds.error().what;
    EXPECT_GT(*seconds, 0);
    EXPECT_EQ(filled.usage().used_bytes, before + 2 * step);
    EXPECT_TRUE(filled.step().ok()) << "without the clock";
    EXPECT_EQ(filled.usage().used_bytes, before + 3 * step);
  }
}

}  // namespace
}  // namespace kvick::lab
