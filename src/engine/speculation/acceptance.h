#pragma once
// Measures how often draft tokens are accepted, as answers grow: Sequoia's acceptance vector (Chen
// et al. 2024, section 3.1).

#include <array>
#include <cstdint>

namespace kvick::engine {

// A class of draft tokens with about the same acceptance rate. The drafter chooses it.
using Kind = uint8_t;
inline constexpr Kind kKinds = 64;
// The first kind of each drafter.
inline constexpr Kind kLookupKinds = 0, kSuffixKinds = 24, kModelKinds = 48, kOwnKinds = 52,
                      kSkipKinds = 56;

// The kind of a draft token of the longest match depends on the length of the match, and on how the
// other matching places continue: kAll: alike, kLone: there are none, kSplit: differently. Tokens
// of other matches than the longest have the kinds of branch_kind.
enum class Agreement : uint8_t { kSplit, kLone, kAll };
inline constexpr Kind kMatchLengths = 6;  // classes: 1, 2, 3, 4 to 5, 6 to 9, 10 and more tokens
Kind match_kind(uint32_t length, Agreement agreement);
Kind branch_kind(uint32_t length);

class Acceptance {
 public:
  // Starts with presumed rates.
  Acceptance();
  // For one sequence: averages its own measurements with those of `all`, which count as `weight`
  // draft tokens of its own. all must outlive it.
  Acceptance(const Acceptance& all, double weight) : all_(&all), weight_(weight) {}

  // Returns the probability that a draft token is accepted, given that its parent was.
  double rate(Kind kind) const;
  void observe(Kind kind, bool came);

 private:
  struct Count {
    double hits = 0, trials = 0;
  };
  std::array<Count, kKinds> counts_ = {};
  const Acceptance* all_ = nullptr;
  double weight_ = 0;
};

}  // namespace kvick::engine
