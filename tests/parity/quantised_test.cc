// Tests small llamas in the folders that quantisers write (tests/reference/record_quantised.py).
// Compares a module's weights with those of the package that reads the format, and the logits with
// those that transformers computes from such weights.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <vector>

#include "folder_logits.h"
#include "recorded_folder.h"

#include "io/file/model_file.h"

namespace kvick::parity {
namespace {

namespace fs = std::filesystem;
using kernels::DType;

constexpr uint32_t kTokens = 16, kVocab = 64;
// Bounds relative to the largest logit. Matrices of F16 are multiplied as they are or rounded to
// BF16: measured up to 4e-3. Blocks are multiplied with inputs rounded to 8 bits: up to 1.7e-2.
constexpr double kBoundF16 = 5e-3, kBoundBlocks = 2e-2;

fs::path folder() { return recorded_kind("quantised"); }

class EveryFormat : public testing::TestWithParam<std::string> {
 protected:
  static std::string path() { return (folder() / GetParam()).string(); }
};
INSTANTIATE_TEST_SUITE_P(Quantised, EveryFormat, testing::ValuesIn(recorded_names("quantised")),
                         [](const auto& entry) { return entry.param; });

// Returns the allowed difference between a weight and the package's float32 value. F16 rounds once.
// Blocks with F16 scales are exact, as are those with BF16 scales that are not too small for F16.
// Q4_1 rounds the product of a scale and a zero point of up to 15 to float16.
double allowed(DType type, double weight, double step) {
  if (type == DType::kF16) return std::max(std::fabs(weight) / 2048, std::ldexp(1.0, -25));
  if (type == DType::kQ4_1) return step / 128;
  return 0;
}

TEST_P(EveryFormat, HasTheWeightsOfItsPackage) {
  const auto file = io::ModelFile::open(path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto recorded =
      io::ModelFile::open_for_inspection((folder() / GetParam() / "expected.safetensors").string());
  ASSERT_TRUE(recorded.ok()) << recorded.error().message;
  const io::Tensor* wanted = recorded->find("model.layers.0.mlp.down_proj.weight");
  const io::Tensor* got = file->find("blk.0.ffn_down.weight");
  ASSERT_TRUE(wanted != nullptr && got != nullptr);
  ASSERT_EQ(got->shape, wanted->shape);
  std::vector<float> expected(wanted->elements()), weights(got->elements());
  wanted->read_floats(expected.data());
  got->read_floats(weights.data());
  float step = 0;  // the matrix's largest step: a sixteenth of the widest group's range
  for (const float weight : expected) step = std::max(step, std::fabs(weight) / 8);
  for (size_t i = 0; i < weights.size(); ++i)
    ASSERT_LE(std::fabs(weights[i] - expected[i]), allowed(got->dtype, expected[i], step)) << i;
}

TEST_P(EveryFormat, HasTheLogitsOfTransformers) {
  const std::vector<float> expected =
      recorded_floats(folder() / GetParam() / "logits.bin", size_t{kTokens} * kVocab);
  for (const base::Isa isa : base::kIsas) {
    if (!base::isa_supported(isa)) continue;
    const kernels::Table& kernels = kernels::table(isa);
    base::ThreadPool pool(2);
    auto file = io::ModelFile::open(path());
    ASSERT_TRUE(file.ok()) << file.error().message;
    const DType type = file->find("blk.0.ffn_down.weight")->dtype;
    const double bound = type == DType::kF16 ? kBoundF16 : kBoundBlocks;
    const auto model =
        model::Model::load(std::move(file).value(), {.kernels = &kernels, .pool = &pool});
    ASSERT_TRUE(model.ok()) << model.error().message;
    const auto logits = logits_of(**model, pool, kernels, {.tokens = kTokens, .piece = 7});
    EXPECT_LE(relative_error(logits, expected), bound) << base::isa_name(isa);
  }
}

}  // namespace
}  // namespace kvick::parity
