// Tests small models of each family, as Hugging Face's transformers saves them, against the logits
// that it computes (tests/reference/record_transformers.py), on every instruction set of this
// machine.
#include <filesystem>
#include <gtest/gtest.h>
#include <vector>

#include "folder_logits.h"
#include "quantize/quantize.h"
#include "recorded_folder.h"

#include "io/file/model_file.h"
#include "io/file/test_images.h"
#include "model/core/model.h"

namespace kvick::parity {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kTokens = 40, kVocab = 64;
// Bounds relative to the largest logit. Both have bfloat16 weights and float32 arithmetic: measured
// up to 2e-6.
constexpr double kBound = 2e-5;
// For gated delta nets, which transformers computes in chunks: measured up to 2.2e-5, and 4e-5 on
// the scalar set, which is as far from the other sets.
constexpr double kDeltaBound = 1e-4;
// For Gemma 4, whose scores are not divided: measured up to 6e-6, and 2.6e-5 with experts.
constexpr double kGemma4Bound = 5e-5;
// For experts in MXFP4, which are multiplied with inputs rounded to 8 bits.
constexpr double kBlocksBound = 2e-2;

fs::path folder() { return recorded_kind("transformers"); }

class EveryFamily : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Transformers, EveryFamily,
                         testing::ValuesIn(recorded_names("transformers")),
                         [](const auto& entry) { return entry.param; });

// Compares a folder or a GGUF file with the recorded logits, on one instruction set.
void expect_recorded(const std::string& name, const std::string& path, base::Isa isa) {
  const std::vector<float> expected =
      recorded_floats(folder() / name / "logits.bin", size_t{kTokens} * kVocab);
  const kernels::Table& kernels = kernels::table(isa);
  base::ThreadPool pool(2);
  auto file = io::ModelFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto model =
      model::Model::load(std::move(file).value(), {.kernels = &kernels, .pool = &pool});
  ASSERT_TRUE(model.ok()) << model.error().message;
  for (const uint32_t piece : {kTokens, 7U}) {
    const auto logits = logits_of(**model, pool, kernels, {.tokens = kTokens, .piece = piece});
    const bool blocks = name == "gpt_oss_mxfp4";
    const bool gemma4 = name.starts_with("gemma4");
    const bool delta = name.starts_with("qwen3_5") || name.starts_with("qwen3_next");
    EXPECT_LE(relative_error(logits, expected), blocks   ? kBlocksBound
                                                : delta  ? kDeltaBound
                                                : gemma4 ? kGemma4Bound
                                                         : kBound)
        << base::isa_name(isa) << " in pieces of " << piece;
  }
}

TEST_P(EveryFamily, HasTheLogitsOfTransformers) {
  for (const base::Isa isa : base::kIsas)
    if (base::isa_supported(isa))
      expect_recorded(GetParam(), (folder() / GetParam()).string(), isa);
}

// Uses the file that kvick quantize writes from a folder: the same weights under GGUF's names, in
// its order.
TEST_P(EveryFamily, HasThemAsAGgufFileToo) {
  const io::TestFolder made;
  const std::string out = made.path() + "/model.gguf";
  {
    const auto file = io::ModelFile::open((folder() / GetParam()).string());
    ASSERT_TRUE(file.ok()) << file.error().message;
    const auto source = quantize::Source::make(*file);
    ASSERT_TRUE(source.ok()) << source.error().message;
    const quantize::Options options = {.recipe = *quantize::find_recipe("F32")};
    auto choices = quantize::choose(*source, options);
    ASSERT_TRUE(choices.ok()) << choices.error().message;
    base::ThreadPool pool(2);
    const auto written = quantize::write(*source, options, *choices, out, pool);
    ASSERT_TRUE(written.ok()) << written.error().message;
  }
  expect_recorded(GetParam(), out, base::best_isa());
  // In GGUF, rotary divisors are tensors: other programs do not know these keys.
  const auto written = io::ModelFile::open(out);
  ASSERT_TRUE(written.ok()) << written.error().message;
  for (const auto& [key, value] : written->metadata())
    EXPECT_FALSE(key.starts_with("kvick.rope")) << key;
}

// Compares the same model in two forms: experts in MXFP4, and as the floats that transformers
// converts them to.
TEST(Transformers, ExpertsInBlocksAreThoseInFloats) {
  const auto blocks = io::ModelFile::open((folder() / "gpt_oss_mxfp4").string());
  const auto floats = io::ModelFile::open((folder() / "gpt_oss").string());
  ASSERT_TRUE(blocks.ok()) << blocks.error().message;
  ASSERT_TRUE(floats.ok()) << floats.error().message;
  ASSERT_EQ(blocks->tensors().size(), floats->tensors().size());
  EXPECT_EQ(blocks->find("blk.1.ffn_gate_exps.weight")->dtype, kernels::DType::kMXFP4);
  for (const io::Tensor& tensor : floats->tensors()) {
    const io::Tensor* other = blocks->find(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    ASSERT_EQ(other->shape, tensor.shape) << tensor.name;
    std::vector<float> expected(tensor.elements()), got(tensor.elements());
    tensor.read_floats(expected.data());
    other->read_floats(got.data());
    EXPECT_EQ(got, expected) << tensor.name;
  }
}

}  // namespace
}  // namespace kvick::parity
