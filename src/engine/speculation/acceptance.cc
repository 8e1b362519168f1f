#include "engine/speculation/acceptance.h"

#include <algorithm>

namespace kvick::engine {
namespace {

// Draft tokens over which a sequence's rates are averaged, and those of all sequences. Texts
// change, so a sequence forgets what is older than a few dozen.
constexpr double kMemory = 48;
constexpr double kMemoryOfAll = 256;
constexpr double kPresumed = 4;  // draft tokens that the presumed rates are worth

// Presumed rates by length and agreement, of matches in the text itself and in other texts: means
// over the prompts of Spec-Bench, answered by SmolLM2.
using MatchRates = double[kMatchLengths][3];
constexpr MatchRates kRatesOfText = {{0.15, 0.3, 0.65}, {0.25, 0.55, 0.75}, {0.35, 0.7, 0.8},
                                     {0.4, 0.75, 0.85}, {0.5, 0.8, 0.9},    {0.65, 0.9, 0.97}};
constexpr MatchRates kRatesOfOthers = {{0.08, 0.1, 0.2},  {0.1, 0.2, 0.45}, {0.1, 0.3, 0.65},
                                       {0.15, 0.4, 0.65}, {0.3, 0.45, 0.8}, {0.35, 0.65, 0.95}};
constexpr double kRateOfBranches = 0.15;
// Presumed rates by rank: of the first child, the second, ...
constexpr double kRatesOfModels[] = {0.6, 0.15, 0.08, 0.05};

Kind bucket_of(uint32_t length) {
  if (length < 4) return static_cast<Kind>(length - 1);
  return length < 6 ? 3 : length < 10 ? 4 : 5;
}

}  // namespace

Kind match_kind(uint32_t length, Agreement agreement) {
  return static_cast<Kind>(3 * bucket_of(length) + static_cast<Kind>(agreement));
}

Kind branch_kind(uint32_t length) {
  return static_cast<Kind>(3 * kMatchLengths + bucket_of(length));
}

Acceptance::Acceptance() {
  const auto presume = [this](int kind, double rate) {
    counts_[static_cast<size_t>(kind)] = {rate * kPresumed, kPresumed};
  };
  for (int i = 0; i < kMatchLengths; ++i) {
    for (int a = 0; a < 3; ++a) {
      presume(kLookupKinds + 3 * i + a, kRatesOfText[i][a]);
      presume(kSuffixKinds + 3 * i + a, kRatesOfOthers[i][a]);
    }
    for (const Kind first : {kLookupKinds, kSuffixKinds})
      presume(first + 3 * kMatchLengths + i, kRateOfBranches);
  }
  for (int rank = 0; rank < 4; ++rank)
    for (const Kind first : {kModelKinds, kOwnKinds, kSkipKinds})
      presume(first + rank, kRatesOfModels[rank]);
}

double Acceptance::rate(Kind kind) const {
  const Count& own = counts_[kind];
  if (all_ == nullptr) return own.hits / own.trials;
  return (own.hits + weight_ * all_->rate(kind)) / (own.trials + weight_);
}

void Acceptance::observe(Kind kind, bool came) {
  Count& count = counts_[kind];
  const double memory = all_ == nullptr ? kMemoryOfAll : kMemory;
  if (count.trials >= memory) {
    const double left = (memory - 1) / count.trials;
    count.hits *= left;
    count.trials *= left;
  }
  count.hits += came ? 1 : 0;
  count.trials += 1;
}

}  // namespace kvick::engine
