#include "engine/acceptance.h"

#include <algorithm>

namespace kvick::engine {
namespace {

// Guesses that count: texts change their ways, so what is older than a few dozen is forgotten.
constexpr double kMemory = 48;
constexpr double kPresumed = 4;  // guesses that the presumed rates are worth

// By the length of the match, and of second choices.
constexpr double kRatesOfMatches[16] = {0.2, 0.3,  0.45, 0.55, 0.6, 0.65, 0.7, 0.75,
                                        0.1, 0.15, 0.2,  0.2,  0.2, 0.2,  0.2, 0.2};
// By rank: the first child, the second, ...
constexpr double kRatesOfModels[16] = {0.6, 0.15, 0.08, 0.05};

}  // namespace

Acceptance::Acceptance() {
  for (size_t i = 0; i < 16; ++i)
    for (const Kind first : {kLookupKinds, kSuffixKinds, kModelKinds, kSkipKinds}) {
      const bool matches = first == kLookupKinds || first == kSuffixKinds;
      const double rate = matches ? kRatesOfMatches[i] : kRatesOfModels[i];
      counts_[first + i] = {rate * kPresumed, kPresumed};
    }
}

Acceptance::Acceptance(const Acceptance& others, double weight) {
  for (size_t i = 0; i < kKinds; ++i)
    counts_[i] = {others.rate(static_cast<Kind>(i)) * weight, weight};
}

void Acceptance::observe(Kind kind, bool came) {
  Count& count = counts_[kind];
  if (count.trials >= kMemory) {
    const double left = (kMemory - 1) / count.trials;
    count.hits *= left;
    count.trials *= left;
  }
  count.hits += came ? 1 : 0;
  count.trials += 1;
}

}  // namespace kvick::engine
