// Compares greedy continuations and the perplexity of the default model with llama.cpp's.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <limits>
#include <numeric>

#include "reference.h"
#include "subject.h"

#include "base/testing/source_folder.h"
#include "engine/eval/perplexity.h"

namespace kvick::parity {
namespace {

engine::Engine* shared_engine() {
  static const std::unique_ptr<engine::Engine> kEngine =
      default_model() ? open_engine(*default_model()) : nullptr;
  return kEngine.get();
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

// Counts the steps at which kvick would choose another token than the peer, after the same tokens.
struct Steps {
  size_t all = 0, first = 0, differing = 0;
  size_t exact_ours = 0, exact_peers = 0;  // steps that agree with the widened weights
};

Steps compare(const Greedy& peer, const std::vector<float>& logits, double tie) {
  Steps steps;
  steps.all = steps.first = peer.best.size();
  const size_t vocab = logits.size() / (peer.ids.size() + steps.all - 1);
  for (size_t i = 0; i < steps.all; ++i) {
    const float* row = logits.data() + (peer.ids.size() - 1 + i) * vocab;
    const auto ours = static_cast<Token>(std::max_element(row, row + vocab) - row);
    const std::vector<Token>& best = peer.best[i];
    steps.exact_ours += ours == peer.exact[i];
    steps.exact_peers += best[0] == peer.exact[i];
    if (ours == best[0]) continue;
    steps.first = std::min(steps.first, i);
    ++steps.differing;
    const size_t rank =
        static_cast<size_t>(std::find(best.begin(), best.end(), ours) - best.begin());
    const double gap =
        rank < best.size() ? peer.below[i][rank] : std::numeric_limits<double>::infinity();
    EXPECT_LE(gap, tie) << "step " << i << " of: " << peer.text;
  }
  return steps;
}

// After the first different token two continuations are different texts, so every step is compared
// after the peer's tokens. A step may differ only at a near-tie: the gap between the peer's choice
// and kvick's must not exceed the gap change that the peer's own rounding caused, compared with the
// same weights widened to float32. (llama.cpp with flash attention on and off gives the same 32
// tokens for 7 of these 20 prompts.)
TEST(Greedy, ContinuesTwentyPromptsAsThePeerDoesButForNearTies) {
  if (shared_engine() == nullptr) GTEST_SKIP() << "KVICK_TEST_MODEL is not set";
  engine::Engine& engine = *shared_engine();
  const Case noise = load_case("smollm2");
  const double tie = gap_deviation(noise.peer, noise.exact);
  Steps sum;
  size_t identical = 0;
  for (const Greedy& peer : load_greedy()) {
    EXPECT_EQ(engine.tokenizer().encode(peer.text, false, true), peer.ids) << peer.text;
    std::vector<Token> read = peer.ids;
    for (size_t i = 0; i + 1 < peer.best.size(); ++i) read.push_back(peer.best[i][0]);
    const Steps steps = compare(peer, logits_of(engine, read, kernels::DType::kF16), tie);
    identical += steps.differing == 0;
    sum.all += steps.all, sum.differing += steps.differing;
    sum.exact_ours += steps.exact_ours, sum.exact_peers += steps.exact_peers;
  }
  fmt::print(
      "{} of {} steps differ, at gaps below {:.2f}; {} prompts all the same; {} steps as the "
      "widened weights choose, the peer {}\n",
      sum.differing, sum.all, tie, identical, sum.exact_ours, sum.exact_peers);
  EXPECT_EQ(sum.all, 640u);
  // Each engine misses the widened weights' choice at about 20 steps by chance. The bound is three
  // standard deviations of the difference.
  EXPECT_GE(sum.exact_ours + 20, sum.exact_peers);
}

double perplexity_of(const Perplexity& reference, uint32_t windows) {
  const auto begin = reference.window_nll.begin();
  return std::exp(std::accumulate(begin, begin + windows, 0.0) /
                  (windows * (reference.window - 1)));
}

double our_perplexity(const Perplexity& reference, const std::string& text, uint32_t windows) {
  engine::Engine& engine = *shared_engine();
  std::vector<Token> ids = engine.tokenizer().encode(text, false, false);
  const size_t tokens = reference.window * reference.window_nll.size();
  KVICK_CHECK(ids.size() >= tokens, "{} tokens of {}", ids.size(), tokens);
  ids.resize(tokens);
  KVICK_CHECK_EQ(crc32(std::as_bytes(std::span(ids))), reference.ids_crc32);
  engine::PerplexityOptions options;
  options.window = reference.window;
  options.most = reference.window * windows;
  const auto ours = engine::perplexity(engine, ids, options);
  KVICK_CHECK(ours.ok(), "{}", ours.error().message);
  EXPECT_EQ(ours->tokens, windows * (reference.window - 1));
  return ours->perplexity;
}

// Returns the allowed relative difference between two engines that round differently. By chance:
// llama.cpp's rounding alone moves one window of 1023 tokens by 0.4 % (root mean square over the
// six windows for which the widened weights' result is recorded). So the difference of two engines
// has a standard deviation of about 0.5 % over the root of the number of windows. Three times that
// is allowed, and at least the promised 0.5 %. Two windows have been 0.4 % and 0.01 % apart with
// kernels that differ only in the order of sums, all 64 of wikitext 0.04 %.
double allowance(uint32_t windows) { return std::max(0.005, 0.015 / std::sqrt(windows)); }

TEST(Perplexity, OfTheLicenceIsThePeersAndThatOfTheWeights) {
  if (shared_engine() == nullptr) GTEST_SKIP() << "KVICK_TEST_MODEL is not set";
  const Perplexity peer = load_perplexity("LICENSE"), exact = load_perplexity("LICENSE.exact");
  const std::string text = contents(base::source_folder() + "/LICENSE");
  const double ours = our_perplexity(peer, text, 2);
  fmt::print("perplexity {:.4f}; the peer's {:.4f}, of the widened weights {:.4f}\n", ours,
             perplexity_of(peer, 2), perplexity_of(exact, 2));
  EXPECT_NEAR(ours / perplexity_of(peer, 2), 1, allowance(2));
  EXPECT_NEAR(ours / perplexity_of(exact, 2), 1, allowance(2));
}

// All 64 windows take a minute on two cores, so they are read only if KVICK_TEST_FULL is set
// (measured then: 19.829 against 19.837).
TEST(Perplexity, OfWikitextIsThePeers) {
  const auto path = data_file("text/wikitext2-valid.txt");
  if (shared_engine() == nullptr || !path)
    GTEST_SKIP() << "KVICK_TEST_MODEL or KVICK_TEST_DATA is not set";
  const Perplexity peer = load_perplexity("wikitext2-valid");
  const uint32_t windows = std::getenv("KVICK_TEST_FULL") != nullptr ? 64 : 4;
  const double ours = our_perplexity(peer, contents(*path), windows);
  fmt::print("{} windows: perplexity {:.4f}, the peer's {:.4f}\n", windows, ours,
             perplexity_of(peer, windows));
  EXPECT_NEAR(ours / perplexity_of(peer, windows), 1, allowance(windows));
}

}  // namespace
}  // namespace kvick::parity
