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
  EXPECT_EQ(type("IQ2_XXS", "blk.5.ffn_up.weight", 576), DType::kIQ4_NL);
  EXPECT_EQ(type("IQ3_M", "blk.5.ffn_up.weight", 576), DType::kIQ4_NL);
  EXPECT_EQ(type("TQ1_0", "blk.5.ffn_up.weight", 576), DType::kQ4_0);
  EXPECT_EQ(type("IQ2_XXS", "output.weight", 576), DType::kQ8_0);
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

// The types of llama.cpp's llama_tensor_get_type_impl, for a middle layer and (first_down) the
// first.
struct Mixture {
  const char* recipe;
  DType output, embedding, q, k, v, attention_output, up, down, first_down;
};
void expect(const Mixture& want, const ModelTraits& model, const char* expert = "") {
  const auto of = [&](const std::string& part, int layer = 9) {
    return type(want.recipe, fmt::format("blk.{}.{}.weight", layer, part), 4096, model);
  };
  EXPECT_EQ(type(want.recipe, "output.weight", 4096, model), want.output) << want.recipe;
  EXPECT_EQ(type(want.recipe, "token_embd.weight", 4096, model), want.embedding) << want.recipe;
  EXPECT_EQ(of("attn_q"), want.q) << want.recipe;
  EXPECT_EQ(of("attn_k"), want.k) << want.recipe;
  EXPECT_EQ(of("attn_v"), want.v) << want.recipe;
  EXPECT_EQ(of("attn_output"), want.attention_output) << want.recipe;
  EXPECT_EQ(of(std::string("ffn_up") + expert), want.up) << want.recipe;
  EXPECT_EQ(of(std::string("ffn_gate") + expert), want.up) << want.recipe;
  EXPECT_EQ(of(std::string("ffn_down") + expert), want.down) << want.recipe;
  EXPECT_EQ(of(std::string("ffn_down") + expert, 0), want.first_down) << want.recipe;
}

TEST(Recipe, small_mixtures_of_a_dense_model) {
  using enum DType;
  for (const Mixture& want : std::initializer_list<Mixture>{
           {"IQ3_M", kQ6_K, kIQ3_S, kIQ3_S, kIQ3_S, kQ4_K, kQ4_K, kIQ3_S, kIQ3_S, kQ4_K},
           {"IQ3_S", kQ6_K, kIQ3_S, kIQ3_S, kIQ3_S, kQ4_K, kIQ3_S, kIQ3_S, kIQ3_S, kIQ3_S},
           {"IQ3_XS", kQ6_K, kIQ3_S, kIQ3_XXS, kIQ3_XXS, kQ4_K, kIQ3_S, kIQ3_XXS, kIQ3_S, kIQ3_S},
           {"IQ3_XXS", kQ5_K, kIQ3_S, kIQ2_S, kIQ2_S, kQ4_K, kIQ3_S, kIQ3_XXS, kIQ3_XXS, kIQ3_XXS},
           {"IQ2_M", kQ5_K, kIQ3_S, kIQ2_S, kIQ2_S, kQ4_K, kIQ3_S, kIQ2_S, kIQ2_S, kIQ3_S},
           {"IQ2_S", kQ5_K, kIQ3_S, kIQ2_XS, kIQ2_XS, kQ4_K, kIQ3_S, kIQ2_XS, kIQ2_XS, kIQ3_S},
           {"IQ2_XS", kQ5_K, kQ2_K, kIQ2_XS, kIQ2_XS, kQ4_K, kIQ2_XS, kIQ2_XS, kIQ2_XS, kQ2_K},
           {"IQ2_XXS", kQ5_K, kQ2_K, kIQ2_XXS, kIQ2_XXS, kQ4_K, kIQ2_XXS, kIQ2_XXS, kIQ2_XXS,
            kQ2_K},
           {"IQ1_M", kQ5_K, kQ2_K, kIQ1_M, kIQ1_M, kQ4_K, kIQ2_XXS, kIQ1_M, kIQ1_M, kQ2_K},
           {"IQ1_S", kQ5_K, kQ2_K, kIQ1_S, kIQ1_S, kQ4_K, kIQ2_XXS, kIQ1_S, kIQ1_S, kQ2_K},
           {"TQ2_0", kQ6_K, kQ4_K, kTQ2_0, kTQ2_0, kTQ2_0, kTQ2_0, kTQ2_0, kTQ2_0, kTQ2_0},
           {"TQ1_0", kQ6_K, kQ4_K, kTQ1_0, kTQ1_0, kTQ1_0, kTQ1_0, kTQ1_0, kTQ1_0, kTQ1_0}})
    expect(want, {.layers = 32, .queries_each = 4, .importance = true});
}

