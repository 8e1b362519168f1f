#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace kvick::engine {
namespace {

using base::fail;

// A vocabulary is gone through in blocks, of which most hold nothing that is likely enough. Sixteen
// answers a step spent a twentieth of their time here when each token was looked at.
constexpr size_t kBlock = 64;

// Not a number is lower than all others.
float highest_of(std::span<const float> logits) {
  constexpr size_t kLanes = 16;  // for the compiler to take at once
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, -INFINITY);
  const size_t whole = logits.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes)
    for (size_t l = 0; l < kLanes; ++l)
      lanes[l] = logits[i + l] > lanes[l] ? logits[i + l] : lanes[l];
  float highest = *std::max_element(lanes, lanes + kLanes);
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

Sampler::Sampler(Sampling sampling) : sampling_(std::move(sampling)), random_(sampling_.seed) {}

void Sampler::accept(Token token) {
  if (sampling_.penalty_window == 0) return;
  if (seen_.size() < sampling_.penalty_window) {
    seen_.push_back(token);
    return;
  }
  seen_[next_seen_] = token;
  next_seen_ = (next_seen_ + 1) % seen_.size();
}

void Sampler::penalise(std::span<float> logits) const {
  for (const auto& [token, bias] : sampling_.logit_bias) logits[static_cast<size_t>(token)] += bias;
  if (sampling_.repetition_penalty == 1 && sampling_.presence_penalty == 0 &&
      sampling_.frequency_penalty == 0)
    return;
  std::unordered_map<Token, int> counts;
  for (const Token token : seen_) ++counts[token];
  for (const auto& [token, count] : counts) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / sampling_.repetition_penalty : logit * sampling_.repetition_penalty;
    logit -= sampling_.presence_penalty + sampling_.frequency_penalty * static_cast<float>(count);
  }
}

// The `keep` likeliest, in that order; of equal ones the first.
void Sampler::take_likeliest(std::span<const float> logits, size_t keep) {
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  };
  candidates_.clear();  // a heap, the unlikeliest first
  for (size_t i = 0; i < logits.size(); i += kBlock) {
    const auto block = logits.subspan(i, std::min(kBlock, logits.size() - i));
    if (candidates_.size() == keep && !(highest_of(block) > candidates_.front().logit)) continue;
    for (size_t j = 0; j < block.size(); ++j) {
      if (candidates_.size() == keep) {
        if (!(block[j] > candidates_.front().logit)) continue;
        std::pop_heap(candidates_.begin(), candidates_.end(), likelier);
        candidates_.pop_back();
      }
      candidates_.push_back({static_cast<Token>(i + j), block[j]});
      std::push_heap(candidates_.begin(), candidates_.end(), likelier);
    }
  }
  std::sort_heap(candidates_.begin(), candidates_.end(), likelier);
}

// The candidates that top-k, top-p and min-p leave, likeliest first.
void Sampler::shortlist(std::span<const float> logits) {
  size_t keep = logits.size();
  if (sampling_.top_k > 0) keep = std::min<size_t>(keep, sampling_.top_k);
  take_likeliest(logits, keep);
  // The maximum is taken off before the division: a tiny temperature then gives 0 and -inf, never
  // inf - inf.
  const float highest = candidates_.front().logit;
  for (Candidate& one : candidates_) one.logit = (one.logit - highest) / sampling_.temperature;

  const double total = mass();
  double taken = 0;
  size_t nucleus = 0;
  while (nucleus < keep && (nucleus == 0 || taken < sampling_.top_p * total))
    taken += std::exp(candidates_[nucleus++].logit);
  while (nucleus > 1 && std::exp(candidates_[nucleus - 1].logit) < sampling_.min_p) --nucleus;
  candidates_.resize(nucleus);
}

double Sampler::mass() const {
  double total = 0;
  for (const Candidate& c : candidates_) total += std::exp(c.logit);
  return total;
}

Token Sampler::draw() {
  double left = uniform(random_) * mass();
  for (const Candidate& c : candidates_) {
    left -= std::exp(c.logit);
    if (left < 0) return c.token;
  }
  return candidates_.back().token;
}

Token Sampler::choose(std::span<float> logits) {
  penalise(logits);
  if (sampling_.temperature == 0) return greedy(logits);
  shortlist(logits);
  return draw();
}

}  // namespace kvick::engine
