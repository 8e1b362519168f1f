// Latent attention: how files describe it, what a token keeps, and which files are refused.

#include <cmath>
#include <functional>
#include <gtest/gtest.h>

#include "io/file/builder.h"
#include "kv/registry/registry.h"
#include "model/core/model.h"
#include "model/core/share.h"
#include "model/families/family.h"
#include "model/families/read_config.h"

namespace kvick::model {
namespace {

using LiteChange = std::function<void(io::Metadata&)>;

// Reads the sizes of DeepSeek-V2-Lite, as newer files give them, with the test's change.
base::Result<Config> lite_with(const LiteChange& change) {
  io::ModelFileBuilder builder(io::Container::kGguf, "lite.gguf");
  io::Metadata& keys = builder.metadata();
  keys["general.architecture"] = {std::string("deepseek2")};
  const auto put = [&](const char* key, uint64_t value) {
    keys[std::string("deepseek2.") + key] = {value};
  };
  put("block_count", 27), put("embedding_length", 2048), put("context_length", 163840);
  put("feed_forward_length", 10944), put("attention.head_count", 16);
  put("attention.head_count_kv", 1), put("attention.kv_lora_rank", 512);
  put("attention.key_length", 576), put("attention.value_length", 512);
  put("attention.key_length_mla", 192), put("attention.value_length_mla", 128);
  put("rope.dimension_count", 64);
  keys["deepseek2.rope.scaling.type"] = {std::string("yarn")};
  keys["deepseek2.rope.scaling.factor"] = {40.0};
  keys["deepseek2.rope.scaling.yarn_log_multiplier"] = {0.0707};
  put("rope.scaling.original_context_length", 4096);
  change(keys);
  EXPECT_TRUE(builder.add_tensor({.name = "token_embd.weight", .shape = {102400, 2048}}).ok());
  return read_config(builder.finish());
}

Config lite(const LiteChange& change = [](io::Metadata&) {}) {
  auto config = lite_with(change);
  EXPECT_TRUE(config.ok()) << (config.ok() ? "" : config.error().message);
  return config.ok() ? *config : Config{};
}

std::string lite_error(const char* key, uint64_t value) {
  const auto config = lite_with([&](io::Metadata& keys) { keys[key] = {value}; });
  return config.ok() ? "none" : config.error().message;
}

TEST(LatentConfig, IsOneRowForAllHeads) {
  const Config config = lite();
  ASSERT_EQ(config.layer_count(), 27u);
  const LayerConfig& layer = config.layers[26];
  EXPECT_EQ(layer.latent, (LatentConfig{.rank = 512, .plain = 128, .rotated = 64, .v_dim = 128}));
  EXPECT_EQ(layer.kv_heads, 1u);
  EXPECT_EQ(layer.group(), 16u);
  EXPECT_EQ(layer.k_dim, 576u);
  EXPECT_EQ(layer.v_dim, 512u);
  EXPECT_EQ(config.rope_of(26).dims, 64u);
  EXPECT_TRUE(config.rope_of(26).interleaved);
}

// mscale_all_dim is 0.707 and so is mscale, so cosines and sines are not scaled.
TEST(LatentConfig, ScalesScoresAsTheStretchedContextAsks) {
  const Config config = lite();
  const double grown = 1 + 0.0707 * std::log(40.0);
  EXPECT_NEAR(config.layers[0].scale, grown * grown / std::sqrt(192.0), 1e-7);
  EXPECT_EQ(config.rope_of(0).magnitude, 1.0F);
  const Config plain = lite([](io::Metadata& keys) { keys.erase("deepseek2.rope.scaling.type"); });
  EXPECT_NEAR(plain.layers[0].scale, 1 / std::sqrt(192.0), 1e-7);
}

// Files of 2024 have the sizes of heads in the keys where newer files have those of rows.
TEST(LatentConfig, IsReadFromFilesOf2024) {
  const Config old = lite([](io::Metadata& keys) {
    keys["deepseek2.attention.head_count_kv"] = {uint64_t{16}};
    keys["deepseek2.attention.key_length"] = {uint64_t{192}};
    keys["deepseek2.attention.value_length"] = {uint64_t{128}};
    keys.erase("deepseek2.attention.key_length_mla");
    keys.erase("deepseek2.attention.value_length_mla");
  });
  EXPECT_EQ(old.layers, lite().layers);
}

TEST(LatentConfig, LeavesOutBlocksThatPredictSeveralTokens) {
  const auto with = [](uint64_t blocks) {
    return lite_with([&](io::Metadata& keys) {
      keys["deepseek2.block_count"] = {uint64_t{4}};
      keys["deepseek2.feed_forward_length"] = {std::vector<uint64_t>{32, 64, 96, 128}};
      keys["deepseek2.nextn_predict_layers"] = {blocks};
    });
  };
  ASSERT_TRUE(with(1).ok());
  EXPECT_EQ(with(1)->layer_count(), 3u);
  EXPECT_EQ(with(1)->layers[2].ffn, 96u);
  EXPECT_EQ(with(4).error().message,
            "lite.gguf: deepseek2.nextn_predict_layers is 4, but must leave some of the 4 blocks");
}

TEST(LatentConfig, ThatCannotBeIsSaidInOneLine) {
  EXPECT_EQ(lite_error("deepseek2.attention.kv_lora_rank", 600),
            "lite.gguf: latent rows of 600 and 64 elements; kvick takes multiples of 8 up to 640");
  EXPECT_EQ(lite_error("deepseek2.attention.key_length_mla", 64),
            "lite.gguf: 64 of the 64 elements of a key head turn: it must be an even number, and "
            "some must not");
  EXPECT_EQ(lite_error("deepseek2.attention.head_count", 129),
            "lite.gguf: 129 heads share a KV head in layer 0; kvick takes up to 128");
  const auto none =
      lite_with([](io::Metadata& keys) { keys.erase("deepseek2.attention.kv_lora_rank"); });
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().message, "lite.gguf: deepseek2.attention.kv_lora_rank is missing");
}

TEST(LatentConfig, HasNoPartsForRanks) {
  Config config = lite();
  const std::vector<FfnShape> ffn(27, {.unit = 32});
  const auto share = share_of(config, ffn, 0, 2);
  ASSERT_FALSE(share.ok());
  EXPECT_EQ(share.error().message,
            "2 ranks were started, but in layer 0 all heads read one latent row, which --ranks "
            "cannot divide: use --pipeline");
  const auto first = stage_of(config, ffn, 0, 2), second = stage_of(config, ffn, 1, 2);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->layers.size() + second->layers.size(), 27u);
  EXPECT_GT(second->layers.size(), 10u);
}

