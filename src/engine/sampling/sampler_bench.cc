// Times the choice of a token: sampler_bench [VOCABULARY...]. Not a test, but the measure by which
// engine/sampling/sampler.cc is tuned.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <random>

#include "engine/sampling/sampler.h"

namespace {

using kvick::engine::Sampler;
using kvick::engine::Sampling;

// Returns microseconds per token after a prompt of 4096 tokens, the median of 31.
double time_of(const Sampling& sampling, const std::vector<float>& logits) {
  Sampler sampler(sampling, kvick::kernels::table(kvick::base::best_isa()));
  for (kvick::engine::Token token = 0; token < 4096; ++token) sampler.accept_prompt(token % 1000);
  std::vector<double> times;
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < 31; ++i) {
    std::vector<float> copy = logits;
    const auto began = Clock::now();
    sampler.accept(sampler.choose(copy));
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count());
  }
  std::nth_element(times.begin(), times.begin() + 15, times.end());
  return times[15];
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<size_t> vocabularies;
  for (int i = 1; i < argc; ++i) vocabularies.push_back(std::strtoull(argv[i], nullptr, 10));
  if (vocabularies.empty()) vocabularies = {49152, 151936};
  const std::pair<const char*, Sampling> kinds[] = {
      {"greedy", {.temperature = 0}},
      {"all tokens", {.temperature = 1, .top_k = 0, .top_p = 1}},
      {"top-p 0.95", {.temperature = 1, .top_k = 0, .top_p = 0.95F}},
      {"min-p 0.05", {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0.05F}},
      {"top-k 40, top-p 0.95", {.temperature = 1, .top_k = 40, .top_p = 0.95F}},
      {"top-k 5000", {.temperature = 1, .top_k = 5000, .top_p = 1}},
      {"typical-p 0.9", {.temperature = 1, .top_k = 0, .top_p = 1, .typical_p = 0.9F}},
      {"top-n-sigma 1", {.temperature = 1, .top_k = 0, .top_p = 1, .top_n_sigma = 1}},
      {"dynamic temperature", {.temperature = 1, .top_k = 0, .top_p = 1, .dynatemp_range = 0.5F}},
      {"DRY", {.temperature = 1, .top_k = 0, .top_p = 1, .dry = {.multiplier = 0.8F}}},
      {"XTC", {.temperature = 1, .top_k = 0, .top_p = 1, .xtc = {.probability = 1}}},
      {"Mirostat 1", {.temperature = 1, .mirostat = {.version = 1}}},
      {"Mirostat 2", {.temperature = 1, .mirostat = {.version = 2}}},
  };
  fmt::print("{:>12} {:>22} {:>16} {:>16}\n", "vocabulary", "", "flat, us", "peaked, us");
  for (const size_t vocab : vocabularies)
    for (const auto& [name, sampling] : kinds) {
      std::mt19937 random(1);
      // Logits as of random weights, and as of a trained model, where few are near the highest.
      std::normal_distribution<float> flat(0, 1), peaked(-12, 3);
      std::vector<float> even(vocab), steep(vocab);
      for (float& logit : even) logit = flat(random);
      for (float& logit : steep) logit = peaked(random);
      steep[vocab / 2] = 6;
      fmt::print("{:>12} {:>22} {:>16.1f} {:>16.1f}\n", vocab, name, time_of(sampling, even),
                 time_of(sampling, steep));
    }
}
