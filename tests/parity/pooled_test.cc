// Compares embeddings and rerankers' scores with llama.cpp's for the same file and tokens, on every
// instruction set of this machine.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "reference.h"
#include "subject.h"

#include "engine/answer/pool.h"

namespace kvick::parity {
namespace {

// Bounds relative to the largest number, or to 1 for a score. llama.cpp looks up gelu in a table of
// float16: measured up to 4e-4, and 2e-5 with such a table in kvick too.
constexpr double kPooledBound = 5e-5, kPooledGeluBound = 1e-3;

double bound_of(const std::string& name) {
  const bool silu = name.starts_with("qwen3") || name.starts_with("nomic-bert-F32") ||
                    name.starts_with("modern-bert-silu");
  return silu ? kPooledBound : kPooledGeluBound;
}

bool scores(const std::string& name) { return name.find("rank") != std::string::npos; }

// Returns the score from llama.cpp's labels: it returns a single label unchanged, and two labels as
// shares of 1.
std::vector<float> score_of(const std::vector<float>& labels) {
  return {labels.size() > 1 ? labels[0] : 1 / (1 + std::exp(-labels[0]))};
}

class EveryPooled : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Pooled, EveryPooled, testing::ValuesIn(pooled_names()),
                         [](const auto& entry) {
                           std::string name = entry.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(EveryPooled, AgreesWithThePeer) {
  const Pooled recorded = load_pooled(GetParam());
  const bool score = scores(GetParam());
  const std::vector<float> peer = score ? score_of(recorded.values) : recorded.values;
  const double largest =
      score ? 1 : std::fabs(*std::max_element(peer.begin(), peer.end(), [](float a, float b) {
        return std::fabs(a) < std::fabs(b);
      }));
  const auto path = model_of(recorded.of);
  ASSERT_TRUE(path.has_value());
  for (const base::Isa isa : base::kIsas) {
    if (!base::isa_supported(isa)) continue;
    SCOPED_TRACE(base::isa_name(isa));
    const auto engine = open_engine(*path, isa);
    const std::vector<float> ours = pooled_of(*engine, recorded.of.ids);
    ASSERT_EQ(ours.size(), peer.size());
    double worst = 0;
    for (size_t i = 0; i < ours.size(); ++i) worst = worse(worst, std::fabs(ours[i] - peer[i]));
    EXPECT_LE(worst / largest, bound_of(GetParam()));
    if (!score) {
      EXPECT_GE(engine::cosine(ours, peer), 1 - 1e-6);
    }
  }
}

}  // namespace
}  // namespace kvick::parity
