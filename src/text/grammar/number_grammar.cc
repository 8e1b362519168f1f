#include "text/grammar/number_grammar.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <numeric>
#include <vector>

namespace kvick::text {
namespace {

using Bound = NumberRange::Bound;

bool is_zero(const Decimal& value) { return value.whole == "0" && value.fraction.empty(); }

// Adds the magnitudes between two bounds: digits follow a bound as long as they equal its digits,
// and are free once they differ.
class Magnitudes {
 public:
  Magnitudes(GrammarBuilder& grammar, uint32_t fraction_digits, StateId to)
      : grammar_(grammar), fraction_digits_(fraction_digits), to_(to) {
    for (StateId& state : free_) state = grammar.state();
    for (uint32_t left = 1; left < NumberRange::kMostWhole; ++left)
      grammar.bytes(free_[left], '0', '9', free_[left - 1]);
    grammar.skip(free_[0], to);
    if (fraction_digits == 0) return;
    free_fraction_.resize(fraction_digits + 1);
    for (StateId& state : free_fraction_) state = grammar.state();
    for (uint32_t left = 1; left <= fraction_digits; ++left) {
      grammar.bytes(free_fraction_[left], '0', '9', free_fraction_[left - 1]);
      if (left < fraction_digits) grammar.skip(free_fraction_[left], to);
    }
    grammar.skip(free_fraction_[0], to);
    grammar.byte(free_[0], '.', free_fraction_[fraction_digits]);
  }

  // least: at least zero. most: nullopt for no bound.
  void add(const Bound& least, const std::optional<Bound>& most, StateId from) {
    const auto shortest = static_cast<uint32_t>(least.value.whole.size());
    const auto longest =
        most ? static_cast<uint32_t>(most->value.whole.size()) : NumberRange::kMostWhole;
    for (uint32_t length = shortest; length <= longest; ++length) {
      const bool low = length == shortest, high = most && length == longest;
      if (!low && !high)
        grammar_.bytes(from, '1', '9', free_[length - 1]);
      else
        along(low ? &least : nullptr, high ? &*most : nullptr, length, from);
    }
  }

 private:
  // The state after some digits, indexed by the bounds that they still equal (kLow | kHigh).
  using Level = std::array<std::optional<StateId>, 4>;
  static constexpr uint32_t kLow = 1, kHigh = 2;

  static char digit(const Bound& bound, uint32_t at) {
    const size_t whole = bound.value.whole.size();
    if (at < whole) return bound.value.whole[at];
    return at - whole < bound.value.fraction.size() ? bound.value.fraction[at - whole] : '0';
  }
  // Returns whether a number may end after `read` digits that equal those of the bounds in `tight`.
  static bool may_end(const Bound* low, const Bound* high, uint32_t tight, uint32_t read) {
    const auto equal = [read](const Bound& bound) {
      return bound.value.whole.size() + bound.value.fraction.size() <= read;
    };
    if ((tight & kLow) != 0 && (!equal(*low) || low->strict)) return false;
    return (tight & kHigh) == 0 || !equal(*high) || !high->strict;
  }

  void along(const Bound* low, const Bound* high, uint32_t length, StateId from) {
    Level level;
    level[(low != nullptr ? kLow : 0) | (high != nullptr ? kHigh : 0)] = from;
    for (uint32_t at = 0; at < length + fraction_digits_; ++at) {
      const bool whole = at < length;
      if (at == length) level = points(level);
      const StateId free =
          whole ? free_[length - 1 - at] : free_fraction_[length + fraction_digits_ - 1 - at];
      Level next;
      for (uint32_t tight = 1; tight < level.size(); ++tight) {
        if (!level[tight]) continue;
        const char least = (tight & kLow) != 0     ? digit(*low, at)
                           : at == 0 && length > 1 ? '1'
                                                   : '0';
        const char most = (tight & kHigh) != 0 ? digit(*high, at) : '9';
        for (char d = least; d <= most; ++d) {
          const uint32_t still = tight & ((d == least ? kLow : 0) | (d == most ? kHigh : 0));
          if (still != 0 && !next[still]) next[still] = grammar_.state();
          grammar_.byte(*level[tight], d, still != 0 ? *next[still] : free);
        }
      }
      level = next;
      if (at + 1 < length) continue;
      for (uint32_t tight = 1; tight < level.size(); ++tight)
        if (level[tight] && may_end(low, high, tight, at + 1)) grammar_.skip(*level[tight], to_);
    }
  }

  // Returns the states after the decimal point.
  Level points(const Level& before) {
    Level behind;
    for (uint32_t tight = 1; tight < before.size(); ++tight) {
      if (!before[tight]) continue;
      behind[tight] = grammar_.state();
      grammar_.byte(*before[tight], '.', *behind[tight]);
    }
    return behind;
  }

