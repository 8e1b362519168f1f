#include "engine/answer/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace kvick::engine {
namespace {

using base::fail;

// A vocabulary is searched in blocks; most hold no token that is likely enough.
constexpr size_t kBlock = kernels::kWeightBlock;

// A NaN counts as lower than every number.
float highest_of(std::span<const float> logits) {
  constexpr size_t kLanes = 16;  // for the compiler to vectorise
  float answers[kLanes];
  std::fill_n(answers, kLanes, -INFINITY);
  const size_t whole = logits.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes)
    for (size_t l = 0; l < kLanes; ++l)
      answers[l] = logits[i + l] > answers[l] ? logits[i + l] : answers[l];
  float highest = *std::max_element(answers, answers + kLanes);
  for (const float logit : logits.subspan(whole)) highest = logit > highest ? logit : highest;
  return highest;
}

Token greedy(std::span<const float> logits) {
  float best = -INFINITY;
  size_t at = 0;
  for (size_t i = 0; i < logits.size(); i += kBlock) {
    const auto block = logits.subspan(i, std::min(kBlock, logits.size() - i));
    const float highest = highest_of(block);
    if (!(highest > best)) continue;
    best = highest;
    at = i + static_cast<size_t>(std::find(block.begin(), block.end(), highest) - block.begin());
  }
  return static_cast<Token>(at);
}

// Uniform in [0, 1) from the top 53 bits: std::uniform_real_distribution differs between standard
// libraries.
double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

// Calls found(i, weights[i]) for all weights of at least `least` > 0, in order. sums: of blocks.
template <class Found>
void for_each_above(std::span<const float> weights, std::span<const double> sums, float least,
                    Found found) {
  for (size_t b = 0; b < sums.size(); ++b) {
    if (sums[b] < double{least}) continue;
    const size_t end = std::min(weights.size(), (b + 1) * kBlock);
    for (size_t i = b * kBlock; i < end; ++i)
      if (weights[i] >= least) found(i, weights[i]);
  }
}

}  // namespace

base::Status<> check(const Sampling& s, uint32_t vocab) {
  if (!(s.temperature >= 0) || !std::isfinite(s.temperature))
    return fail("temperature is {}, but must be 0 (greedy) or more", s.temperature);
  if (!(s.top_p > 0 && s.top_p <= 1)) return fail("top-p is {}, outside (0, 1]", s.top_p);
  if (!(s.min_p >= 0 && s.min_p <= 1)) return fail("min-p is {}, outside [0, 1]", s.min_p);
  if (!(s.repetition_penalty > 0) || !std::isfinite(s.repetition_penalty))
    return fail("repetition penalty is {}, but must be above 0 (1 is off)", s.repetition_penalty);
  for (const float penalty : {s.presence_penalty, s.frequency_penalty})
    if (!(std::abs(penalty) <= 100))
      return fail("presence and frequency penalties are at most 100 in size, not {}", penalty);
  for (const auto& [token, bias] : s.logit_bias) {
    if (token < 0 || static_cast<uint32_t>(token) >= vocab)
      return fail("logit bias for token {}, but the vocabulary ends at {}", token, vocab - 1);
    if (std::isnan(bias)) return fail("logit bias of token {} is not a number", token);
  }
  return base::Done{};
}

Sampler::Sampler(Sampling sampling, const kernels::Table& kernels)
    : sampling_(std::move(sampling)),
      kernels_(&kernels),
      random_(sampling_.seed),
      penalties_({.repetition = sampling_.repetition_penalty,
                  .presence = sampling_.presence_penalty,
                  .frequency = sampling_.frequency_penalty},
                 sampling_.penalty_window) {}

