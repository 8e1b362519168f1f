#include "engine/sampling/token_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace kvick::engine {
namespace {

using kernels::kWeightBlock;
constexpr float kLeast = std::numeric_limits<float>::min();

uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

size_t blocks_of(size_t tokens) { return (tokens + kWeightBlock - 1) / kWeightBlock; }

// Calls found(i, weights[i]) for all weights of at least `least` > 0, in order. sums: the sum of
// each block's weights.
template <class Found>
void for_each_above(std::span<const float> weights, std::span<const double> sums, float least,
                    Found found) {
  for (size_t b = 0; b < sums.size(); ++b) {
    if (sums[b] < double{least}) continue;
    const size_t end = std::min(weights.size(), (b + 1) * kWeightBlock);
    for (size_t i = b * kWeightBlock; i < end; ++i)
      if (weights[i] >= least) found(i, weights[i]);
  }
}

// Returns the weighted sum of (logit - highest) * scale. Skips tokens of weight 0, whose logit may
// be minus infinity.
double weighted_sum(std::span<const float> weights, std::span<const float> scaled) {
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i)
    if (weights[i] > 0) sum += double{weights[i]} * double{scaled[i]};
  return sum;
}

}  // namespace

void TokenWeights::weigh(const kernels::Table& kernels, std::span<float> logits, float highest,
                         float scale, bool with_surprise) {
  weights_ = logits;
  if (with_surprise) {
    scaled_.resize(logits.size());
    for (size_t i = 0; i < logits.size(); ++i) scaled_[i] = (logits[i] - highest) * scale;
  }
  sums_.resize(blocks_of(logits.size()));
  kernels.weigh_tokens(logits.data(), logits.size(), highest, scale, sums_.data());
}

double TokenWeights::total() const { return std::accumulate(sums_.begin(), sums_.end(), 0.0); }

float TokenWeights::highest() const { return *std::max_element(weights_.begin(), weights_.end()); }

double TokenWeights::entropy() const {
  return std::log(total()) - weighted_sum(weights_, scaled_) / total();
}

// Zeroes all weights below `least`, and those equal to it after index last_equal; updates sums_.
void TokenWeights::keep_above(float least, size_t last_equal) {
  for (size_t b = 0; b < sums_.size(); ++b) {
    const bool any = sums_[b] >= double{least};
    sums_[b] = 0;
    const size_t end = std::min(weights_.size(), (b + 1) * kWeightBlock);
    for (size_t i = b * kWeightBlock; any && i < end; ++i) {
      if (weights_[i] < least || (weights_[i] == least && i > last_equal)) weights_[i] = 0;
      sums_[b] += double{weights_[i]};
    }
  }
}

// Finds the least kept weight by a radix search over its bits, from the highest: the bits of
// positive floats are in the same order as the floats.
void TokenWeights::keep_nucleus(float share) {
  const double total = this->total();
  const double goal = double{share} * total;
  // All tokens lighter than this together weigh less than the share that is dropped.
  const double light = (1 - double{share}) * total / static_cast<double>(weights_.size());
  float least = std::max(static_cast<float>(light * 0.999), kLeast);
  constexpr uint32_t kShifts[] = {17, 6, 0};
  uint32_t prefix = 0, prefix_shift = 31;
  double heavier = 0;  // weight of the tokens above the prefix
  for (const uint32_t shift : kShifts) {
    const uint32_t first = prefix << (prefix_shift - shift);
    bins_.assign(shift == 17 ? (bits_of(1) >> 17) + 1 : size_t{1} << (prefix_shift - shift), 0);
    for_each_above(weights_, sums_, least, [&](size_t, float weight) {
      const uint32_t bits = bits_of(weight);
      if (bits >> prefix_shift == prefix) bins_[(bits >> shift) - first] += double{weight};
    });
    size_t bin = bins_.size() - 1;
    while (bin > 0 && heavier + bins_[bin] < goal) heavier += bins_[bin--];
    prefix = first + static_cast<uint32_t>(bin);
    prefix_shift = shift;
    least = std::max(least, std::bit_cast<float>(prefix << shift));
  }
  size_t last = weights_.size();
  for_each_above(weights_, sums_, least, [&](size_t i, float weight) {
    if (weight != least || heavier >= goal) return;
    heavier += double{weight};
    last = i;
  });
  keep_above(least, last);
}

// With x = (logit - highest) * scale, a token's surprise is log(total) - x, and the expected
// surprise is log(total) minus the mean of x: their distance needs no logarithm.
void TokenWeights::keep_typical(float share) {
  const double total = this->total();
  const double mean = weighted_sum(weights_, scaled_) / total;
  // A heap with the nearest first: sorting a whole vocabulary would cost more than all the rest.
  strangest_.clear();
  for_each_above(weights_, sums_, kLeast, [&](size_t i, float) {
    strangest_.emplace_back(std::abs(double{scaled_[i]} - mean), i);
  });
  std::make_heap(strangest_.begin(), strangest_.end(), std::greater<>());
  double kept = 0;
  while (!strangest_.empty() && kept < double{share} * total) {
    std::pop_heap(strangest_.begin(), strangest_.end(), std::greater<>());
    kept += double{weights_[strangest_.back().second]};
    strangest_.pop_back();
  }
  for (const auto& [distance, i] : strangest_) {
    sums_[i / kWeightBlock] -= double{weights_[i]};
    weights_[i] = 0;
  }
}

void TokenWeights::drop_top(float share) {
  const double goal = std::max(double{share} * total(), double{kLeast});
  const auto least = static_cast<float>(goal * 0.999);  // rounding up could miss tokens
  size_t unlikeliest = 0;
  float its_weight = std::numeric_limits<float>::max();
  for_each_above(weights_, sums_, least, [&](size_t i, float weight) {
    if (double{weight} < goal || weight > its_weight) return;
    its_weight = weight;
    unlikeliest = i;
  });
  for_each_above(weights_, sums_, least, [&](size_t i, float weight) {
    if (double{weight} < goal || i == unlikeliest) return;
    sums_[i / kWeightBlock] -= double{weight};
    weights_[i] = 0;
  });
}

size_t TokenWeights::draw(double u) const {
  const double total = this->total();
  // Stays below the total even if the product is rounded up to it.
  const double goal = std::min(u * total, std::nextafter(total, 0.0));
  double before = 0;
  size_t b = 0;
  while (b + 1 < sums_.size() && before + sums_[b] <= goal) before += sums_[b++];
  size_t i = b * kWeightBlock;
  while (i + 1 < weights_.size() && before + double{weights_[i]} <= goal)
    before += double{weights_[i++]};
  return i;
}

double entropy_share(const kernels::Table& kernels, std::span<const float> logits, float highest) {
  if (logits.size() < 2) return 0;
  std::vector<float> weights(logits.begin(), logits.end());
  TokenWeights all;
  all.weigh(kernels, weights, highest, 1, true);
  return all.entropy() / std::log(static_cast<double>(logits.size()));
}

}  // namespace kvick::engine