TEST(Recipe, small_mixtures_of_eight_experts) {
  using enum DType;
  for (const Mixture& want : std::initializer_list<Mixture>{
           {"IQ3_M", kQ6_K, kIQ3_S, kIQ3_S, kQ8_0, kQ8_0, kQ5_K, kIQ3_S, kQ4_K, kQ4_K},
           {"IQ3_S", kQ6_K, kIQ3_S, kIQ3_S, kQ8_0, kQ8_0, kQ5_K, kIQ3_S, kIQ3_S, kIQ3_S},
           {"IQ3_XS", kQ6_K, kIQ3_S, kIQ3_XXS, kQ8_0, kQ8_0, kQ5_K, kIQ3_XXS, kIQ3_S, kIQ3_S},
           {"IQ3_XXS", kQ5_K, kIQ3_S, kIQ2_S, kQ8_0, kQ8_0, kQ5_K, kIQ3_XXS, kIQ3_XXS, kIQ3_XXS},
           {"IQ2_M", kQ5_K, kIQ3_S, kIQ2_S, kQ4_K, kQ4_K, kQ5_K, kIQ2_S, kIQ2_S, kIQ3_S},
           {"IQ2_XXS", kQ5_K, kQ2_K, kIQ2_XXS, kQ4_K, kQ4_K, kQ5_K, kIQ2_XXS, kIQ2_XXS, kQ2_K},
           {"IQ1_S", kQ5_K, kQ2_K, kIQ1_S, kQ4_K, kQ4_K, kQ5_K, kIQ1_S, kIQ1_S, kQ2_K},
           {"TQ2_0", kQ6_K, kQ4_K, kTQ2_0, kQ8_0, kQ8_0, kTQ2_0, kTQ2_0, kTQ2_0, kTQ2_0},
           {"MXFP4_MOE", kQ8_0, kQ8_0, kQ8_0, kQ8_0, kQ8_0, kQ8_0, kMXFP4, kMXFP4, kMXFP4}})
    expect(want, {.layers = 32, .queries_each = 2, .experts = 8, .importance = true}, "_exps");
}

TEST(Recipe, small_mixtures_depend_on_queries_experts_and_importance) {
  const ModelTraits one = {.layers = 32, .importance = true}, plain = {.layers = 32};
  const auto value = [](std::string_view recipe, const ModelTraits& model) {
    return type(recipe, "blk.9.attn_v.weight", 4096, model);
  };
  EXPECT_EQ(value("IQ3_XXS", one), DType::kIQ3_XXS);
  EXPECT_EQ(value("IQ3_XXS", plain), DType::kIQ3_S);
  EXPECT_EQ(value("IQ3_S", one), DType::kIQ3_S);
  EXPECT_EQ(value("IQ2_M", one), DType::kIQ3_S);
  EXPECT_EQ(value("IQ1_S", one), DType::kQ2_K);
  EXPECT_EQ(value("IQ1_S", {.layers = 32, .experts = 64}), DType::kQ4_K);
  EXPECT_EQ(type("IQ3_XXS", "blk.0.ffn_down.weight", 4096, plain), DType::kQ4_K);
  EXPECT_EQ(type("IQ3_XXS", "blk.9.ffn_down.weight", 4096, plain), DType::kQ3_K);
  EXPECT_EQ(type("IQ3_XS", "blk.0.ffn_up.weight"), DType::kIQ3_S);
  EXPECT_EQ(type("IQ3_XS", "blk.28.ffn_up.weight"), DType::kIQ3_S);
  EXPECT_EQ(type("IQ2_M", "token_embd.weight", 4096, {.layers = 32, .tied = true}), DType::kQ5_K);
}

TEST(Recipe, the_smallest_types_need_importance) {
  EXPECT_TRUE(needs_importance("blk.0.attn_q.weight", DType::kIQ2_S));
  EXPECT_TRUE(needs_importance("blk.0.ffn_up_exps.weight", DType::kIQ1_M));
  EXPECT_FALSE(needs_importance("token_embd.weight", DType::kIQ2_S));
  for (const DType type : {DType::kIQ3_XXS, DType::kTQ1_0, DType::kQ2_K, DType::kIQ4_NL})
    EXPECT_FALSE(needs_importance("blk.0.attn_q.weight", type));
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
