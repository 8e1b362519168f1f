#include "engine/artifacts/predictor_file.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>

#include "base/text_file.h"
#include "engine/artifacts/predictor_cache.h"
#include "engine/core/test_engine.h"

namespace kvick::engine {
namespace {

std::vector<float> random_floats(size_t n, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> made(n);
  for (float& x : made) x = normal(random);
  return made;
}

// frequencies: how many frequencies the file has.
PredictorFile random_file(kv::PredictorForm form, unsigned seed, uint32_t frequencies = 0) {
  std::mt19937 random(seed);
  PredictorFile file;
  file.model = {.arch = "llama", .layers = 2, .kv_heads = 2, .head_dim = 16, .weights = "0123"};
  file.text = "a text";
  file.tokens = 100, file.held_out = 10;
  file.mse = {1, 2}, file.recall = {0.5, 0.25}, file.mass = {0.75, 0.125};
  kv::PredictorShape& shape = file.predictor.shape;
  shape = {.layers = 2,
           .heads = 4,
           .kv_heads = 2,
           .head_dim = 16,
           .dim = 64,
           .rank = form == kv::PredictorForm::kScores ? 1
                   : frequencies > 0                  ? 2 * frequencies
                                                      : 3,
           .form = form,
           .seed = seed};
  file.predictor.frequency = random_floats(frequencies, random);
  for (uint32_t layer = 0; layer < 2; ++layer)
    file.predictor.layers.push_back(
        {.q = random_floats(
             shape.has_queries() ? size_t{shape.heads} * shape.rank * shape.inputs() : 0, random),
         .k = random_floats(size_t{shape.kv_heads} * shape.rank * shape.inputs(), random)});
  return file;
}

// A file of the form retrieval.
PredictorFile retrieval_file(const std::vector<float>& numbers) {
  PredictorFile file = random_file(kv::PredictorForm::kScores, 5);
  file.mse.clear(), file.recall.clear(), file.mass.clear();
  file.held_out = 0;
  file.predictor.shape.form = kv::PredictorForm::kRetrieval;
  for (uint32_t layer = 0; layer < 2; ++layer)
    file.predictor.layers[layer].k = {numbers[2 * layer], numbers[2 * layer + 1]};
  return file;
}

// A file of the form document, of three tokens. scores: [2 layers][2 KV heads][3 tokens].
PredictorFile document_file(const std::vector<float>& scores) {
  PredictorFile file = random_file(kv::PredictorForm::kScores, 5);
  file.mse.clear(), file.recall.clear(), file.mass.clear();
  file.held_out = 0;
  file.tokens = file.predictor.shape.tokens = 3;
  file.predictor.shape.form = kv::PredictorForm::kDocument;
  file.predictor.document = {7, 0, 499};
  for (uint32_t layer = 0; layer < 2; ++layer)
    file.predictor.layers[layer].k = {scores.begin() + 6 * layer, scores.begin() + 6 * layer + 6};
  return file;
}

const std::vector<float> kShares = {0,     1,    0.5F,  0.25F,  0.125F, 0.75F,
                                    1e-5F, 0.3F, 0.01F, 0.625F, 0,      6e-8F};

base::Result<PredictorFile> parsed(const std::string& bytes) {
  return parse_predictor(std::as_bytes(std::span(bytes)));
}

TEST(PredictorFile, KeepsEverythingAndItsWeightsToAnEighthBit) {
  constexpr std::pair<kv::PredictorForm, uint32_t> kFiles[] = {
      {kv::PredictorForm::kRandom, 0},  {kv::PredictorForm::kTrained, 0},
      {kv::PredictorForm::kHeads, 0},   {kv::PredictorForm::kRandom, 2},
      {kv::PredictorForm::kTrained, 3}, {kv::PredictorForm::kScores, 0}};
  for (const auto& [form, frequencies] : kFiles) {
    const PredictorFile file = random_file(form, 7, frequencies);
    const std::string bytes = predictor_bytes(file);
    const PredictorFile read = parsed(bytes).value();
    EXPECT_EQ(read.model, file.model);
    EXPECT_EQ(read.predictor.shape, file.predictor.shape);
    EXPECT_EQ(read.predictor.frequency, file.predictor.frequency);
    EXPECT_EQ(read.text, file.text);
    EXPECT_EQ(read.tokens, file.tokens);
    EXPECT_EQ(read.held_out, file.held_out);
    EXPECT_EQ(read.mse, file.mse);
    EXPECT_EQ(read.recall, file.recall);
    EXPECT_EQ(read.mass, file.mass);
    for (size_t layer = 0; layer < 2; ++layer)
      for (const auto part : {&kv::PredictorLayer::q, &kv::PredictorLayer::k}) {
        const auto &before = file.predictor.layers[layer].*part,
                   &after = read.predictor.layers[layer].*part;
        ASSERT_EQ(after.size(), before.size());
        for (size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(after[i], before[i], 4.5 / 254);
      }
    EXPECT_EQ(predictor_bytes(read), bytes) << "what is read and written again stays as it is";
  }
}

TEST(PredictorFile, KeepsTheNumbersOfHeadsExactly) {
  const PredictorFile file = retrieval_file({0, 1, 1e-7F, 0.3F});
  const std::string bytes = predictor_bytes(file);
  const PredictorFile read = parsed(bytes).value();
  EXPECT_EQ(read.model, file.model);
  EXPECT_EQ(read.predictor.shape, file.predictor.shape);
  EXPECT_EQ(read.text, file.text);
  EXPECT_EQ(read.tokens, file.tokens);
  ASSERT_EQ(read.predictor.layers.size(), 2u);
  for (size_t layer = 0; layer < 2; ++layer) {
    EXPECT_TRUE(read.predictor.layers[layer].q.empty());
    EXPECT_EQ(read.predictor.layers[layer].k, file.predictor.layers[layer].k);
  }
  EXPECT_EQ(predictor_bytes(read), bytes);
}

TEST(PredictorFile, KeepsTheTokensAndScoresOfADocument) {
  const PredictorFile file = document_file(kShares);
  const std::string bytes = predictor_bytes(file);
  const PredictorFile read = parsed(bytes).value();
  EXPECT_EQ(read.model, file.model);
  EXPECT_EQ(read.predictor.shape, file.predictor.shape);
  EXPECT_EQ(read.predictor.document, file.predictor.document);
  EXPECT_EQ(read.text, file.text);
  EXPECT_EQ(read.tokens, 3u);
  EXPECT_TRUE(read.mse.empty());
  ASSERT_EQ(read.predictor.layers.size(), 2u);
  for (size_t layer = 0; layer < 2; ++layer) {
    EXPECT_TRUE(read.predictor.layers[layer].q.empty());
    ASSERT_EQ(read.predictor.layers[layer].k.size(), 6u);
    // Small scores keep their order: F16 has steps of 6e-8 near zero.
    for (size_t i = 0; i < 6; ++i) {
      const float score = file.predictor.layers[layer].k[i];
      EXPECT_NEAR(read.predictor.layers[layer].k[i], score, 5e-4F * score + 3e-8F);
    }
  }
  EXPECT_GT(read.predictor.layers[1].k[5], 0);
  EXPECT_EQ(predictor_bytes(read), bytes);
}

TEST(PredictorFile, SaysWhatIsWrongWithADocument) {
  const auto refusal = [](const PredictorFile& file) {
    return parsed(predictor_bytes(file)).error().message;
  };
  for (const float wrong : {-0.01F, 1.01F}) {
    std::vector<float> scores = kShares;
    scores[8] = wrong;
    EXPECT_EQ(refusal(document_file(scores)), "layer 1 has scores that are not from 0 to 1");
  }
  PredictorFile file = document_file(kShares);
  file.predictor.layers[0].k[2] = std::nanf("");
  EXPECT_EQ(refusal(file), "layer 0 has weights that are not finite numbers");
  file = document_file(kShares);
  file.predictor.document.pop_back();
  EXPECT_EQ(refusal(file), "kvick.predictor.document is no list of 3 tokens");
  file = document_file(kShares);
  file.predictor.document[1] = -4;
  EXPECT_EQ(refusal(file), "kvick.predictor.document holds -4, which is no token");
}

TEST(PredictorFile, SaysWhatIsWrongWithTheNumbersOfHeads) {
  const auto refusal = [](const PredictorFile& file) {
    return parsed(predictor_bytes(file)).error().message;
  };
  for (const float wrong : {-0.01F, 1.01F, std::nanf(""), INFINITY})
    EXPECT_EQ(refusal(retrieval_file({0, 1, wrong, 0.5F})),
              "kvick.predictor.retrieval holds numbers that are not from 0 to 1");
  PredictorFile file = retrieval_file({0, 1, 0.5F, 0.5F});
  file.predictor.layers[1].k.pop_back();
  EXPECT_EQ(refusal(file), "kvick.predictor.retrieval is no list of 4 numbers");
  file = retrieval_file({0, 1, 0.5F, 0.5F});
  file.predictor.shape.rank = 2;
  EXPECT_EQ(refusal(file), "it has 2 scores for a row and not one");
  std::string changed = predictor_bytes(retrieval_file({0, 1, 0.5F, 0.25F}));
  const float before = 0.25F, after = 0.75F;
  const std::string_view bytes(reinterpret_cast<const char*>(&before), sizeof before);
  changed.replace(changed.find(bytes, changed.find("predictor.retrieval")), sizeof after,
                  reinterpret_cast<const char*>(&after), sizeof after);
  EXPECT_EQ(parsed(changed).error().message, "its checksum is wrong: it is damaged");
}

void expect_refused_if_torn_or_changed(const std::string& bytes) {
  for (size_t n = 0; n + io::kGgufAlignment <= bytes.size(); ++n)
    EXPECT_FALSE(parsed(bytes.substr(0, n)).ok()) << n;
  std::mt19937 random(11);
  uint32_t taken = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string changed = bytes;
    const size_t at = random() % bytes.size();
    changed[at] = static_cast<char>(changed[at] ^ (1 << random() % 8));
    taken += parsed(changed).ok();
  }
  // Only padding and the names of keys that are never read may change.
  EXPECT_LT(taken, 300u);
}

TEST(PredictorFile, IsRefusedWhereverItIsTornOrChanged) {
  expect_refused_if_torn_or_changed(
      predictor_bytes(random_file(kv::PredictorForm::kTrained, 3, 2)));
  expect_refused_if_torn_or_changed(predictor_bytes(retrieval_file({0, 1, 0.5F, 0.25F})));
  expect_refused_if_torn_or_changed(predictor_bytes(document_file(kShares)));
}

TEST(PredictorFile, SaysWhatIsWrong) {
  EXPECT_EQ(parsed("GGUF").error().message.find("it is no predictor, or damaged"), 0u);
  PredictorFile file = random_file(kv::PredictorForm::kHeads, 3);
  file.mse.pop_back();
  EXPECT_EQ(parsed(predictor_bytes(file)).error().message,
            "kvick.predictor.mse is no list of 2 numbers");
  file = random_file(kv::PredictorForm::kHeads, 3);
  file.predictor.shape.rank = 17;
  for (kv::PredictorLayer& layer : file.predictor.layers)
    layer.q.resize(size_t{4} * 17 * 16), layer.k.resize(size_t{2} * 17 * 16);
  EXPECT_EQ(parsed(predictor_bytes(file)).error().message,
            "kvick.predictor.rank is 17, but it must be from 1 to 16");
  std::string changed = predictor_bytes(random_file(kv::PredictorForm::kHeads, 3));
  changed[changed.find("a text")] = 'A';
  EXPECT_EQ(parsed(changed).error().message, "its checksum is wrong: it is damaged");
}

// Files of version 1 have neither the list of frequencies nor its part of the checksum.
TEST(PredictorFile, OfNoPositionsIsOfTheFirstVersion) {
  const std::string plain = predictor_bytes(random_file(kv::PredictorForm::kTrained, 3));
  const std::string turning = predictor_bytes(random_file(kv::PredictorForm::kTrained, 3, 2));
  const auto version = [](const std::string& bytes) {
    constexpr std::string_view kKey = "kvick.predictor.version";
    return bytes[bytes.find(kKey) + kKey.size() + sizeof(uint32_t)];  // the value follows its type
  };
  EXPECT_EQ(plain.find("kvick.predictor.frequency"), std::string::npos);
  EXPECT_EQ(version(plain), 1);
  EXPECT_EQ(version(turning), 2);
}

TEST(PredictorFile, SaysWhatIsWrongWithFrequencies) {
  const auto refusal = [](const PredictorFile& file) {
    return parsed(predictor_bytes(file)).error().message;
  };
  PredictorFile file = random_file(kv::PredictorForm::kTrained, 3, 2);
  file.predictor.frequency.pop_back();
  EXPECT_EQ(refusal(file), "kvick.predictor.frequency is no list of 2 numbers");
  file.predictor.frequency.push_back(std::nanf(""));
  EXPECT_EQ(refusal(file), "kvick.predictor.frequency holds numbers that are not finite");
  file = random_file(kv::PredictorForm::kTrained, 3);
  file.predictor.frequency = {1};
  EXPECT_EQ(refusal(file), "it turns pairs of values by positions, and a rank of 3 is odd");
  EXPECT_EQ(refusal(random_file(kv::PredictorForm::kHeads, 3, 2)),
            "it rotates predictions by position, but a predictor of the form heads has positions "
            "already");
}

struct File {
  explicit File(const std::string& name) : path(model::test_path(name)) {}
  ~File() { std::filesystem::remove(path); }
  std::string path;
};

// A predictor of the shape that the engine's model needs.
PredictorFile file_for(const Engine& engine, unsigned seed) {
  const model::Config& config = engine.model().config();
  PredictorFile file = random_file(kv::PredictorForm::kRandom, seed);
  file.model = engine.identity();
  kv::PredictorShape& shape = file.predictor.shape;
  EXPECT_EQ(config.layer_count(), shape.layers);
  const model::LayerConfig& layer = config.layers.front();
  shape.heads = layer.heads, shape.kv_heads = layer.kv_heads;
  shape.head_dim = layer.k_dim, shape.dim = config.dim;
  for (kv::PredictorLayer& layer : file.predictor.layers) {
    layer.q.resize(size_t{shape.heads} * shape.rank * shape.inputs());
    layer.k.resize(size_t{shape.kv_heads} * shape.rank * shape.inputs());
  }
  return file;
}

TEST(PredictorFile, OfAnotherModelIsRefused) {
  const auto engine = tiny_engine(128);
  const model::Config& config = engine->model().config();
  const PredictorFile file = file_for(*engine, 3);
  const kv::PredictorShape& shape = file.predictor.shape;
  const File on_disk("foreign.kvp");
  ASSERT_TRUE(write_predictor(on_disk.path, file).ok());
  const auto read = read_predictor(on_disk.path, engine->identity(), config);
  ASSERT_TRUE(read.ok()) << read.error().message;
  const kv::SparseProjection same(config.dim, shape.projected(), shape.seed);
  EXPECT_EQ((*read)->projection.at(5, 1), same.at(5, 1));
  ModelIdentity other = engine->identity();
  other.weights = "another";
  EXPECT_EQ(read_predictor(on_disk.path, other, config).error().message,
            on_disk.path +
                " is for other weights than this model's: make its own with kvick train distil");
  other.layers = 9;
  const std::string of_layers = read_predictor(on_disk.path, other, config).error().message;
  EXPECT_EQ(of_layers.find(on_disk.path + " is for another model: 2 layers"), 0u);
  EXPECT_TRUE(of_layers.ends_with(": make its own with kvick train distil")) << of_layers;
  EXPECT_NE(read_predictor("/nowhere.kvp", other, config).error().message.find("/nowhere.kvp"),
            std::string::npos);
}

// Errors name the file, once, and say what to do.
TEST(PredictorFile, OfAnotherShapeOrDamagedSaysWhatToDo) {
  const auto engine = tiny_engine(128);
  const model::Config& config = engine->model().config();
  const File on_disk("unfit.kvp");
  const auto refusal = [&](const std::string& bytes) {
    EXPECT_TRUE(base::write_file(on_disk.path, bytes).ok());
    return read_predictor(on_disk.path, engine->identity(), config).error().message;
  };
  PredictorFile file = random_file(kv::PredictorForm::kScores, 3);
  file.model = engine->identity();
  kv::PredictorShape& shape = file.predictor.shape;
  const model::LayerConfig& layer = config.layers.front();
  shape.heads = layer.heads, shape.kv_heads = layer.kv_heads, shape.head_dim = layer.k_dim;
  shape.dim = config.dim + 2;
  for (kv::PredictorLayer& of : file.predictor.layers)
    of.k.resize(size_t{shape.kv_heads} * shape.inputs());
  EXPECT_EQ(refusal(predictor_bytes(file)),
            fmt::format("{} is for another model: inputs of {} values and {} query heads; this one "
                        "has {} and {}: make its own with kvick train kvzap",
                        on_disk.path, config.dim + 2, layer.heads, config.dim, layer.heads));
  std::string changed = predictor_bytes(file);
  changed[changed.find("a text")] = 'A';
  EXPECT_EQ(refusal(changed),
            on_disk.path +
                ": its checksum is wrong: it is damaged; copy the file again, or train it again");
  changed = predictor_bytes(file);
  changed[changed.find("predictor.text")] = 'P';  // the key is missing
  const std::string missing = refusal(changed);
  EXPECT_EQ(missing.rfind(on_disk.path), 0u) << missing;
  EXPECT_TRUE(missing.ends_with("; copy the file again, or train it again")) << missing;
  const std::string other = refusal("no predictor at all");
  EXPECT_EQ(other.rfind(on_disk.path), 0u) << other;
  EXPECT_TRUE(other.ends_with(
      "(a predictor is a file that kvick train distil, pca, kvzap, duo or kvzip makes)"))
      << other;
}

TEST(PredictorFile, OfHeadsOfAnotherModelSaysWhatToDo) {
  const auto engine = tiny_engine(128);
  const model::Config& config = engine->model().config();
  const File on_disk("heads.kvp");
  PredictorFile file = file_for(*engine, 3);
  kv::PredictorShape& shape = file.predictor.shape;
  shape.form = kv::PredictorForm::kRetrieval;
  shape.rank = 1;
  file.mse.clear(), file.recall.clear(), file.mass.clear();
  for (kv::PredictorLayer& layer : file.predictor.layers)
    layer = {.q = {}, .k = std::vector<float>(shape.kv_heads, 0.5F)};
  ASSERT_TRUE(write_predictor(on_disk.path, file).ok());
  const auto read = read_predictor(on_disk.path, engine->identity(), config);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ((*read)->layers[1].k, std::vector<float>(shape.kv_heads, 0.5F));
  ModelIdentity other = engine->identity();
  other.weights = "another";
  EXPECT_EQ(
      read_predictor(on_disk.path, other, config).error().message,
      on_disk.path + " is for other weights than this model's: make its own with kvick train duo");
}

TEST(PredictorCache, ReadsAFileAgainOnlyIfItHasChanged) {
  const auto engine = tiny_engine(128);
  const model::Config& config = engine->model().config();
  const File on_disk("cached.kvp");
  PredictorCache cache;
  const auto read = [&] { return cache.read(on_disk.path, engine->identity(), config); };
  EXPECT_FALSE(read().ok());
  ASSERT_TRUE(write_predictor(on_disk.path, file_for(*engine, 3)).ok());
  const auto first = read().value();
  EXPECT_EQ(first->shape.seed, 3u);
  EXPECT_EQ(read().value(), first);
  ASSERT_TRUE(write_predictor(on_disk.path, file_for(*engine, 4)).ok());
  std::filesystem::last_write_time(
      on_disk.path, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(2));
  EXPECT_EQ(read().value()->shape.seed, 4u);
  std::filesystem::remove(on_disk.path);
  EXPECT_FALSE(read().ok());
}

}  // namespace
}  // namespace kvick::engine
