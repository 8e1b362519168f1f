#pragma once
// Notices an answer that says the same again and again, as small models do until the context is
// full.

#include <array>
#include <cstddef>
#include <cstdint>

#include "kv/contract/kv.h"

namespace kvick::engine {

// An answer loops if its last tokens are one piece of at most kMostPeriod tokens, at least kRepeats
// times over and at least kTokens tokens long. Numbers, tables and songs repeat less than that.
class LoopWatch {
 public:
  static constexpr size_t kMostPeriod = 64;
  static constexpr size_t kRepeats = 3;
  static constexpr size_t kTokens = 96;

  // Takes the answer's next token. True: the answer loops. Costs kMostPeriod comparisons.
  bool add(kv::Token token);

 private:
  std::array<kv::Token, kMostPeriod> last_ = {};  // token t at t modulo kMostPeriod
  // [p - 1]: how many tokens up to the newest equal the one p before them
  std::array<uint32_t, kMostPeriod> equal_ = {};
  size_t tokens_ = 0;
};

}  // namespace kvick::engine
