#include "plan/forecast/sample.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan/forecast/test_attention.h"

namespace kvick::plan {
namespace {

constexpr char kShape[] = "layers=9,heads=8,kv_heads=2,head_dim=32,dim=256,ffn=512,vocab=40";

TEST(Sample, HasTheLayersOfTheShapeWithTheTypesOfTheirWeights) {
  ModelSize size = parse_shape(kShape).value();
  // As in files of mixed types, a layer in the middle has a larger type.
  for (io::Tensor& tensor : size.tensors)
    if (tensor.name == "blk.4.ffn_down.weight") tensor.dtype = kernels::DType::kF32;
  base::ThreadPool pool(1);
  const auto bytes = [&](uint32_t layers) {
    const auto model = make_sample(size, layers, pool, kernels::table(base::best_isa()));
    EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
    EXPECT_EQ(model->model->config().layer_count(), layers);
    EXPECT_EQ(model->model->config().dim, 256u);
    return model->model->weights().layers.bytes;
  };
  const uint64_t one = bytes(1);  // layer 0
  EXPECT_GT(bytes(2), 2 * one);   // 0 and 4
  // Each sample has the norm after the last layer once.
  constexpr uint64_t kNorm = 256 * sizeof(float);
  EXPECT_EQ(bytes(3), 3 * one - 2 * kNorm);  // 0, 3 and 6
  EXPECT_EQ(bytes(9), 7 * one + bytes(2) - 7 * kNorm);
}

TEST(Sample, RefusesLayersThatNoMemoryHolds) {
  const ModelSize size =
      parse_shape("layers=2,heads=4,kv_heads=2,head_dim=32,dim=16777216,ffn=16777216").value();
  base::ThreadPool pool(1);
  const auto model = make_sample(size, 1, pool, kernels::table(base::best_isa()));
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("bytes of memory to measure, but only"), std::string::npos);
}

TEST(Sample, TakesItsLayersNumbersOutOfArrays) {
  ModelSize size = parse_shape(kShape).value();
  std::vector<uint64_t> ffn(9, 512);
  ffn[3] = 256;
  size.metadata["llama.feed_forward_length"] = {ffn};
  for (io::Tensor& tensor : size.tensors)
    if (tensor.name.starts_with("blk.3.ffn_") && tensor.shape.size() == 2)
      for (uint64_t& n : tensor.shape) n = n == 512 ? 256 : n;
  base::ThreadPool pool(1);
  const auto model = make_sample(size, 3, pool, kernels::table(base::best_isa()));
  ASSERT_TRUE(model.ok()) << model.error().message;
  const std::vector<model::LayerConfig>& layers = model->model->config().layers;
  EXPECT_EQ(layers[0].ffn, 512u);  // 0, 3 and 6
  EXPECT_EQ(layers[1].ffn, 256u);
  EXPECT_EQ(layers[2].ffn, 512u);
}

TEST(Sample, HasItsShareOfEachKindOfLayers) {
  const ModelSize size = mixed_size();
  EXPECT_EQ(sample_layers(size.config, 1), (std::vector<uint32_t>{0, 2, 6, 8}));
  EXPECT_EQ(sample_layers(size.config, 3), (std::vector<uint32_t>{0, 2, 4, 6, 8}));
  EXPECT_EQ(sample_layers(size.config, 9).size(), 9u);
  base::ThreadPool pool(1);
  for (const uint32_t layers : {1, 3, 9}) {
    const auto sample = make_sample(size, layers, pool, kernels::table(base::best_isa()));
    ASSERT_TRUE(sample.ok()) << sample.error().message;
    const std::vector<model::LayerConfig>& made = sample->model->config().layers;
    const std::vector<uint32_t> chosen = sample_layers(size.config, layers);
    ASSERT_EQ(made.size(), chosen.size());
    for (size_t i = 0; i < made.size(); ++i) {
      EXPECT_EQ(made[i].window, size.config.layers[chosen[i]].window) << chosen[i];
      EXPECT_EQ(made[i].owns_rows(), chosen[i] < 6) << chosen[i];
    }
  }
}

TEST(Sample, SaysWhichLayerItCannotFollow) {
  ModelSize size = mixed_size();
  size.config.layers[2].softcap = 3;  // as a family might have it in layer 2 alone
  base::ThreadPool pool(1);
  const auto sample = make_sample(size, 3, pool, kernels::table(base::best_isa()));
  ASSERT_FALSE(sample.ok());
  EXPECT_EQ(sample.error().message, "layer 2 of llama is another one in a sample of 6 layers");
}

TEST(Sample, SaysWhichTensorHasNoLayersNumber) {
  base::ThreadPool pool(1);
  for (const char* name : {"blk.99999999999999999999.x", "blk.x", "blk.", "blk.-1.x", "blk.1"}) {
    ModelSize size = parse_shape(kShape).value();
    size.tensors.push_back(
        {.name = name, .dtype = kernels::DType::kF32, .shape = {32}, .data = {}});
    const auto model = make_sample(size, 2, pool, kernels::table(base::best_isa()));
    ASSERT_FALSE(model.ok()) << name;
    EXPECT_EQ(model.error().message,
              fmt::format("the tensor {} has no layer's number behind blk.", name));
  }
}

TEST(Sample, RunsForwardsBehindRandomRowsAndKeepsNone) {
  Machinery m("virtual", 2);
  m.setup.shape.max_tokens = 64;
  for (const char* type : {"Q8_0", "Q4_K", "F32", "F16"}) {
    ModelSize size = parse_shape(fmt::format("{},type={}", kShape, type)).value();
    // As in files whose output layer is not tied to the table of tokens.
    size.tensors.push_back(
        {.name = "output.weight", .dtype = kernels::DType::kF16, .shape = {40, 256}, .data = {}});
    auto model = make_sample(size, 2, m.pool, m.workspace.kernels);
    ASSERT_TRUE(model.ok()) << model.error().message;
    auto sample = Sample::make(std::move(model).value(), *kv::parse_spec("virtual"), m.setup,
                               {m.pool, m.workspace.kernels}, base::steady_seconds);
    ASSERT_TRUE(sample.ok()) << sample.error().message;
    sample->open(3);
    ASSERT_TRUE(sample->fill(40).ok());
    for (int i = 0; i < 3; ++i) {
      const auto seconds = sample->forward(20, i == 2);
      ASSERT_TRUE(seconds.ok()) << seconds.error().what;
      EXPECT_GT(seconds->forward, 0);
    }
    EXPECT_FALSE(sample->forward(30, false).ok()) << "only 24 rows are left";
  }
}

}  // namespace
}  // namespace kvick::plan
