#pragma once
// Detects an answer that repeats itself, as small models do until the context is full.

#include <array>
#include <cstddef>
#include <cstdint>

#include "kv/contract/kv.h"

namespace kvick::engine {

// An answer loops if its last tokens are one piece of at most kMostPeriod tokens, repeated at least
// kRepeats times over at least kTokens tokens. Numbers, tables and songs repeat less than that.
class LoopWatch {
 public:
  static constexpr size_t kMostPeriod = 64;
  static constexpr size_t kRepeats = 3;
  static constexpr size_t kTokens = 96;

  // Takes the answer's next token. Returns whether the answer loops. Costs kMostPeriod comparisons.
  bool add(kv::Token token);

 private:
  std::array<kv::Token, kMostPeriod> last_ = {};  // token t at t modulo kMostPeriod
  // [p - 1]: how many of the newest tokens in a row equal the token p places before them
  std::array<uint32_t, kMostPeriod> equal_ = {};
  size_t tokens_ = 0;
};

}  // namespace kvick::engine
