#include "io/adapter/adapter_file.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "io/file/test_images.h"

namespace kvick::io {
namespace {

constexpr const char* kQ = "blk.0.attn_q.weight";

std::string floats(size_t count) { return std::string(count * sizeof(float), '\0'); }

// An adapter with 4 inputs, rank 2 and 6 outputs.
GgufImage small_gguf() {
  GgufImage image;
  image.text("general.type", "adapter").text("general.architecture", "llama");
  image.text("adapter.type", "lora").key("adapter.lora.alpha", 6, le<float>(8));
  image.tensor("blk.0.attn_q.weight.lora_a", {4, 2}, 0, floats(8));
  image.tensor("blk.0.attn_q.weight.lora_b", {2, 6}, 0, floats(12));
  return image;
}

base::Result<AdapterFile> read_gguf(const std::string& image) {
  KVICK_TRY(ModelFile file, ModelFile::parse_gguf(bytes_of(image), "a.gguf"));
  return read_gguf_adapter(std::move(file));
}

std::string peft_tensors(const std::string& module = "model.layers.0.self_attn.q_proj",
                         const std::string& b_shape = "[6,2]") {
  const std::string name = "base_model.model." + module;
  return safetensors_image(
      "{\"" + name + R"(.lora_A.weight":{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]},")" +
          name + R"(.lora_B.weight":{"dtype":"F32","shape":)" + b_shape +
          R"(,"data_offsets":[32,80]}})",
      floats(20));
}

base::Result<AdapterFile> read_peft(const std::string& image, const std::string& config) {
  KVICK_TRY(ModelFile file, ModelFile::parse_safetensors(bytes_of(image), "a.safetensors"));
  return read_peft_adapter(std::move(file), config, "adapter_config.json");
}

template <typename Read>
void expect_error(const Read& read, const char* expected) {
  ASSERT_FALSE(read.ok()) << expected;
  EXPECT_NE(read.error().message.find(expected), std::string::npos) << read.error().message;
  EXPECT_EQ(read.error().message.find('\n'), std::string::npos) << read.error().message;
}

TEST(AdapterFile, ReadsPairsAndTheFactorOfAGgufFile) {
  const std::string image = small_gguf().build();
  const auto file = read_gguf(image);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_TRUE(file->from_gguf());
  EXPECT_EQ(file->architecture, "llama");
  ASSERT_EQ(file->pairs.size(), 1U);
  EXPECT_EQ(file->pairs[0].matrix, kQ);
  EXPECT_EQ(file->pairs[0].a.shape, (std::vector<uint64_t>{2, 4}));
  EXPECT_EQ(file->pairs[0].b.shape, (std::vector<uint64_t>{6, 2}));
  EXPECT_EQ(file->pairs[0].factor, 4);
}

TEST(AdapterFile, ReadsPairsAndTheFactorOfPeft) {
  const std::string image = peft_tensors();
  const auto file = read_peft(image, R"({"peft_type":"LORA","r":2,"lora_alpha":8})");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_FALSE(file->from_gguf());
  EXPECT_EQ(file->architecture, "");
  EXPECT_EQ(file->pairs.at(0).matrix, kQ);
  EXPECT_EQ(file->pairs[0].factor, 4);
  for (const char* decoder : {"model.language_model", "language_model.model"}) {
    const std::string nested = peft_tensors(std::string(decoder) + ".layers.0.self_attn.q_proj");
    const auto read = read_peft(nested, R"({"r":2,"lora_alpha":8})");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->pairs.at(0).matrix, kQ);
  }
  const auto rooted = read_peft(image, R"({"r":2,"lora_alpha":8,"use_rslora":true})");
  ASSERT_TRUE(rooted.ok()) << rooted.error().message;
  EXPECT_FLOAT_EQ(rooted->pairs[0].factor, 8 / std::sqrt(2.0F));
}

TEST(AdapterFile, SaysWhatIsWrongWithAGgufFile) {
  GgufImage model;
  model.text("general.architecture", "llama");
  expect_error(read_gguf(model.build()), "give models with -m");
  GgufImage control;
  control.text("general.type", "adapter").text("adapter.type", "control_vector");
  expect_error(read_gguf(control.build()), "adapter.type is 'control_vector'");
  GgufImage empty;
  empty.text("general.type", "adapter").text("adapter.type", "lora");
  expect_error(read_gguf(empty.build()), "the adapter has no tensors");
  GgufImage odd = small_gguf();
  odd.tensor("blk.0.attn_norm.weight", {4}, 0, floats(4));
  expect_error(read_gguf(odd.build()), "no half of a low-rank pair");
  GgufImage half = small_gguf();
  half.tensor("blk.1.attn_q.weight.lora_a", {4, 2}, 0, floats(8));
  expect_error(read_gguf(half.build()), "the other is missing");
  GgufImage ranks = small_gguf();
  ranks.tensor("blk.1.attn_q.weight.lora_a", {4, 2}, 0, floats(8));
  ranks.tensor("blk.1.attn_q.weight.lora_b", {3, 6}, 0, floats(18));
  expect_error(read_gguf(ranks.build()), "of rank 2 and 3");
  GgufImage flat = small_gguf();
  flat.tensor("blk.1.attn_q.weight.lora_a", {4}, 0, floats(4));
  flat.tensor("blk.1.attn_q.weight.lora_b", {2, 6}, 0, floats(12));
  expect_error(read_gguf(flat.build()), "is no matrix");
  GgufImage endless;
  endless.text("general.type", "adapter").text("adapter.type", "lora");
  endless.key("adapter.lora.alpha", 6, le<float>(INFINITY));
  expect_error(read_gguf(endless.build()), "adapter.lora.alpha");
}