  GrammarBuilder& grammar_;
  uint32_t fraction_digits_;
  StateId to_;
  std::array<StateId, NumberRange::kMostWhole> free_;  // by whole digits still to come
  std::vector<StateId> free_fraction_;  // by the number of digits that may follow; with the largest
                                        // number, one must follow
};

// At most two digits, so that the number is within the range of a double.
void add_exponent(GrammarBuilder& grammar, StateId from, StateId to) {
  const StateId sign = grammar.state(), digits = grammar.state(), second = grammar.state();
  grammar.skip(from, to);
  grammar.any_of(from, "eE", sign);
  grammar.skip(sign, digits);
  grammar.any_of(sign, "+-", digits);
  grammar.bytes(digits, '0', '9', second);
  grammar.skip(second, to);
  grammar.bytes(second, '0', '9', to);
}

// Copies a grammar of numbers, with the remainder of the digits read so far as a part of each
// state. A digit is weighted by its place, which its state determines. Hence all digits before the
// last three are alike for multiples of 1000.
class Multiples {
 public:
  Multiples(const Grammar& range, uint64_t step, uint32_t fraction_digits, GrammarBuilder& to)
      : range_(range), grammar_(to), step_(step) {
    weights_.resize(NumberRange::kMostWhole + fraction_digits);  // the last place comes first
    for (uint64_t weight = 1 % step; uint64_t & one : weights_) {
      one = weight;
      weight = weight * 10 % step;
    }
    fraction_digits_ = fraction_digits;
  }

  // Returns false if there are too many states.
  bool add(StateId from, StateId to) {
    to_ = to;
    if (const auto start = copy(range_.rules[0].start, std::nullopt, 0))
      grammar_.skip(from, *start);
    return copies_.size() <= kMostRemainders;
  }

 private:
  using Edge = Grammar::Bytes;

  // Returns the number of whole digits that are still to come.
  uint32_t whole_left(StateId state) {
    const Grammar::State& at = range_.states[state];
    if (at.end || (!at.bytes.empty() && at.bytes[0].first == '.')) return 0;
    if (const auto known = left_.find(state); known != left_.end()) return known->second;
    uint32_t left = 0;
    if (!at.skips.empty())
      left = whole_left(at.skips[0]);
    else if (!at.bytes.empty())
      left = 1 + whole_left(at.bytes[0].to);
    return left_[state] = left;
  }

  // places: number of digits after the point so far; nullopt before it. Returns nullopt if no
  // number can be completed from here.
  std::optional<StateId> copy(StateId state, std::optional<uint32_t> places, uint64_t remainder) {
    const Grammar::State& at = range_.states[state];
    if (at.end) return remainder == 0 ? std::optional(to_) : std::nullopt;
    if (const auto known = copies_.find({state, remainder}); known != copies_.end())
      return known->second;
    std::optional<StateId>& out = copies_[{state, remainder}];
    if (copies_.size() > kMostRemainders) return std::nullopt;
    std::vector<Edge> edges;
    for (const Edge& edge : at.bytes) copy_edge(edge, places, remainder, edges);
    std::vector<StateId> skips;
    for (const StateId to : at.skips)
      if (const auto next = copy(to, places, remainder)) skips.push_back(*next);
    if (edges.empty() && skips.empty()) return std::nullopt;
    out = grammar_.state();
    for (const Edge& edge : edges) grammar_.bytes(*out, edge.first, edge.last, edge.to);
    for (const StateId to : skips) grammar_.skip(*out, to);
    return out;
  }

  void copy_edge(const Edge& edge, std::optional<uint32_t> places, uint64_t remainder,
                 std::vector<Edge>& out) {
    for (uint8_t byte = edge.first; byte <= edge.last; ++byte) {
      const bool digit = byte >= '0' && byte <= '9';
      if (!digit && byte != '.' && byte != '-') continue;
      std::optional<uint32_t> now = places;
      uint64_t then = remainder;
      if (digit) {
        if (now) ++*now;
        const uint32_t place =
            now ? fraction_digits_ - *now : fraction_digits_ + whole_left(edge.to);
        then = (remainder + (byte - uint64_t{'0'}) * weights_[place]) % step_;
      } else if (byte == '.') {
        now = 0;
      }
      const auto next = copy(edge.to, now, then);
      if (!next) continue;
      const bool grows = !out.empty() && out.back().to == *next && out.back().last + 1 == byte;
      if (grows)
        out.back().last = byte;
      else
        out.push_back({byte, byte, *next});
    }
  }

