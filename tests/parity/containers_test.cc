// Compares the same weights as GGUF and as a Hugging Face folder, in everything in which the two
// differ: names, order of rotated rows, rotary scaling as keys or as a tensor, shards, tied output.
#include <cmath>
#include <gtest/gtest.h>

#include "reference.h"
#include "subject.h"

namespace kvick::parity {
namespace {

using Arguments = std::vector<std::string>;

class EveryModel : public testing::TestWithParam<Arguments> {};
INSTANTIATE_TEST_SUITE_P(
    Containers, EveryModel,
    testing::Values(Arguments{"--arch", "llama"}, Arguments{"--arch", "qwen2", "--shards", "3"},
                    Arguments{"--arch", "qwen3", "--head-dim", "96"},
                    Arguments{"--arch", "llama", "--type", "BF16", "--tied", "--shards", "2"},
                    Arguments{"--arch", "qwen2", "--type", "F16", "--tied"},
                    Arguments{"--context", "256", "--rope-scaling", "linear:4"},
                    Arguments{"--context", "256", "--rope-scaling", "llama3:8"},
                    Arguments{"--context", "256", "--rope-scaling", "yarn:4"},
                    Arguments{"--arch", "qwen3", "--context", "256", "--rope-scaling", "yarn:4"}));

TEST_P(EveryModel, GivesTheSameLogitsFromBothContainers) {
  Arguments arguments = GetParam();
  std::vector<Token> ids;
  for (Token i = 0; i < 64; ++i) ids.push_back(i * 37 % 509);
  const auto gguf = logits_of(*open_engine(make_model(arguments, "one.gguf")), ids);
  arguments.insert(arguments.end(), {"--format", "hf"});
  const auto folder = logits_of(*open_engine(make_model(arguments, "two")), ids);
  ASSERT_EQ(gguf.size(), folder.size());
  double worst = 0, largest = 0;
  for (size_t i = 0; i < gguf.size(); ++i) {
    worst = worse(worst, std::fabs(gguf[i] - folder[i]));
    largest = std::max<double>(largest, std::fabs(gguf[i]));
  }
  // The weights are equal; only the sums over a head's elements run in another order.
  EXPECT_LE(worst / largest, 1e-5);
}

}  // namespace
}  // namespace kvick::parity
