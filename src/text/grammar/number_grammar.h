#pragma once
// Adds JSON numbers to a grammar. Bounds are exact: they are compared digit by digit.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "text/grammar/byte_grammar.h"

namespace kvick::text {

struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction;  // digits without leading or trailing zeros
};

struct NumberRange {
  // The most digits before and after the point, so that a number ends. 18 digits fit in 64 bits,
  // and 17 distinguish all doubles.
  static constexpr uint32_t kMostWhole = 18, kMostFraction = 17;

  struct Bound {
    Decimal value;
    bool strict = false;  // the value itself is excluded
  };
  std::optional<Bound> least, most;
  uint32_t fraction_digits = kMostFraction;  // 0: integers
};

// Returns the digits of a JSON number. Error: the fraction has more than kMostFraction digits.
base::Result<Decimal> decimal_of(const nlohmann::ordered_json& number);

// A value of multipleOf: units / 10^fraction_digits.
struct DecimalStep {
  uint64_t units = 1;  // from 1, below 10^18
  uint32_t fraction_digits = 0;
};
// Error: the number is not more than 0, or has too many digits.
base::Result<DecimalStep> step_of(const nlohmann::ordered_json& number);
bool is_multiple(const Decimal& number, const DecimalStep& step);
// Returns the least number that is a multiple of both. Error: it has more than 15 digits, which a
// JSON number of any writer keeps.
base::Result<nlohmann::ordered_json> common_multiple(const DecimalStep& a, const DecimalStep& b);

// Adds the numbers within the range. Zero has no sign. Without bounds and with fractions, an
// exponent of up to two digits is allowed. Bounds have at most kMostWhole digits before the point.
void add_number(GrammarBuilder& grammar, const NumberRange& range, StateId from, StateId to);

// The most pairs of a state and a remainder that add_multiples() examines.
inline constexpr size_t kMostRemainders = 10'000;
// Adds the numbers within the range that are multiples of `step` / 10^range.fraction_digits,
// without exponents. step: at least 1 and below 10^18. Returns false if that takes more than
// kMostRemainders pairs.
bool add_multiples(GrammarBuilder& grammar, const NumberRange& range, uint64_t step, StateId from,
                   StateId to);

}  // namespace kvick::text
