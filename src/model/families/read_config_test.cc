#include "model/families/read_config.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>

#include "io/file/builder.h"
#include "model/families/family.h"

namespace kvick::model {
namespace {

using Change = std::function<void(io::Metadata&)>;

constexpr Family kToy = {.name = "toy"};

// Reads a config of four layers with four heads of 16 elements, with the test's change.
base::Result<Config> config_with(const Change& change, const Family* family = &kToy) {
  io::ModelFileBuilder builder(io::Container::kGguf, "toy.gguf");
  io::Metadata& keys = builder.metadata();
  keys["general.architecture"] = {std::string("toy")};
  keys["toy.block_count"] = {uint64_t{4}};
  keys["toy.embedding_length"] = {uint64_t{64}};
  keys["toy.context_length"] = {uint64_t{512}};
  keys["toy.feed_forward_length"] = {uint64_t{96}};
  keys["toy.attention.head_count"] = {uint64_t{4}};
  change(keys);
  EXPECT_TRUE(builder.add_tensor({.name = "token_embd.weight", .shape = {100, 64}}).ok());
  return read_config(builder.finish(), family);
}

Config read(const Change& change) {
  auto config = config_with(change);
  EXPECT_TRUE(config.ok()) << (config.ok() ? "" : config.error().message);
  return config.ok() ? *config : Config{};
}

std::string error(const Change& change) {
  const auto config = config_with(change);
  return config.ok() ? "none" : config.error().message;
}

TEST(ReadConfig, TakesOneNumberForAllLayersOrOneOfEach) {
  const Config plain = read([](io::Metadata&) {});
  EXPECT_EQ(plain.layer_count(), 4u);
  EXPECT_EQ(plain.vocab, 100u);
  EXPECT_TRUE(plain.layers_alike());
  LayerConfig expected = LayerConfig::attention(4, 4, 16);
  expected.ffn = 96, expected.rope = 0;
  for (const LayerConfig& layer : plain.layers) EXPECT_EQ(layer, expected);
  EXPECT_EQ(plain.layers[0].scale, 0.25F);

  const Config mixed = read([](io::Metadata& keys) {
    keys["toy.attention.head_count"] = {std::vector<int64_t>{4, 2, 4, 8}};
    keys["toy.attention.head_count_kv"] = {std::vector<uint64_t>{1, 2, 4, 2}};
    keys["toy.feed_forward_length"] = {std::vector<int64_t>{32, 64, 96, 128}};
  });
  EXPECT_EQ(mixed.layers[1].k_dim, 32u);
  EXPECT_EQ(mixed.layers[3].heads, 8u);
  EXPECT_EQ(mixed.layers[3].group(), 4u);
  EXPECT_EQ(mixed.layers[3].scale, 1 / std::sqrt(8.0F));
  EXPECT_EQ(mixed.layers[2].ffn, 96u);
  ASSERT_EQ(mixed.ropes.size(), 3u);  // for heads of 16, 32 and 8 elements
  EXPECT_EQ(mixed.layers[2].rope, 0u);
  EXPECT_EQ(mixed.rope_of(3).dims, 8u);
  EXPECT_FALSE(mixed.layers_alike());
}

TEST(ReadConfig, TakesTheEpsilonOfEitherKindOfNorm) {
  const auto eps = [](std::vector<std::pair<const char*, double>> values) {
    return read([&](io::Metadata& keys) {
             for (const auto& [key, value] : values)
               keys[std::string("toy.attention.") + key] = {value};
           })
        .norm_eps;
  };
  EXPECT_EQ(eps({}), 1e-5F);
  EXPECT_EQ(eps({{"layer_norm_epsilon", 1e-3}}), 1e-3F);
  EXPECT_EQ(eps({{"layer_norm_epsilon", 1e-3}, {"layer_norm_rms_epsilon", 1e-6}}), 1e-6F);
}

TEST(ReadConfig, TakesThePoolingThatTheFileNames) {
  const auto pooling = [](uint64_t kind) {
    return read([&](io::Metadata& keys) { keys["toy.pooling_type"] = {kind}; }).pooling;
  };
  EXPECT_FALSE(read([](io::Metadata&) {}).pooling.has_value());
  EXPECT_FALSE(pooling(0).has_value());
  EXPECT_EQ(pooling(1), Pooling::kMean);
  EXPECT_EQ(pooling(2), Pooling::kCls);
  EXPECT_EQ(pooling(3), Pooling::kLast);
  EXPECT_EQ(pooling(4), Pooling::kRank);
  EXPECT_EQ(error([](io::Metadata& keys) { keys["toy.pooling_type"] = {uint64_t{5}}; }),
            "toy.gguf: toy.pooling_type is 5; 0 to 4 are known");
}

TEST(ReadConfig, GivesWindowsToTheLayersOfThePattern) {
  const auto windows = [](const Change& change) {
    std::vector<uint32_t> result;
    for (const LayerConfig& layer : read([&](io::Metadata& keys) {
                                      keys["toy.attention.sliding_window"] = {uint64_t{128}};
                                      change(keys);
                                    }).layers)
      result.push_back(layer.window);
    return result;
  };
  using Windows = std::vector<uint32_t>;
  EXPECT_EQ(windows([](io::Metadata&) {}), (Windows{128, 128, 128, 128}));
  const auto pattern = [](auto value) {
    return [value](io::Metadata& keys) { keys["toy.attention.sliding_window_pattern"] = {value}; };
  };
  EXPECT_EQ(windows(pattern(uint64_t{3})), (Windows{128, 128, 0, 128}));
  EXPECT_EQ(windows(pattern(std::vector<bool>{false, true, true, false})),
            (Windows{0, 128, 128, 0}));
  // A window as long as the context hides nothing.
  EXPECT_EQ(windows([](io::Metadata& keys) { keys["toy.context_length"] = {uint64_t{128}}; }),
            (Windows{0, 0, 0, 0}));
  const Config config =
      read([](io::Metadata& keys) { keys["toy.attention.sliding_window"] = {uint64_t{128}}; });
  EXPECT_EQ(config.context, 512u);

  Family every_second = kToy;
  every_second.windows.period = 2;
  const auto by_family = config_with(
      [](io::Metadata& keys) { keys["toy.attention.sliding_window"] = {uint64_t{128}}; },
      &every_second);
  EXPECT_EQ(by_family->layers[0].window, 128u);
  EXPECT_EQ(by_family->layers[1].window, 0u);
}

TEST(ReadConfig, GivesLayersWithAWindowTheirOwnHeadsAndRotation) {
  const Config config = read([](io::Metadata& keys) {
    keys["toy.attention.sliding_window"] = {uint64_t{128}};
    keys["toy.attention.sliding_window_pattern"] = {uint64_t{2}};
    keys["toy.attention.key_length"] = {uint64_t{32}};
    keys["toy.attention.key_length_swa"] = {uint64_t{16}};
    keys["toy.attention.value_length_swa"] = {uint64_t{16}};
    keys["toy.rope.freq_base"] = {1e6};
    keys["toy.rope.freq_base_swa"] = {100.0};
    keys["toy.rope.scaling.type"] = {std::string("linear")};
    keys["toy.rope.scaling.factor"] = {8.0};
  });
  EXPECT_EQ(config.layers[0].k_dim, 16u);
  EXPECT_EQ(config.layers[1].k_dim, 32u);
  ASSERT_EQ(config.ropes.size(), 2u);
  EXPECT_EQ(config.rope_of(0).frequency[1], std::pow(100.0, -2.0 / 16));
  EXPECT_EQ(config.rope_of(1).frequency[1], std::pow(1e6, -2.0 / 32) / 8);
  EXPECT_EQ(config.rope_of(1).dims, 32u);
}

// As in llama.cpp: files of 2023 have no type, and the factor under another key.
TEST(ReadConfig, TakesAFactorWithoutATypeAsLinear) {
  const auto frequency = [](std::vector<std::pair<const char*, io::Value>> values) {
    return read([&](io::Metadata& keys) {
             for (const auto& [key, value] : values) keys[std::string("toy.rope.") + key] = value;
           })
        .rope_of(0)
        .frequency[1];
  };
  const double plain = frequency({});
  EXPECT_EQ(frequency({{"scaling.factor", {4.0}}}), plain / 4);
  EXPECT_EQ(frequency({{"scale_linear", {8.0}}}), plain / 8);
  EXPECT_EQ(frequency({{"scale_linear", {8.0}}, {"scaling.factor", {4.0}}}), plain / 4);
  EXPECT_EQ(frequency({{"scaling.type", {std::string("none")}}, {"scaling.factor", {4.0}}}), plain);
  EXPECT_EQ(error([](io::Metadata& keys) { keys["toy.rope.scale_linear"] = {-1.0}; }),
            "toy.gguf: toy.rope.scale_linear is -1, but must be a positive number");
}

TEST(ReadConfig, StretchesLongWavelengthsWhereNoneAreBlended) {
  const auto with = [](double low) {
    return [low](io::Metadata& keys) {
      keys["toy.rope.scaling.type"] = {std::string("llama3")};
      keys["toy.rope.scaling.factor"] = {8.0};
      keys["toy.rope.scaling.low_freq_factor"] = {low};
      keys["toy.rope.scaling.high_freq_factor"] = {1.0};
      keys["toy.rope.scaling.original_context_length"] = {uint64_t{64}};
    };
  };
  const Config config = read(with(1));
  const std::vector<double>& frequency = config.rope_of(0).frequency;
  for (size_t i = 0; i < 8; ++i) {  // beyond pair 2 wavelengths are above 64
    const double plain = std::pow(10000.0, -2.0 * static_cast<double>(i) / 16);
    EXPECT_EQ(frequency[i], i > 2 ? plain / 8 : plain) << i;
  }
  EXPECT_NE(error(with(2)).find("high_freq_factor is 1, below low_freq_factor 2"),
            std::string::npos);
}

TEST(ReadConfig, SharesRowsOfTheLastLayerOfTheSameKind) {
  const Config config = read([](io::Metadata& keys) {
    keys["toy.attention.sliding_window"] = {uint64_t{128}};
    keys["toy.attention.sliding_window_pattern"] = {uint64_t{2}};
    keys["toy.attention.shared_kv_layers"] = {uint64_t{2}};
  });
  EXPECT_TRUE(config.layers[1].owns_rows());
  EXPECT_EQ(config.layers[2].rows_of, 0u);
  EXPECT_EQ(config.layers[3].rows_of, 1u);
  EXPECT_FALSE(config.layers_alike());
}

TEST(ReadConfig, NamesTheKeyAndTheLayerThatIsWrong) {
  const auto with = [](const char* key, auto value) {
    return error([&](io::Metadata& keys) { keys[key] = {value}; });
  };
  EXPECT_EQ(with("toy.attention.head_count", std::vector<int64_t>{4, 4}),
            "toy.gguf: key 'toy.attention.head_count' holds 2 numbers for 4 layers");
  EXPECT_EQ(with("toy.attention.head_count_kv", std::vector<int64_t>{4, 4, 0, 4}),
            "toy.gguf: toy.attention.head_count_kv of layer 2 is 0, outside 1 to 1048576");
  EXPECT_NE(with("toy.attention.head_count_kv", std::vector<int64_t>{4, 3, 4, 4})
                .find("is not a multiple of head_count_kv 3"),
            std::string::npos);
  EXPECT_NE(error([](io::Metadata& keys) {
              keys["toy.attention.head_count"] = {uint64_t{512}};
              keys["toy.attention.head_count_kv"] = {uint64_t{2}};
            }).find("256 heads share a KV head in layer 0; kvick takes up to 128"),
            std::string::npos);
  EXPECT_NE(with("toy.attention.value_length", uint64_t{12}).find("multiples of 8 up to 640"),
            std::string::npos);
  EXPECT_NE(with("toy.feed_forward_length", std::vector<int64_t>{1, 2, -3, 4}).find("holds -3"),
            std::string::npos);
  EXPECT_NE(with("toy.feed_forward_length", std::string("wide")).find("not an integer"),
            std::string::npos);
  EXPECT_NE(with("toy.attention.shared_kv_layers", uint64_t{4}).find("must leave some of the 4"),
            std::string::npos);
  EXPECT_NE(with("toy.attn_logit_softcapping", -1.0).find("must not be negative"),
            std::string::npos);
  EXPECT_NE(with("toy.attention.scale", 0.0).find("must be a positive number"), std::string::npos);
  EXPECT_NE(error([](io::Metadata& keys) {
              keys["toy.attention.sliding_window"] = {uint64_t{8}};
              keys["toy.attention.sliding_window_pattern"] = {std::vector<bool>{true}};
            }).find("holds 1 numbers for 4 layers"),
            std::string::npos);
}

TEST(ReadConfig, ReadsScaleAndSoftcaps) {
  const Config config = read([](io::Metadata& keys) {
    keys["toy.attention.scale"] = {0.5};
    keys["toy.attn_logit_softcapping"] = {50.0};
    keys["toy.final_logit_softcapping"] = {30.0};
  });
  EXPECT_EQ(config.layers[3].scale, 0.5F);
  EXPECT_EQ(config.layers[3].softcap, 50.0F);
  EXPECT_EQ(config.logit_softcap, 30.0F);
}

TEST(ReadConfig, ChangesTheBaseByHunyuansAlpha) {
  const Config config = read([](io::Metadata& keys) {
    keys["toy.rope.freq_base"] = {1e4};
    keys["toy.rope.scaling.alpha"] = {50.0};
  });
  const double base = 1e4 * std::pow(50.0, 16.0 / 14);
  EXPECT_DOUBLE_EQ(config.rope_of(0).frequency[1], std::pow(base, -2.0 / 16));
}

// Reads the config of a family's model, under the toy's name.
Config read_family(std::string_view arch, const Change& change) {
  Family family = *find_family(arch);
  family.name = kToy.name;
  auto config = config_with(change, &family);
  EXPECT_TRUE(config.ok()) << (config.ok() ? "" : config.error().message);
  return config.ok() ? *config : Config{};
}

// The first files of MiniCPM have no factors.
TEST(ReadConfig, KnowsMiniCpmsFactors) {
  const Config early = read_family("minicpm", [](io::Metadata&) {});
  EXPECT_EQ(early.embedding_scale, 12.0F);
  EXPECT_FLOAT_EQ(early.residual_scale, 0.7F);
  EXPECT_FLOAT_EQ(early.logit_scale, 4.0F);
  const Config told = read_family("minicpm", [](io::Metadata& keys) {
    keys["toy.embedding_scale"] = {3.0};
    keys["toy.residual_scale"] = {0.5};
    keys["toy.logit_scale"] = {2.0};
  });
  EXPECT_EQ(told.embedding_scale, 3.0F);
  EXPECT_EQ(told.residual_scale, 0.5F);
  EXPECT_EQ(told.logit_scale, 0.5F);
}

// MiniCPM-MoE's files say nothing of it.
TEST(ReadConfig, WeightsOfMiniCpmsExpertsAreDividedByTheirSum) {
  io::ModelFileBuilder builder(io::Container::kGguf, "minicpm.gguf");
  io::Metadata& keys = builder.metadata();
  keys["general.architecture"] = {std::string("minicpm")};
  for (const auto& [key, value] : {std::pair{"block_count", 1},
                                   {"embedding_length", 64},
                                   {"context_length", 512},
                                   {"feed_forward_length", 96},
                                   {"attention.head_count", 4},
                                   {"expert_count", 8},
                                   {"expert_used_count", 2}})
    keys[std::string("minicpm.") + key] = {static_cast<uint64_t>(value)};
  EXPECT_TRUE(builder.add_tensor({.name = "token_embd.weight", .shape = {100, 64}}).ok());
  EXPECT_TRUE(builder.add_tensor({.name = "blk.0.ffn_gate_inp.weight", .shape = {8, 64}}).ok());
  EXPECT_TRUE(
      builder.add_tensor({.name = "blk.0.ffn_down_exps.weight", .shape = {8, 64, 96}}).ok());
  const auto config = read_config(builder.finish());
  ASSERT_TRUE(config.ok()) << config.error().message;
  const ExpertsConfig& experts = config->layers[0].experts;
  EXPECT_EQ(experts.ffn, 96u);
  EXPECT_TRUE(experts.normalised);
  EXPECT_EQ(experts.router, ExpertsConfig::Router::kSoftmax);
}

TEST(ReadConfig, RotatesOnlyLayersWithAWindowWhereSomeHaveOne) {
  for (const char* arch : {"exaone4", "cohere2"}) {
    const auto plain = read_family(arch, [](io::Metadata&) {});
    for (const LayerConfig& layer : plain.layers) EXPECT_NE(layer.rope, LayerConfig::kNone) << arch;
    const auto windowed = read_family(arch, [](io::Metadata& keys) {
      keys["toy.attention.sliding_window"] = {uint64_t{128}};
      keys["toy.logit_scale"] = {0.25};
    });
    for (uint32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(windowed.layers[i].window, i == 3 ? 0u : 128u) << arch;
      EXPECT_EQ(windowed.layers[i].rope == LayerConfig::kNone, i == 3) << arch;
    }
    EXPECT_EQ(windowed.logit_scale, std::string_view(arch) == "cohere2" ? 0.25F : 1.0F);
  }
}

// GGUF files of the first months lack keys for facts that became known later.
TEST(ReadConfig, KnowsWhatEarlyFilesDoNotSay) {
  const auto read_as = [](std::string_view arch, const Change& change) {
    Family family = *find_family(arch);
    family.name = kToy.name;
    family.configure = arch == "phi3" || arch == "llama4" ? family.configure : nullptr;
    auto config = config_with(change, &family);
    EXPECT_TRUE(config.ok()) << (config.ok() ? "" : config.error().message);
    return config.ok() ? *config : Config{};
  };
  const auto nothing = [](io::Metadata&) {};
  EXPECT_EQ(read_as("gemma2", nothing).layers[0].softcap, 50.0F);
  EXPECT_EQ(read_as("gemma2", nothing).logit_softcap, 30.0F);
  for (const char* arch : {"gemma3n", "gemma4"}) {
    EXPECT_EQ(read_as(arch, nothing).logit_softcap, 30.0F) << arch;
    EXPECT_EQ(read_as(arch, nothing).layers[0].softcap, 0.0F) << arch;
  }
  EXPECT_EQ(read_as("gemma3", nothing).logit_softcap, 0.0F);
  const auto uncapped = [](io::Metadata& keys) { keys["toy.final_logit_softcapping"] = {0.0}; };
  EXPECT_EQ(read_as("gemma2", uncapped).logit_softcap, 0.0F);

  const auto phi = [&](uint64_t context, std::optional<uint64_t> window) {
    return read_as("phi3",
                   [&](io::Metadata& keys) {
                     keys["toy.context_length"] = {context};
                     if (window) keys["toy.attention.sliding_window"] = {*window};
                   })
        .layers[3]
        .window;
  };
  EXPECT_EQ(phi(4096, std::nullopt), 2047u);  // Phi-3-mini-4k-instruct
  EXPECT_EQ(phi(4096, 2047), 2047u);
  EXPECT_EQ(phi(4096, 0), 0u);
  EXPECT_EQ(phi(131072, std::nullopt), 0u);
  EXPECT_EQ(phi(131072, 262144), 0u);  // Phi-3-mini-128k-instruct

  const auto llama4 = [&](std::optional<uint64_t> window) {
    return read_as("llama4", [&](io::Metadata& keys) {
      if (window) keys["toy.attention.sliding_window"] = {*window};
    });
  };
  EXPECT_EQ(llama4(std::nullopt).layers[3].rope, LayerConfig::kNone);
  EXPECT_TRUE(llama4(std::nullopt).layers[3].tempered);
  EXPECT_NE(llama4(0).layers[3].rope, LayerConfig::kNone);  // MobileLLM
  EXPECT_FALSE(llama4(0).layers[3].tempered);
}

}  // namespace
}  // namespace kvick::model
