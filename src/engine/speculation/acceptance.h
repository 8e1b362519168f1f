#pragma once
// How often draft tokens come true: Sequoia's acceptance vector (Chen et al. 2024, section 3.1),
// measured as answers grow.

#include <array>
#include <cstdint>

namespace kvick::engine {

// What drafters tell apart: draft tokens of one kind come true about equally often.
using Kind = uint8_t;
inline constexpr Kind kKinds = 64;
// First kinds of the drafters.
inline constexpr Kind kLookupKinds = 0, kSuffixKinds = 24, kModelKinds = 48, kOwnKinds = 52,
                      kSkipKinds = 56;

// Kinds of draft tokens by matches: by the tokens that match, and by whether all places that match
// go on alike, there is one only, or they differ; and those that are not the longest match's.
enum class Agreement : uint8_t { kSplit, kLone, kAll };
inline constexpr Kind kMatchLengths = 6;  // 1, 2, 3, 4 and 5, 6 to 9, 10 and more
Kind match_kind(uint32_t length, Agreement agreement);
Kind branch_kind(uint32_t length);

class Acceptance {
 public:
  // Starts with presumed rates.
  Acceptance();
  // For one sequence: its own measurements averaged with those of `all`, which count as `weight`
  // draft tokens of its own. all outlives it.
  Acceptance(const Acceptance& all, double weight) : all_(&all), weight_(weight) {}

  // Probability that a draft token is accepted, given that its parent was.
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
