#pragma once
// Numbers of JSON as parts of a grammar, with exact bounds, compared digit by digit.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "text/grammar/byte_grammar.h"

namespace kvick::text {

struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction;  // digits, without zeros that say nothing
};

struct NumberRange {
  // Digits in front of the point and behind it that are written at most, so that a number ends; 18
  // fit 64 bits, 17 tell all doubles apart.
  static constexpr uint32_t kMostWhole = 18, kMostFraction = 17;

  struct Bound {
    Decimal value;
    bool strict = false;  // the value itself is outside
  };
  std::optional<Bound> least, most;
  uint32_t fraction_digits = kMostFraction;  // 0: integers
};

// The digits of a JSON number. Errors: a fraction of more than kMostFraction digits.
base::Result<Decimal> decimal_of(const nlohmann::ordered_json& number);

// The numbers within the range. Zero has no sign. Without bounds and with fractions, there may be
// an exponent of two digits. Bounds have at most kMostWhole digits.
void add_number(GrammarBuilder& grammar, const NumberRange& range, StateId from, StateId to);

// Most pairs of a state and a remainder that add_multiples() looks at.
inline constexpr size_t kMostRemainders = 10'000;
// Those numbers within the range that are multiples of `step` / 10^range.fraction_digits, without
// exponents. step: at least 1 and below 10^18. False: that takes more than kMostRemainders.
bool add_multiples(GrammarBuilder& grammar, const NumberRange& range, uint64_t step, StateId from,
                   StateId to);

}  // namespace kvick::text