// 576 float16 elements per layer: no values besides the keys, for any number of heads.
TEST(LatentRows, TakeTheirLatentVectorAndNothingElse) {
  constexpr uint64_t kTokenBytes = 27 * 576 * 2;
  kv::Setup setup = {.shape = {.max_tokens = 32768}};
  set_layers(lite(), setup);
  const kv::Spec upfront = *kv::parse_spec("upfront");
  const auto cost = kv::cost_of(upfront, setup, {.tokens = 32768});
  ASSERT_TRUE(cost.ok()) << cost.error().message;
  EXPECT_EQ(cost->fast_bytes, 32768 * kTokenBytes);
  EXPECT_EQ(cost->read_bytes_per_token, 32768 * kTokenBytes);

  for (const char* const name : {"virtual", "paged", "bmc:r=16", "upfront"}) {
    setup.shape.max_tokens = 64;
    const auto store = kv::make_store(*kv::parse_spec(name), setup);
    ASSERT_TRUE(store.ok()) << store.error().message;
    const kv::SeqId seq = (*store)->open({}).seq;
    constexpr uint32_t kTokens = 5;
    const std::vector<kv::Slot> slots = {{.seq = seq, .fresh = kTokens}};
    auto step = (*store)->begin({.slots = slots});
    ASSERT_TRUE(step.ok());
    const std::vector<float> rows(size_t{kTokens} * 576, 0.5F);
    for (uint32_t layer = 0; layer < 27; ++layer) (*step)->write(layer, rows.data(), nullptr);
    (*step)->commit({.rows = {{0, 1, 2, 3, 4}}});
    EXPECT_EQ((*store)->usage().used_bytes, kTokens * kTokenBytes) << name;
  }
}

}  // namespace
}  // namespace kvick::model
