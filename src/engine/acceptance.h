#pragma once
// How often guesses come true: Sequoia's acceptance vector (Chen et al. 2024, section 3.1),
// measured as answers grow.

#include <array>
#include <cstdint>

namespace kvick::engine {

// What drafters tell apart: guesses of one kind come true about equally often.
using Kind = uint8_t;
inline constexpr Kind kKinds = 64;
// First kinds of the drafters.
inline constexpr Kind kLookupKinds = 0, kSuffixKinds = 16, kModelKinds = 32, kSkipKinds = 48;

class Acceptance {
 public:
  // Rates that are presumed until others are measured.
  Acceptance();
  // What one sequence measures, beginning with what others have.
  explicit Acceptance(const Acceptance& others, double weight);

  // Of a guess whose parent has come true.
  double rate(Kind kind) const { return counts_[kind].hits / counts_[kind].trials; }
  void observe(Kind kind, bool came);

 private:
  struct Count {
    double hits = 0, trials = 0;
  };
  std::array<Count, kKinds> counts_;
};

}  // namespace kvick::engine
