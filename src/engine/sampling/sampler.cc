#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

namespace kvick::engine {
namespace {

// The vocabulary is searched in blocks: most blocks have no likely token and are skipped.
using kernels::kWeightBlock;

// Returns the highest logit. A NaN counts as lower than every number.
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
  for (size_t i = 0; i < logits.size(); i += kWeightBlock) {
    const auto block = logits.subspan(i, std::min(kWeightBlock, logits.size() - i));
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

// Top-n-sigma: excludes all tokens whose logit is more than n standard deviations below the
// highest. The sums are kept in lanes, so that the compiler can vectorise them in a fixed order.
void keep_near(std::span<float> logits, float highest, float n) {
  constexpr size_t kLanes = 8;
  double counts[kLanes] = {}, sums[kLanes] = {}, squares[kLanes] = {};
  const auto add = [&](float logit, size_t lane) {
    // Forbidden tokens say nothing about the model's logits.
    const bool possible = logit > std::numeric_limits<float>::lowest();
    const double below = possible ? double{logit} - double{highest} : 0;
    counts[lane] += possible ? 1 : 0;
    sums[lane] += below;
    squares[lane] += below * below;
  };
  const size_t whole = logits.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes)
    for (size_t l = 0; l < kLanes; ++l) add(logits[i + l], l);
  for (size_t i = whole; i < logits.size(); ++i) add(logits[i], i - whole);
  const double count = std::accumulate(counts, counts + kLanes, 0.0);
  const double mean = std::accumulate(sums, sums + kLanes, 0.0) / count;
  const double variance = std::accumulate(squares, squares + kLanes, 0.0) / count - mean * mean;
  const double deviation = std::sqrt(std::max(variance, 0.0));
  const auto least = static_cast<float>(double{highest} - double{n} * deviation);
  for (float& logit : logits) logit = logit < least ? -INFINITY : logit;
}

}  // namespace

Sampler::Sampler(Sampling sampling, const kernels::Table& kernels, const text::Tokenizer* tokenizer)
    : sampling_(std::move(sampling)),
      kernels_(&kernels),
      random_(sampling_.seed),
      penalties_({.repetition = sampling_.repetition_penalty,
                  .presence = sampling_.presence_penalty,
                  .frequency = sampling_.frequency_penalty},
                 sampling_.penalty_window) {
  if (!sampling_.bad_words.empty()) bad_words_.emplace(std::exchange(sampling_.bad_words, {}));
  if (sampling_.dry.any()) dry_.emplace(std::exchange(sampling_.dry, {}), tokenizer);
  if (sampling_.mirostat.version != 0) mirostat_.emplace(sampling_.mirostat);
}

void Sampler::accept_prompt(Token token) {
  penalties_.add(token, true);
  if (dry_) dry_->add(token);
}

void Sampler::accept(Token token) {
  penalties_.add(token, false);
  if (dry_) dry_->add(token);
  if (bad_words_) bad_words_->add(token);
}

void Sampler::accept_as(const Sampler& other) {
  penalties_ = other.penalties_;
  dry_ = other.dry_;
  bad_words_ = other.bad_words_;
}

void Sampler::accept_break() {
  if (dry_) dry_->add_break();
}

// Sets top_ to the `keep` likeliest tokens, ascending; of equally likely ones it takes the first.
void Sampler::take_likeliest(std::span<const float> logits, size_t keep) {
  const auto likelier = [&](Token a, Token b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  // A heap costs time for each token that enters it. Few tokens enter a small one.
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
  top_.clear();  // a heap with the unlikeliest token at its front
  const auto least = [&] { return logits[static_cast<size_t>(top_.front())]; };
  for (size_t i = 0; i < logits.size(); i += kWeightBlock) {
    const auto block = logits.subspan(i, std::min(kWeightBlock, logits.size() - i));
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

Sampler::Kept Sampler::keep_likeliest(std::span<float> logits, size_t keep) {
  if (keep == 0 || keep >= logits.size()) return {logits, true};
  take_likeliest(logits, keep);
  top_weights_.clear();
  for (const Token token : top_) top_weights_.push_back(logits[static_cast<size_t>(token)]);
  return {top_weights_, false};
}

Token Sampler::token_of(size_t chosen, const Kept& kept) const {
  return kept.all ? static_cast<Token>(chosen) : top_[chosen];
}

// Returns the factor for the logits: 1 / temperature.
float Sampler::scale(std::span<const float> logits, float highest) const {
  float temperature = sampling_.temperature;
  if (sampling_.dynatemp_range > 0) {
    const double share = entropy_share(*kernels_, logits, highest);
    const float least = std::max(temperature - sampling_.dynatemp_range, 0.0F);
    const float most = temperature + sampling_.dynatemp_range;
    temperature =
        least + (most - least) * static_cast<float>(std::pow(std::clamp(share, 0.0, 1.0),
                                                             sampling_.dynatemp_exponent));
  }
  // For a temperature near 0 the factor must stay finite: 0 times infinity is NaN.
  return std::min(1 / temperature, std::numeric_limits<float>::max());
}

// Returns how many tokens Mirostat's algorithm 1 keeps.
size_t Sampler::mirostat_tokens(std::span<const float> logits, float highest, float scale) {
  take_likeliest(logits, std::min(logits.size(), Mirostat::kFirst));
  std::vector<float> first;
  for (const Token token : top_)
    first.push_back((logits[static_cast<size_t>(token)] - highest) * scale);
  std::sort(first.begin(), first.end(), std::greater<>());
  return mirostat_->most_tokens(first, logits.size());
}

size_t Sampler::choose_with_mirostat(const Kept& kept, float highest, float scale) {
  weights_.weigh(*kernels_, kept.logits, highest, scale);
  if (sampling_.mirostat.version == 2) {
    const double least = mirostat_->least_share() * weights_.total();
    // The likeliest token weighs 1.
    weights_.keep_above(std::clamp(static_cast<float>(std::min(least, 1.0)),
                                   std::numeric_limits<float>::min(), 1.0F));
  }
  const size_t chosen = weights_.draw(uniform(random_));
  mirostat_->observe(weights_.share(chosen));
  return chosen;
}

Token Sampler::choose(std::span<float> logits) {
  for (const auto& [token, bias] : sampling_.logit_bias) logits[static_cast<size_t>(token)] += bias;
  if (bad_words_) bad_words_->apply(logits);
  penalties_.apply(logits);
  if (dry_) dry_->apply(logits);
  const float highest = highest_of(logits);
  if (sampling_.temperature == 0 || !std::isfinite(highest)) return greedy(logits);

  if (mirostat_) {
    const float factor = scale(logits, highest);
    const bool first = sampling_.mirostat.version == 1;
    const size_t keep = first ? mirostat_tokens(logits, highest, factor) : 0;
    const Kept kept = keep_likeliest(logits, keep);
    return token_of(choose_with_mirostat(kept, highest, factor), kept);
  }
  if (sampling_.top_n_sigma > 0) keep_near(logits, highest, sampling_.top_n_sigma);
  const Kept kept = keep_likeliest(logits, sampling_.top_k);
  const bool typical = sampling_.typical_p < 1;
  weights_.weigh(*kernels_, kept.logits, highest, scale(kept.logits, highest), typical);
  if (typical) weights_.keep_typical(sampling_.typical_p);
  if (sampling_.top_p < 1) weights_.keep_nucleus(sampling_.top_p);
  // The likeliest token weighs 1, unless typical-p has removed it.
  if (sampling_.min_p > 0)
    weights_.keep_above(sampling_.min_p * (typical ? weights_.highest() : 1));
  if (sampling_.xtc.probability > 0 && uniform(random_) < double{sampling_.xtc.probability})
    weights_.drop_top(sampling_.xtc.threshold);
  return token_of(weights_.draw(uniform(random_)), kept);
}

}  // namespace kvick::engine
