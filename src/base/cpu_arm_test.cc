#include <gtest/gtest.h>

#include "base/cpu.h"

namespace kvick::base {
namespace {

TEST(Cpu, TakesI8mmOnlyWithTheDotProducts) {
  EXPECT_EQ(best_isa({}), Isa::kScalar);
  EXPECT_EQ(best_isa({.neon_dot = true}), Isa::kNeonDot);
  EXPECT_EQ(best_isa({.neon_dot = true, .neon_i8mm = true}), Isa::kNeonI8mm);
  EXPECT_EQ(best_isa({.neon_i8mm = true}), Isa::kScalar);
}

TEST(Cpu, NamesTheInstructionSetsOfItsArchitectureForAMessage) {
  EXPECT_EQ(isa_names(), "scalar, neon_dot or neon_i8mm");
  EXPECT_EQ(isa_from_name("avx2"), std::nullopt);
}

TEST(Cpu, HasANameWithTheNumbersThatMakersGive) {
  EXPECT_TRUE(cpu_name().starts_with("ARM processor, implementer 0x")) << cpu_name();
}

}  // namespace
}  // namespace kvick::base
