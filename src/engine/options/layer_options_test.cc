// Cache options for models with layers of different kinds: checks each error and note.

#include "engine/options/layer_options.h"

#include <gtest/gtest.h>

#include "engine/core/test_mixed.h"
#include "engine/eval/measure_ranges.h"

namespace kvick::engine {
namespace {

const tools::Features kWindows = {.window = 12, .window_period = 2};

std::string error_of(const model::Config& config, const char* type, const char* select) {
  KvOptions options = parse_kv_options("virtual", type, "", select).value();
  options.k_type = options.k_type.value_or(kernels::DType::kF16);
  options.v_type = options.v_type.value_or(kernels::DType::kF16);
  const auto good = check_layers(config, options);
  return good.ok() ? "" : good.error().message;
}

// Two layers of latent rows.
model::Config latent() {
  model::Config config;
  config.context = 128;
  model::LayerConfig layer = model::LayerConfig::attention(4, 1, 48);
  layer.latent = {.rank = 32, .plain = 32, .rotated = 16, .v_dim = 16};
  layer.v_dim = 32;
  config.layers.assign(2, layer);
  return config;
}

TEST(LayerOptions, LatentRowsHaveOneTypeThatStays) {
  EXPECT_EQ(error_of(latent(), "q8", ""), "");
  EXPECT_NE(error_of(latent(), "mixed", "").find("keeps latent rows, which are both"),
            std::string::npos);
  const KvOptions types = parse_kv_options("virtual", "k=q8,v=f16", "", "").value();
  EXPECT_EQ(
      layer_notes(latent(), types),
      std::vector<std::string>{"latent rows are keys and values in one: they are kept as q8"});
}

// Four layers, of which every other one sees only 12 tokens.
model::Config windowed() {
  model::Config config;
  config.context = 128;
  config.ropes.resize(2);
  config.ropes[1].magnitude = 2;
  config.layers.assign(4, model::LayerConfig::attention(4, 2, 16));
  for (const uint32_t i : {0, 2}) config.layers[i].window = 12;
  for (uint32_t i = 0; i < 4; ++i) config.layers[i].rope = i % 2;
  return config;
}

TEST(LayerOptions, RefuseWhatIsLearntOfLayersThatAreAlike) {
  const model::Config config = windowed();
  for (const char* policy : {"maple", "loki"})
    EXPECT_EQ(error_of(config, "f16", policy),
              fmt::format("{} needs layers that are all alike, and this model's differ: use quest, "
                          "which needs no training",
                          policy));
  EXPECT_EQ(error_of(config, "static8:x.kvr", ""),
            "STATIC8 needs layers that are all alike, and this model's differ: use q8 or f16");
  EXPECT_EQ(error_of(config, "q8", "quest"), "");
  EXPECT_EQ(error_of(config, "f16", "streaming"), "") << "the two that see all have one rotation";
}

TEST(LayerOptions, RefuseToMoveKeysThatAreRotatedInSeveralWays) {
  model::Config config = windowed();
  config.layers[3].rope = 0;
  EXPECT_EQ(error_of(config, "f16", "streaming"),
            "streaming moves keys to other positions, and the layers of this model rotate theirs "
            "in several ways: use quest, which leaves them in place");
  // These leave keys where they are, whether they forget rows or not.
  for (const char* policy : {"quest", "h2o", "snapkv", "scissorhands"})
    EXPECT_EQ(error_of(config, "f16", policy), "") << policy;
}

// Some models have layers that keep rows alike, of which some do not rotate.
TEST(LayerOptions, RefuseToMoveKeysWhereLayersDifferInTheirRotationAlone) {
  model::Config config = windowed();
  for (model::LayerConfig& layer : config.layers) layer.window = 0;
  ASSERT_FALSE(layers_differ(config));
  EXPECT_NE(error_of(config, "f16", "streaming").find("rotate theirs in several ways"),
            std::string::npos);
  EXPECT_EQ(error_of(config, "f16", "h2o"), "") << "leaves keys where they are";
}

// expected turns all queries by one rotation, so layers that rotate differently are refused, even
// if their rows are alike.
TEST(LayerOptions, RefuseToAverageRotationsOfSeveralKinds) {
  model::Config config = windowed();
  EXPECT_EQ(error_of(config, "f16", "expected"), "") << "the two that see all have one rotation";
  config.layers[3].rope = 0;
  EXPECT_NE(error_of(config, "f16", "expected").find("rotate in several ways"), std::string::npos);
  for (model::LayerConfig& layer : config.layers) layer.window = 0;
  ASSERT_FALSE(layers_differ(config));
  EXPECT_EQ(error_of(config, "f16", "expected"),
            "expected averages the rotation of the next positions, and the layers of this model "
            "rotate in several ways: use quest, which needs no rotation");
  for (model::LayerConfig& layer : config.layers) layer.rope = 0;
  EXPECT_EQ(error_of(config, "f16", "expected"), "");
}

TEST(LayerOptions, LetAModelOfLayersThatAreAlikeHaveAll) {
  model::Config config = windowed();
  for (model::LayerConfig& layer : config.layers) layer.window = 0;
  EXPECT_FALSE(layers_differ(config));
  for (model::LayerConfig& layer : config.layers) layer.rope = 0;
  for (const char* policy : {"maple", "loki", "streaming"})
    EXPECT_EQ(error_of(config, "static8:x.kvr", policy), "");
}

TEST(LayerOptions, RefuseATypeOfStatesWhereNoLayerKeepsOne) {
  const auto refusal = [](const model::Config& config, const char* type) {
    const auto good = check_states(config, parse_kv_options("", type).value());
    return good.ok() ? "" : good.error().message;
  };
  model::Config config = windowed();
  EXPECT_EQ(refusal(config, "state=bf16"),
            "state=bf16 is a type of states, and no layer of this model keeps one: leave it out of "
            "--kv-type");
  EXPECT_EQ(refusal(config, "state=f32"), "");
  EXPECT_EQ(refusal(config, "bf16"), "");
  config.layers[1].kind = model::LayerConfig::Kind::kState;
  EXPECT_EQ(refusal(config, "state=bf16"), "");
}

TEST(LayerOptions, SayWhichLayersReadAllOfTheirRows) {
  KvOptions options = parse_kv_options("", "", "", "quest").value();
  options.max_tokens = 128;
  EXPECT_EQ(layer_notes(windowed(), options),
            std::vector<std::string>{"quest chooses among the rows of 2 of 4 layers; the others "
                                     "see at most 12 tokens, and read them all"});
  options.max_tokens = 12;  // windows of 12 hide nothing of it
  EXPECT_TRUE(layer_notes(windowed(), options).empty());
  EXPECT_TRUE(layer_notes(windowed(), {.max_tokens = 128}).empty());
}

TEST(LayerOptions, AreCheckedWhereStoresAreMadeAndRangesAreMeasured) {
  const auto engine = mixed_engine(kWindows);
  const auto store = engine->make_store(parse_kv_options("", "", "", "maple:file=x.kvp").value());
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.error().message.find("layers that are all alike"), std::string::npos);
  const auto refused = engine->check_kv(parse_kv_options("", "static8:x.kvr").value());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("layers that are all alike"), std::string::npos);
  const KvOptions quest = engine->resolved(parse_kv_options("", "", "", "quest").value());
  EXPECT_EQ(layer_notes(engine->model().config(), quest).size(), 1u);
  const std::vector<Token> text(60, 3);
  const auto ranges = measure_ranges(*engine, text, {.window = 30});
  ASSERT_FALSE(ranges.ok());
  EXPECT_EQ(ranges.error().message,
            "static types need layers that are all alike, and this model's differ: use q8 or f16");
}

}  // namespace
}  // namespace kvick::engine