TEST(AdapterFile, SaysWhatIsWrongWithPeft) {
  const std::string good = peft_tensors();
  const auto with = [&](const std::string& field) {
    return read_peft(good, R"({"r":2,"lora_alpha":8,)" + field + "}");
  };
  ASSERT_TRUE(
      with(R"("bias":"none","modules_to_save":null,"rank_pattern":{},"use_dora":false)").ok());
  expect_error(with(R"("use_dora":true)"), "'use_dora' is true");
  expect_error(with(R"("modules_to_save":["lm_head"])"), "'modules_to_save' is set");
  expect_error(with(R"("rank_pattern":{"q_proj":4})"), "'rank_pattern' is set");
  expect_error(with(R"("alpha_pattern":{"q_proj":4})"), "'alpha_pattern' is set");
  expect_error(with(R"("bias":"all")"), "biases");
  for (const char* plain : {"true", "\"gaussian\"", "\"eva\""})
    EXPECT_TRUE(with(fmt::format(R"("init_lora_weights":{})", plain)).ok()) << plain;
  expect_error(with(R"("init_lora_weights":"pissa_niter_4")"), "does not fit the model");
  expect_error(with(R"("peft_type":"IA3")"), "kvick computes LORA alone");
  expect_error(with(R"("fan_in_fan_out":true)"), "'fan_in_fan_out' is true");
  expect_error(read_peft(good, "{"), "adapter_config.json");
  expect_error(read_peft(good, R"({"lora_alpha":8})"), "'r' is missing");
  expect_error(read_peft(good, R"({"r":4,"lora_alpha":8})"), "is of rank 2, but");
  const std::string head = peft_tensors("lm_head");
  expect_error(read_peft(head, R"({"r":2,"lora_alpha":8})"), "adapts what kvick does not");
  const std::string picture = peft_tensors("model.vision_tower.layers.0.self_attn.q_proj");
  expect_error(read_peft(picture, R"({"r":2,"lora_alpha":8})"), "adapts what kvick does not");
  const std::string ranks = peft_tensors("model.layers.0.self_attn.q_proj", "[4,3]");
  expect_error(read_peft(ranks, R"({"r":2,"lora_alpha":8})"), "of rank 2 and 3");
}

TEST(AdapterFile, OpensFoldersAndFilesAndSaysWhatTheyLack) {
  const TestFolder folder;
  expect_error(open_adapter(folder.path() + "/none"), "there is no such adapter");
  expect_error(open_adapter(folder.path()), "has no adapter_model.safetensors");
  const std::string tensors = folder.write("adapter_model.safetensors", peft_tensors());
  expect_error(open_adapter(folder.path()), "adapter_config.json");
  folder.write("adapter_config.json", R"({"r":2,"lora_alpha":8})");
  const auto peft = open_adapter(folder.path());
  ASSERT_TRUE(peft.ok()) << peft.error().message;
  EXPECT_EQ(peft->path, folder.path());
  expect_error(open_adapter(tensors), "give the adapter's folder");
  const auto gguf = open_adapter(folder.write("a.gguf", small_gguf().build()));
  ASSERT_TRUE(gguf.ok()) << gguf.error().message;
  EXPECT_TRUE(gguf->from_gguf());
}

// A file with changed bytes is read, or refused with one line of error.
TEST(AdapterFile, SurvivesChangedBytes) {
  std::mt19937 random(1);
  const std::string gguf = small_gguf().build(), tensors = peft_tensors();
  for (int i = 0; i < 2000; ++i) {
    std::string image = i % 2 == 0 ? gguf : tensors;
    for (int n = 0; n < 3; ++n) image[random() % image.size()] = static_cast<char>(random());
    const auto file = i % 2 == 0 ? read_gguf(image) : read_peft(image, R"({"r":2,"lora_alpha":8})");
    if (!file.ok())
      EXPECT_EQ(file.error().message.find('\n'), std::string::npos) << file.error().message;
    else
      for (const AdapterPair& pair : file->pairs)
        EXPECT_EQ(pair.a.shape.at(0), pair.b.shape.at(1)) << pair.matrix;
  }
}

}  // namespace
}  // namespace kvick::io
