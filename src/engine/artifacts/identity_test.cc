#include "engine/artifacts/identity.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <set>
#include <unistd.h>

namespace kvick::engine {
namespace {

namespace fs = std::filesystem;

// A new field of Config or LayerConfig does not compile in config_text until it is named there, and
// must then be added here.
TEST(ConfigText, TellsModelsApartByEachFieldOfTheirConfiguration) {
  using model::Config;
  const std::function<void(Config&)> changes[] = {
      [](Config& c) { c.arch = "b"; },
      [](Config& c) { c.name = "b"; },
      [](Config& c) { c.layers.emplace_back(); },
      [](Config& c) { ++c.dim; },
      [](Config& c) { ++c.vocab; },
      [](Config& c) { ++c.context; },
      [](Config& c) { c.learned_positions = true; },
      [](Config& c) { c.norm_eps = std::nextafter(c.norm_eps, 1.0F); },
      [](Config& c) { c.embedding_scale = 2; },
      [](Config& c) { c.residual_scale = 2; },
      [](Config& c) { c.logit_scale = 2; },
      [](Config& c) { c.logit_softcap = 2; },
      [](Config& c) { c.pooling = model::Pooling::kMean; },
      [](Config& c) { c.pooling = model::Pooling::kCls; },
      [](Config& c) { c.layers[1].kind = model::LayerConfig::Kind::kSlots; },
      [](Config& c) { ++c.layers[1].heads; },
      [](Config& c) { ++c.layers[1].kv_heads; },
      [](Config& c) { ++c.layers[1].k_dim; },
      [](Config& c) { ++c.layers[1].v_dim; },
      [](Config& c) { ++c.layers[1].ffn; },
      [](Config& c) { ++c.layers[1].window; },
      [](Config& c) { c.layers[1].chunked = true; },
      [](Config& c) { c.layers[1].rope = 0; },
      [](Config& c) { c.layers[1].scale = 2; },
      [](Config& c) { c.layers[1].softcap = 2; },
      [](Config& c) { c.layers[1].sinks = true; },
      [](Config& c) { c.layers[1].alibi = 8; },
      [](Config& c) { c.layers[1].tempered = true; },
      [](Config& c) { c.layers[1].sparsity = 1; },
      [](Config& c) { c.layers[1].both_ways = true; },
      [](Config& c) { c.layers[1].rows_of = 0; },
      [](Config& c) { c.ropes.emplace_back(); },
      [](Config& c) { ++c.ropes[0].dims; },
      [](Config& c) { c.ropes[0].interleaved = true; },
      [](Config& c) { c.ropes[0].frequency[1] = std::nextafter(c.ropes[0].frequency[1], 1.0); },
      [](Config& c) { c.ropes[0].frequency.push_back(0.25); },
      [](Config& c) { c.ropes[0].magnitude = std::nextafter(c.ropes[0].magnitude, 2.0F); },
  };
  Config config;
  config.arch = config.name = "a";
  config.norm_eps = 1e-5F;
  config.layers.resize(2);
  config.ropes.resize(1);
  config.ropes[0].frequency = {1, 0.5};
  std::set<std::string> texts = {config_text(config)};
  for (const auto& change : changes) {
    Config changed = config;
    change(changed);
    EXPECT_TRUE(texts.insert(config_text(changed)).second) << config_text(changed);
  }
}

class ContentHash : public testing::Test {
 protected:
  ContentHash() : folder_(fs::temp_directory_path() / fmt::format("kvick-hash-{}", getpid())) {
    fs::create_directories(folder_);
  }
  ~ContentHash() override { fs::remove_all(folder_); }
  void write(const char* name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::string hash(const fs::path& path, unsigned threads = 1) const {
    base::ThreadPool pool(threads);
    return content_hash(path.string(), pool).value();
  }
  fs::path folder_;
};

TEST_F(ContentHash, IsOfEveryByteWhateverThreadsThereAre) {
  std::string text(9'000'001, 'x');  // three pieces of 4 MiB
  std::set<std::string> hashes;
  for (const size_t at : {size_t{0}, size_t{4} << 20, text.size() - 1}) {
    text[at] ^= 1;
    write("a.gguf", text);
    EXPECT_TRUE(hashes.insert(hash(folder_ / "a.gguf")).second);
    EXPECT_EQ(hash(folder_ / "a.gguf", 3), hash(folder_ / "a.gguf"));
  }
  write("a.gguf", text + "x");
  EXPECT_TRUE(hashes.insert(hash(folder_ / "a.gguf")).second);
}

TEST_F(ContentHash, IsOfAFoldersConfigurationAndWeights) {
  write("config.json", "{}");
  write("a.safetensors", "one");
  std::set<std::string> hashes = {hash(folder_)};
  write("README.md", "no part of the model");
  EXPECT_FALSE(hashes.insert(hash(folder_)).second);
  write("config.json", "{\"rope_scaling\": {}}");
  EXPECT_TRUE(hashes.insert(hash(folder_)).second);
  write("a.safetensors", "two");
  EXPECT_TRUE(hashes.insert(hash(folder_)).second);
  fs::rename(folder_ / "a.safetensors", folder_ / "b.safetensors");
  EXPECT_TRUE(hashes.insert(hash(folder_)).second);
}

TEST_F(ContentHash, SaysWhatCannotBeRead) {
  base::ThreadPool pool(1);
  const auto none = content_hash((folder_ / "none").string(), pool);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("none"), std::string::npos);
}

}  // namespace
}  // namespace kvick::engine