// Sets top_ to the `keep` likeliest tokens, of equal ones the first.
void Sampler::take_likeliest(std::span<const float> logits, size_t keep) {
  const auto likelier = [&](Token a, Token b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  // A heap costs a step for each token that enters it: few if it is small, since most tokens do
  // not.
  constexpr size_t kMostInHeap = 512;
  if (keep > kMostInHeap) {
    top_.resize(logits.size());
    std::iota(top_.begin(), top_.end(), 0);
    std::nth_element(top_.begin(), top_.begin() + static_cast<ptrdiff_t>(keep), top_.end(),
                     likelier);
    top_.resize(keep);
    std::sort(top_.begin(), top_.end());
    return;
  }
  top_.clear();  // a heap, the unlikeliest first
  const auto least = [&] { return logits[static_cast<size_t>(top_.front())]; };
  for (size_t i = 0; i < logits.size(); i += kBlock) {
    const auto block = logits.subspan(i, std::min(kBlock, logits.size() - i));
    if (top_.size() == keep && !(highest_of(block) > least())) continue;
    for (size_t j = 0; j < block.size(); ++j) {
      if (top_.size() == keep) {
        if (!(block[j] > least())) continue;
        std::pop_heap(top_.begin(), top_.end(), likelier);
        top_.pop_back();
      }
      top_.push_back(static_cast<Token>(i + j));
      std::push_heap(top_.begin(), top_.end(), likelier);
    }
  }
  std::sort(top_.begin(), top_.end());
}

// Zeroes all weights below `least`, and those equal to it behind index last_equal; updates sums_.
void Sampler::keep_above(std::span<float> weights, float least, size_t last_equal) {
  for (size_t b = 0; b < sums_.size(); ++b) {
    const bool any = sums_[b] >= double{least};
    sums_[b] = 0;
    const size_t end = std::min(weights.size(), (b + 1) * kBlock);
    for (size_t i = b * kBlock; any && i < end; ++i) {
      if (weights[i] < least || (weights[i] == least && i > last_equal)) weights[i] = 0;
      sums_[b] += double{weights[i]};
    }
  }
}

// Top-p: the likeliest tokens, of equal ones the first, until they weigh enough. Which weight the
// last of them has is found by the digits of its bits, from the highest: those of positive floats
// are in the same order as the floats.
void Sampler::keep_nucleus(std::span<float> weights) {
  const double total = std::accumulate(sums_.begin(), sums_.end(), 0.0);
  const double goal = double{sampling_.top_p} * total;
  // All lighter tokens together are too light to matter.
  const double light = (1 - double{sampling_.top_p}) * total / static_cast<double>(weights.size());
  float least = std::max(static_cast<float>(light * 0.999), std::numeric_limits<float>::min());
  constexpr uint32_t kShifts[] = {17, 6, 0};
  uint32_t prefix = 0, prefix_shift = 31;
  double heavier = 0;  // what the tokens above the prefix weigh
  for (const uint32_t shift : kShifts) {
    const uint32_t first = prefix << (prefix_shift - shift);
    bins_.assign(shift == 17 ? (bits_of(1) >> 17) + 1 : size_t{1} << (prefix_shift - shift), 0);
    for_each_above(weights, sums_, least, [&](size_t, float weight) {
      const uint32_t bits = bits_of(weight);
      if (bits >> prefix_shift == prefix) bins_[(bits >> shift) - first] += double{weight};
    });
    size_t bin = bins_.size() - 1;
    while (bin > 0 && heavier + bins_[bin] < goal) heavier += bins_[bin--];
    prefix = first + static_cast<uint32_t>(bin);
    prefix_shift = shift;
    least = std::max(least, std::bit_cast<float>(prefix << shift));
  }
  size_t last = weights.size();
  for_each_above(weights, sums_, least, [&](size_t i, float weight) {
    if (weight != least || heavier >= goal) return;
    heavier += double{weight};
    last = i;
  });
  keep_above(weights, least, last);
}

// The index of one of the weights, at random.
size_t Sampler::draw(std::span<const float> weights) {
  const double total = std::accumulate(sums_.begin(), sums_.end(), 0.0);
  // Below the total even if the product is rounded up to it.
  const double goal = std::min(uniform(random_) * total, std::nextafter(total, 0.0));
  double before = 0;
  size_t b = 0;
  while (b + 1 < sums_.size() && before + sums_[b] <= goal) before += sums_[b++];
  size_t i = b * kBlock;
  while (i + 1 < weights.size() && before + double{weights[i]} <= goal)
    before += double{weights[i++]};
  return i;
}

Token Sampler::choose(std::span<float> logits) {
  for (const auto& [token, bias] : sampling_.logit_bias) logits[static_cast<size_t>(token)] += bias;
  penalties_.apply(logits);
  const float highest = highest_of(logits);
  if (sampling_.temperature == 0 || !std::isfinite(highest)) return greedy(logits);

  const bool top_k = sampling_.top_k > 0 && sampling_.top_k < logits.size();
  std::span<float> weights = logits;
  if (top_k) {
    take_likeliest(logits, sampling_.top_k);
    top_weights_.clear();
    for (const Token token : top_) top_weights_.push_back(logits[static_cast<size_t>(token)]);
    weights = top_weights_;
  }
  sums_.resize((weights.size() + kBlock - 1) / kBlock);
  // A temperature next to 0 must not make 0 times infinity.
  const float scale = std::min(1 / sampling_.temperature, std::numeric_limits<float>::max());
  kernels_->weigh_tokens(weights.data(), weights.size(), highest, scale, sums_.data());
  if (sampling_.top_p < 1) keep_nucleus(weights);
  if (sampling_.min_p > 0) keep_above(weights, sampling_.min_p, weights.size());
  const size_t chosen = draw(weights);
  return top_k ? top_[chosen] : static_cast<Token>(chosen);
}

}  // namespace kvick::engine
