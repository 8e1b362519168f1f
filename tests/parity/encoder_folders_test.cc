// Compares embeddings with those of transformers for the same folder (record_transformers.py), on
// every instruction set of this machine.
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "recorded_folder.h"
#include "subject.h"

namespace kvick::parity {
namespace {

constexpr uint32_t kTokens = 40, kDim = 32;
// Relative to the largest number. Both have bfloat16 weights and float32 arithmetic.
constexpr double kBound = 5e-5;

class EveryEncoderFolder : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Transformers, EveryEncoderFolder,
                         testing::ValuesIn(recorded_names("encoders")),
                         [](const auto& entry) { return entry.param; });

TEST_P(EveryEncoderFolder, HasTheEmbeddingOfTransformers) {
  const std::filesystem::path path = recorded_kind("encoders") / GetParam();
  const std::vector<float> expected = recorded_floats(path / "embedding.bin", kDim);
  for (const base::Isa isa : base::kIsas) {
    if (!base::isa_supported(isa)) continue;
    const auto engine = open_engine(path.string(), isa);
    const std::vector<float> ours = pooled_of(*engine, recorded_tokens(kTokens));
    EXPECT_LE(relative_error(ours, expected), kBound) << base::isa_name(isa);
  }
}

}  // namespace
}  // namespace kvick::parity
