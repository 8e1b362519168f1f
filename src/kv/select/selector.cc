#include "kv/select/selector.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

namespace kvick::kv {
namespace {

// Map floats to integers in the same order, and back.
uint32_t ordered(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}
float float_of(uint32_t ordered) {
  return std::bit_cast<float>((ordered >> 31) != 0 ? ordered & 0x7fffffffU : ~ordered);
}

// For fewer non-NaN scores than `taken` has room for: takes all of them and the first NaNs.
void take_numbers_first(std::span<const float> scores, std::span<uint32_t> taken) {
  size_t others = taken.size();
  for (const float score : scores) others -= std::isnan(score) ? 0 : 1;
  size_t n = 0;
  for (uint32_t i = 0; n < taken.size(); ++i) {
    if (std::isnan(scores[i]) && others == 0) continue;
    if (std::isnan(scores[i])) --others;
    taken[n++] = i;
  }
}

// Proposes thresholds, in search of one that exactly `take` scores exceed. The first two are scores
// of a sample that probably enclose it. Later ones interpolate between the bounds found so far;
// every fourth one halves the interval instead, because scores may be spread unevenly.
class Guesses {
 public:
  Guesses(std::span<const float> scores, uint32_t take) {
    if (scores.size() < 2 * kSample) return;
    std::array<float, kSample> sample;
    for (size_t i = 0; i < kSample; ++i) {
      const float score = scores[i * scores.size() / kSample];
      sample[i] = std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
    }
    const double share = static_cast<double>(take) / static_cast<double>(scores.size());
    const double spread = 2 * std::sqrt(kSample * share * (1 - share)) + 1;
    const auto place = [&](double at) {  // from the highest
      return sample.begin() + static_cast<int>(std::clamp(at, 0.0, kSample - 1.0));
    };
    const auto high = place(kSample * share - spread), low = place(kSample * share + spread);
    std::nth_element(sample.begin(), low, sample.end(), std::greater<>());
    std::nth_element(sample.begin(), high, low, std::greater<>());
    first_ = {ordered(*low), ordered(*high)};
  }

  // More than `take` scores are above `low`, fewer above `high`.
  uint32_t next(uint32_t low, size_t above_low, uint32_t high, size_t above_high, uint32_t take) {
    const uint32_t turn = turn_++;
    const auto within = [&](uint32_t x) { return x > low && x < high; };
    if (turn < first_.size() && within(first_[turn])) return first_[turn];
    const float at_low = float_of(low), at_high = float_of(high);
    if (turn % 4 != 3 && std::isfinite(at_low) && std::isfinite(at_high)) {
      const double part = (static_cast<double>(take) - static_cast<double>(above_high)) /
                          (static_cast<double>(above_low) - static_cast<double>(above_high));
      const uint32_t line = ordered(static_cast<float>(at_high + (at_low - at_high) * part));
      if (within(line)) return line;
    }
    return low + (high - low) / 2;
  }

 private:
  static constexpr size_t kSample = 128;
  std::array<uint32_t, 2> first_ = {};
  uint32_t turn_ = 0;
};

}  // namespace

// Tries thresholds until `take` scores are above one; a pass only compares. The top quarter of
// 32,600 sums of four softmaxes takes 10 passes; halving alone takes 20 to 25. With
// std::nth_element this function took 13 % of the profile of SmolLM2 decoding with maple after 7000
// tokens.
std::span<const uint32_t> highest(const kernels::Table& kernels, std::span<const float> scores,
                                  uint32_t take, base::Arena& scratch) {
  if (take == 0) return {};
  const std::span<uint32_t> taken = scratch.make<uint32_t>(take);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const uint32_t lowest = ordered(-kInfinity) - 1;
  uint32_t low = lowest, high = ordered(kInfinity);
  size_t above_low = scores.size(), above_high = 0;
  Guesses guesses(scores, take);
  while (high - low > 1) {
    const uint32_t middle = guesses.next(low, above_low, high, above_high, take);
    const size_t above = kernels.count_above(scores.data(), scores.size(), float_of(middle));
    if (above == take) {
      kernels.indices_above(scores.data(), scores.size(), float_of(middle), taken.data());
      return taken;
    }
    if (above > take)
      low = middle, above_low = above;
    else
      high = middle, above_high = above;
  }
  const float least = float_of(high);
  size_t equal = take - kernels.count_above(scores.data(), scores.size(), least), n = 0;
  if (low == lowest) {  // too few scores are above -infinity
    for (uint32_t i = 0; i < scores.size() && n < take; ++i) {
      if (!(scores[i] >= least) || (scores[i] == least && equal == 0)) continue;
      if (scores[i] == least) --equal;
      taken[n++] = i;
    }
    if (n < take) take_numbers_first(scores, taken);  // NaN is above no threshold
    return taken;
  }
  const std::span<uint32_t> found = scratch.make<uint32_t>(above_low);
  kernels.indices_above(scores.data(), scores.size(), float_of(low), found.data());
  for (size_t i = 0; n < take; ++i) {
    const bool is_equal = scores[found[i]] == least;
    if (is_equal && equal == 0) continue;
    equal -= is_equal ? 1 : 0;
    taken[n++] = found[i];
  }
  return taken;
}

}  // namespace kvick::kv
