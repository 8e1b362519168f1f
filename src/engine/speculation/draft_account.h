#pragma once
// Limits how much time draft tokens may lose in all, by what they have gained and lost so far: the
// limit holds even if their acceptance rates and costs are estimated wrongly.

#include <algorithm>

namespace kvick::engine {

class DraftAccount {
 public:
  // Returns the time that draft tokens may lose now, in tokens of plain steps.
  double tokens() const { return tokens_; }
  // Records a step that gave `came` tokens. instead: tokens that plain steps would have given in
  // the time of the step and of drafting; without draft tokens it equals `came`. In total draft
  // tokens lose at most kFirst tokens, plus the share kAllowance of all tokens, plus what one step
  // took longer than predicted.
  void add(double came, double instead) {
    tokens_ = std::min(kMost, tokens_ + came - instead + kAllowance * came);
  }

  static constexpr double kFirst = 2;
  static constexpr double kAllowance = 1.0 / 256;
  // Cap on the account: after large gains draft tokens may lose this much before they are left out.
  static constexpr double kMost = 32;

 private:
  double tokens_ = kFirst;
};

}  // namespace kvick::engine
