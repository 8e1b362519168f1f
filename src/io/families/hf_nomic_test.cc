#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/file/model_file.h"
#include "io/huggingface/test_folders.h"

namespace kvick::io {
namespace {

using Shape = std::vector<uint64_t>;

constexpr uint64_t kExperts = 2, kInner = 3, kWidth = 16;

// The fields of nomic-ai/nomic-embed-text-v2-moe, with smaller sizes.
json experts_config() {
  return {{"architectures", {"NomicBertModel"}},
          {"model_type", "nomic_bert"},
          {"vocab_size", 6},
          {"n_embd", kWidth},
          {"n_head", 2},
          {"n_inner", kInner},
          {"n_layer", 2},
          {"n_positions", 2048},
          {"max_trained_positions", 2048},
          {"activation_function", "gelu"},
          {"layer_norm_epsilon", 1e-5},
          {"qkv_proj_bias", true},
          {"mlp_fc1_bias", true},
          {"mlp_fc2_bias", true},
          {"rotary_emb_base", 10000.0},
          {"rotary_emb_fraction", 1.0},
          {"rotary_emb_interleaved", false},
          {"moe_every_n_layers", 2},
          {"moe_top_k", 1},
          {"moe_normalize_expert_weights", false},
          {"expert_choice_router", false},
          {"num_experts", kExperts},
          {"num_shared_experts", 0}};
}

base::Result<ModelFile> open(const json& config, uint64_t rows = kExperts * kInner) {
  const TestFolder folder;
  folder.write("config.json", config.dump());
  const std::string dense = "encoder.layers.0.", mixed = "encoder.layers.1.";
  folder.write("model.safetensors", weights({{"embeddings.word_embeddings.weight", {6, kWidth}},
                                             {dense + "attn.Wqkv.bias", {3 * kWidth}},
                                             {dense + "mlp.fc1.weight", {kInner, kWidth}},
                                             {dense + "mlp.fc2.bias", {kWidth}},
                                             {mixed + "mlp.router.layer.weight", {2, kWidth}},
                                             {mixed + "mlp.experts.mlp.w1", {rows, kWidth}},
                                             {mixed + "mlp.experts.mlp.w2", {rows, kWidth}},
                                             {mixed + "mlp.experts.bias", {kWidth}},
                                             {mixed + "norm2.weight", {kWidth}}}));
  return ModelFile::open(folder.path());
}

std::vector<float> values_of(const ModelFile& file, const char* name, const Shape& shape) {
  const Tensor* tensor = file.find(name);
  EXPECT_NE(tensor, nullptr) << name;
  if (tensor == nullptr) return {};
  EXPECT_EQ(tensor->shape, shape) << name;
  std::vector<float> values(tensor->elements());
  tensor->read_floats(values.data());
  return values;
}

TEST(HfNomic, ExpertsBecomeTensorsWithADimensionForThem) {
  const auto file = open(experts_config());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_string("general.architecture"), "nomic-bert-moe");
  EXPECT_EQ(*file->get_uint("nomic-bert-moe.expert_count"), kExperts);
  EXPECT_EQ(*file->get_uint("nomic-bert-moe.expert_used_count"), 1u);
  EXPECT_EQ(*file->get_uint("nomic-bert-moe.moe_every_n_layers"), 2u);
  EXPECT_EQ(*file->get_uint("nomic-bert-moe.context_length"), 2048u);
  EXPECT_EQ(*file->get_float("nomic-bert-moe.rope.freq_base"), 10000.0);
  for (const char* name :
       {"blk.0.attn_qkv.bias", "blk.0.ffn_up.weight", "blk.0.ffn_down.bias",
        "blk.1.ffn_gate_inp.weight", "blk.1.ffn_exps.bias", "blk.1.layer_output_norm.weight"})
    EXPECT_NE(file->find(name), nullptr) << name;
  const std::vector<float> up =
      values_of(*file, "blk.1.ffn_up_exps.weight", {kExperts, kInner, kWidth});
  for (size_t i = 0; i < up.size(); ++i) EXPECT_EQ(up[i], static_cast<float>(i));
  // The folder has [experts][inner][width].
  const std::vector<float> down =
      values_of(*file, "blk.1.ffn_down_exps.weight", {kExperts, kWidth, kInner});
  ASSERT_EQ(down.size(), kExperts * kWidth * kInner);
  for (uint64_t e = 0; e < kExperts; ++e)
    for (uint64_t w = 0; w < kWidth; ++w)
      for (uint64_t i = 0; i < kInner; ++i)
        EXPECT_EQ(down[(e * kWidth + w) * kInner + i],
                  static_cast<float>((e * kInner + i) * kWidth + w));
}

TEST(HfNomic, OtherExpertsAreRefused) {
  struct {
    json changes;
    const char* expected;
  } const table[] = {
      {{{"activation_function", "swiglu"}}, "'activation_function' is 'swiglu'; kvick supports"},
      {{{"moe_normalize_expert_weights", true}}, "'moe_normalize_expert_weights' is true"},
      {{{"expert_choice_router", true}}, "'expert_choice_router' is true"},
      {{{"num_shared_experts", 1}}, "'num_shared_experts' is 1; kvick knows 0"},
      {{{"num_experts", 4}}, "must be a matrix with as many rows for each of the 4 experts"},
  };
  for (const auto& [changes, expected] : table) {
    const auto file = open(with(experts_config(), changes));
    const std::string message = file.ok() ? "none" : file.error().message;
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace kvick::io
