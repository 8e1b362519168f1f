#pragma once
// What draft tokens have gained and lost: how many are made depends on that, so that they cannot
// lose much more, whatever is believed of their chances and costs.

#include <algorithm>

namespace kvick::engine {

class DraftAccount {
 public:
  // What may be lost now, in tokens: what steps without draft tokens would give in the same time.
  double tokens() const { return tokens_; }
  // A step that gave `came`, where steps without draft tokens would have given `instead` in its
  // time and that of making its draft tokens: as many if it had none. All in all draft tokens cost
  // at most kFirst and kAllowance of the tokens, and what one step took longer than was believed.
  void add(double came, double instead) {
    tokens_ = std::min(kMost, tokens_ + came - instead + kAllowance * came);
  }

  static constexpr double kFirst = 2;
  static constexpr double kAllowance = 1.0 / 256;
  // Where draft tokens have gained much they may lose so much before they are left out.
  static constexpr double kMost = 32;

 private:
  double tokens_ = kFirst;
};

}  // namespace kvick::engine