  const Grammar& range_;
  GrammarBuilder& grammar_;
  uint64_t step_;
  uint32_t fraction_digits_ = 0;
  StateId to_ = 0;
  std::vector<uint64_t> weights_;
  std::map<StateId, uint32_t> left_;
  std::map<std::pair<StateId, uint64_t>, std::optional<StateId>> copies_;
};

uint64_t power_of_ten(uint32_t exponent) {
  uint64_t power = 1;
  while (exponent-- > 0) power *= 10;
  return power;
}

}  // namespace

base::Result<Decimal> decimal_of(const nlohmann::ordered_json& number) {
  // A double is printed as the shortest digits that identify it, perhaps with an exponent.
  std::string text =
      number.is_number_float() ? fmt::format("{}", number.get<double>()) : number.dump();
  Decimal out;
  out.negative = text[0] == '-';
  if (out.negative) text.erase(0, 1);
  const size_t e = text.find('e');
  int exponent = 0;
  if (e != std::string::npos) exponent = std::atoi(text.c_str() + e + 1);
  text.resize(std::min(e, text.size()));
  const size_t point = std::min(text.find('.'), text.size());
  std::string digits = text;
  if (point < digits.size()) digits.erase(point, 1);
  int whole = static_cast<int>(point) + exponent;
  if (whole < 0) digits.insert(0, static_cast<size_t>(-whole), '0');
  whole = std::max(whole, 0);
  if (digits.size() < static_cast<size_t>(whole)) digits.resize(static_cast<size_t>(whole), '0');
  out.whole = digits.substr(0, static_cast<size_t>(whole));
  out.fraction = digits.substr(static_cast<size_t>(whole));
  out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size()));
  out.fraction.resize(out.fraction.find_last_not_of('0') + 1);
  if (out.whole.empty()) out.whole = "0";
  if (out.fraction.size() > NumberRange::kMostFraction)
    return base::fail("{} has more than {} digits behind the point", number.dump(),
                      NumberRange::kMostFraction);
  return out;
}

base::Result<DecimalStep> step_of(const nlohmann::ordered_json& number) {
  KVICK_TRY(const Decimal value, decimal_of(number));
  const std::string digits = (value.whole == "0" ? "" : value.whole) + value.fraction;
  if (value.negative || digits.empty()) return base::fail("it is not more than 0");
  if (digits.size() > NumberRange::kMostWhole)
    return base::fail("it has more than {} digits", NumberRange::kMostWhole);
  return DecimalStep{std::stoull(digits), static_cast<uint32_t>(value.fraction.size())};
}

bool is_multiple(const Decimal& number, const DecimalStep& step) {
  // Multiples have no more decimal places than the step.
  if (number.fraction.size() > step.fraction_digits) return false;
  std::string digits = number.whole + number.fraction;
  digits.append(step.fraction_digits - number.fraction.size(), '0');
  uint64_t remainder = 0;
  for (const char digit : digits)
    remainder = (remainder * 10 + static_cast<uint64_t>(digit - '0')) % step.units;
  return remainder == 0;
}

base::Result<nlohmann::ordered_json> common_multiple(const DecimalStep& a, const DecimalStep& b) {
  constexpr uint64_t kMost = 1'000'000'000'000'000;
  const uint32_t places = std::max(a.fraction_digits, b.fraction_digits);
  uint64_t first = 0, second = 0, units = 0;
  const bool fits =
      !__builtin_mul_overflow(a.units, power_of_ten(places - a.fraction_digits), &first) &&
      !__builtin_mul_overflow(b.units, power_of_ten(places - b.fraction_digits), &second) &&
      !__builtin_mul_overflow(first / std::gcd(first, second), second, &units) && units < kMost;
  if (!fits) return base::fail("the least common multiple has more than 15 digits");
  const uint64_t one = power_of_ten(places);
  if (units % one == 0) return nlohmann::ordered_json(units / one);
  return nlohmann::ordered_json(static_cast<double>(units) / static_cast<double>(one));
}

void add_number(GrammarBuilder& grammar, const NumberRange& range, StateId from, StateId to) {
  const bool exponent =
      !range.least && !range.most && range.fraction_digits == NumberRange::kMostFraction;
  const StateId mantissa = exponent ? grammar.state() : to;
  if (exponent) add_exponent(grammar, mantissa, to);
  const auto negative = [](const std::optional<Bound>& bound) {
    return bound && bound->value.negative && !is_zero(bound->value);
  };
  const Bound zero;
  if (!negative(range.most))
    Magnitudes(grammar, range.fraction_digits, mantissa)
        .add(range.least && !negative(range.least) ? *range.least : zero, range.most, from);
  if (range.least && !negative(range.least)) return;
  const StateId sign = grammar.state();
  grammar.byte(from, '-', sign);
  const Bound above_zero = {.strict = true};
  Magnitudes(grammar, range.fraction_digits, mantissa)
      .add(negative(range.most) ? *range.most : above_zero, range.least, sign);
}

bool add_multiples(GrammarBuilder& grammar, const NumberRange& range, uint64_t step, StateId from,
                   StateId to) {
  GrammarBuilder numbers;
  const RuleId rule = numbers.rule();
  add_number(numbers, range, numbers.start(rule), numbers.end(rule));
  const auto made = std::move(numbers).finish(ByteSet().set());
  if (!made.ok()) return true;  // no number is within the range
  return Multiples(*made, step, range.fraction_digits, grammar).add(from, to);
}

}  // namespace kvick::text
