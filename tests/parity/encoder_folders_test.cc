// Compares embeddings with those of transformers for the same folder (record_transformers.py), on
// every instruction set of this machine.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "reference.h"
#include "subject.h"

#include "base/testing/source_folder.h"

namespace kvick::parity {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kTokens = 40, kVocab = 64, kDim = 32;
// Relative to the largest number. Both have bfloat16 weights and float32 arithmetic.
constexpr double kBound = 5e-5;

fs::path folder() { return fs::path(base::source_folder()) / "tests/reference/encoders"; }

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder()))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class EveryEncoderFolder : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Transformers, EveryEncoderFolder, testing::ValuesIn(names()),
                         [](const auto& entry) { return entry.param; });

TEST_P(EveryEncoderFolder, HasTheEmbeddingOfTransformers) {
  const fs::path path = folder() / GetParam();
  std::vector<float> expected(kDim);
  std::ifstream file(path / "embedding.bin", std::ios::binary);
  file.read(reinterpret_cast<char*>(expected.data()),
            static_cast<std::streamsize>(expected.size() * sizeof(float)));
  ASSERT_TRUE(file.good());
  double largest = 0;
  for (const float number : expected) largest = std::max<double>(largest, std::fabs(number));
  std::vector<Token> tokens;
  for (uint32_t i = 0; i < kTokens; ++i) tokens.push_back(static_cast<Token>(i * 7 % kVocab));
  for (const base::Isa isa : base::kIsas) {
    if (!base::isa_supported(isa)) continue;
    const auto engine = open_engine(path.string(), isa);
    const std::vector<float> ours = pooled_of(*engine, tokens);
    ASSERT_EQ(ours.size(), expected.size());
    double worst = 0;
    for (size_t i = 0; i < ours.size(); ++i) worst = worse(worst, std::fabs(ours[i] - expected[i]));
    EXPECT_LE(worst / largest, kBound) << base::isa_name(isa);
  }
}

}  // namespace
}  // namespace kvick::parity
