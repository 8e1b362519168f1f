#pragma once
// What draft tokens have gained and lost: how many are made depends on that, so that they cannot
// lose much more, whatever is believed of their chances and costs.

#include <algorithm>

namespace kvick::engine {

class DraftAccount {
 public:
  // The loss that draft tokens may cause now, in tokens that plain steps would give in that time.
  double tokens() const { return tokens_; }
  // A step gave `came` tokens; plain steps would have given `instead` in the time of the step and
  // of drafting (equal without draft tokens). In total draft tokens lose at most kFirst tokens, the
  // share kAllowance of all tokens, and what one step took longer than predicted.
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
