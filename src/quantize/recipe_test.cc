#include "quantize/recipe.h"

#include <gtest/gtest.h>
#include <numeric>

namespace kvick::quantize {
namespace {

using kernels::DType;

const Recipe& named(std::string_view name) { return **find_recipe(name); }

DType type(std::string_view recipe, std::string_view tensor, uint64_t inputs = 4096,
           const ModelTraits& model = {.layers = 32, .queries_each = 4}) {
  return type_of(named(recipe), tensor, inputs, model);
}

TEST(Recipe, q4_k_m_gives_six_bits_to_values_and_down_projections_at_the_ends) {
  for (const char* name : {"blk.{}.attn_v.weight", "blk.{}.ffn_down.weight"}) {
    const auto of_layer = [&](uint32_t layer) {
      return type("Q4_K_M", fmt::format(fmt::runtime(name), layer));
    };
    // llama.cpp's use_more_bits: i < n/8, i >= 7n/8, (i - n/8) % 3 == 2.
    for (const uint32_t layer : {0u, 3u, 6u, 9u, 24u, 28u, 31u})
      EXPECT_EQ(of_layer(layer), DType::kQ6_K) << name << layer;
    for (const uint32_t layer : {4u, 5u, 7u, 8u, 25u, 26u})
      EXPECT_EQ(of_layer(layer), DType::kQ4_K) << name << layer;
  }
  EXPECT_EQ(type("Q4_K_M", "blk.0.attn_q.weight"), DType::kQ4_K);
  EXPECT_EQ(type("Q4_K_M", "blk.0.attn_qkv.weight"), DType::kQ5_K);
  EXPECT_EQ(type("Q4_K_M", "output.weight"), DType::kQ6_K);
  EXPECT_EQ(type("Q4_K_M", "token_embd.weight"), DType::kQ4_K);
  EXPECT_EQ(type("Q4_K_M", "token_embd.weight", 4096, {.layers = 32, .tied = true}), DType::kQ6_K);
  EXPECT_EQ(type("Q4_K_M", "blk.0.ffn_down_exps.weight"), DType::kQ6_K);
}

TEST(Recipe, rows_that_are_no_whole_blocks_get_blocks_of_32_or_halves) {
  EXPECT_EQ(type("Q4_K_M", "blk.5.attn_q.weight", 576), DType::kQ5_0);
  EXPECT_EQ(type("Q4_K_M", "blk.0.ffn_down.weight", 2880), DType::kQ8_0);
  EXPECT_EQ(type("Q5_K_S", "blk.5.attn_q.weight", 576), DType::kQ5_1);
  EXPECT_EQ(type("IQ4_XS", "blk.5.attn_q.weight", 576), DType::kIQ4_NL);
  EXPECT_EQ(type("Q2_K", "blk.5.ffn_up.weight", 576), DType::kQ4_0);
  EXPECT_EQ(type("Q4_K_M", "blk.5.ffn_up.weight", 40), DType::kF16);
}

TEST(Recipe, mixtures_depend_on_the_model) {
  EXPECT_EQ(type("IQ4_XS", "blk.9.attn_v.weight"), DType::kQ5_K);
  EXPECT_EQ(type("IQ4_XS", "blk.9.attn_v.weight", 4096, {.layers = 32}), DType::kIQ4_XS);
  EXPECT_EQ(type("IQ4_XS", "blk.1.ffn_down.weight"), DType::kQ5_K);
  EXPECT_EQ(type("IQ4_XS", "blk.1.ffn_down.weight", 4096,
                 {.layers = 32, .queries_each = 4, .importance = true}),
            DType::kIQ4_XS);
  const ModelTraits eight = {.layers = 32, .queries_each = 4, .experts = 8};
  EXPECT_EQ(type("Q4_K_M", "blk.9.attn_k.weight", 4096, eight), DType::kQ8_0);
  EXPECT_EQ(type("Q4_K_M", "blk.9.attn_output.weight", 4096, eight), DType::kQ5_K);
  EXPECT_EQ(type("MXFP4_MOE", "blk.9.ffn_up_exps.weight"), DType::kMXFP4);
  EXPECT_EQ(type("MXFP4_MOE", "blk.9.attn_q.weight"), DType::kQ8_0);
}

TEST(Recipe, names_are_found_in_any_case_and_wrong_ones_list_them) {
  EXPECT_EQ(named("q4_k_m").name, "Q4_K_M");
  EXPECT_EQ(named("BF16").base, DType::kBF16);
  const auto none = find_recipe("Q9_K");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("Q4_K_M, Q4_K_S"), std::string::npos);
}

TEST(Recipe, vectors_norms_and_routers_stay) {
  const std::vector<uint64_t> matrix = {8, 64}, vector = {64};
  EXPECT_TRUE(is_quantised("blk.0.attn_q.weight", matrix));
  EXPECT_TRUE(is_quantised("token_embd.weight", matrix));
  EXPECT_TRUE(is_quantised("blk.0.ffn_gate_exps.weight", matrix));
  EXPECT_FALSE(is_quantised("blk.0.attn_norm.weight", vector));
  EXPECT_FALSE(is_quantised("blk.0.attn_q.bias", vector));
  EXPECT_FALSE(is_quantised("blk.0.ffn_gate_inp.weight", matrix));
  EXPECT_FALSE(is_quantised("blk.0.ffn_gate_exps.bias", matrix));
}

TEST(Recipe, tensors_have_roles_and_layers) {
  const Part part = part_of("blk.12.ffn_down_exps.weight");
  EXPECT_EQ(part.role, Role::kDown);
  EXPECT_EQ(part.layer, 12u);
  EXPECT_TRUE(part.expert);
  EXPECT_EQ(part_of("blk.x.attn_v.weight").role, Role::kOther);
  EXPECT_EQ(part_of("blk.1").role, Role::kOther);
  EXPECT_EQ(part_of("output.weight").role, Role::kOutput);
}

}  // namespace
}  // namespace kvick::quantize
