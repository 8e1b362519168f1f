#include "kernels/table/table.h"

#include <cstdlib>
#include <gtest/gtest.h>

#include "base/check.h"

namespace kvick::kernels {
namespace {

using base::Isa;

// Sets KVICK_ISA for the length of a test.
class ChooseIsa : public testing::Test {
 protected:
  ChooseIsa() {
    if (const char* value = std::getenv("KVICK_ISA")) before_ = value;
    unsetenv("KVICK_ISA");
  }
  ~ChooseIsa() override {
    unsetenv("KVICK_ISA");
    if (!before_.empty()) setenv("KVICK_ISA", before_.c_str(), 1);
  }
  std::string before_;
};

TEST_F(ChooseIsa, takes_the_strongest_when_nothing_is_asked_for) {
  EXPECT_EQ(choose_isa().value(), base::best_isa());
}

TEST_F(ChooseIsa, takes_what_KVICK_ISA_names) {
  setenv("KVICK_ISA", "scalar", 1);
  EXPECT_EQ(choose_isa().value(), Isa::kScalar);
}

TEST_F(ChooseIsa, refuses_an_unknown_name_with_the_known_ones) {
  setenv("KVICK_ISA", "sse9", 1);
  const auto chosen = choose_isa();
  ASSERT_FALSE(chosen.ok());
  EXPECT_EQ(chosen.error().message, "KVICK_ISA is \"sse9\": use " + base::isa_names());
}

TEST(Table, every_supported_one_is_complete_and_says_what_it_is) {
  for (const Isa isa : base::kIsas) {
    if (!base::isa_supported(isa)) {
      EXPECT_THROW(table(isa), base::Bug);
      continue;
    }
    const Table& t = table(isa);
    EXPECT_EQ(t.isa, isa);
    EXPECT_EQ(&t, &table(isa));
    EXPECT_TRUE(t.quantise && t.matmul && t.rms_norm && t.layer_norm && t.silu_mul && t.relu &&
                t.add && t.rope && t.attend_chunk && t.merge && t.finish && t.store_row &&
                t.exp_row && t.walk_memory && t.store_group && t.dot_columns && t.count_above &&
                t.indices_above && t.weigh_tokens && t.delta_rule);
  }
}

}  // namespace
}  // namespace kvick::kernels
