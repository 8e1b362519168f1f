#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <vector>

#include "kv/strategy/options.h"

namespace kvick::kv {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

// Returns how many letters have to be added, dropped or changed.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// Reads "1.25" as 1,250,000; none if the text is not a decimal number.
std::optional<uint64_t> millionths(std::string_view text) {
  const size_t point = std::min(text.find('.'), text.size());
  std::string digits(text.substr(0, point));
  const std::string_view decimals = text.substr(std::min(point + 1, text.size()));
  if (digits.empty() || decimals.empty() != (point == text.size()) || decimals.size() > 6)
    return std::nullopt;
  digits.append(decimals).append(6 - decimals.size(), '0');
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// Writes 1,250,000 as "1.25". A double would be written as 1e-06, a form that is not read.
std::string decimal(uint64_t value) {
  std::string digits = std::to_string(1000000 + value % 1000000);
  digits[0] = '.';
  digits.resize(digits.find_last_not_of('0') + 1);
  return std::to_string(value / 1000000) + (digits == "." ? "" : digits);
}

}  // namespace

std::string quote(std::string_view text) {
  constexpr size_t kMost = 60;
  std::string result = "'";
  for (const char c : text.substr(0, kMost)) result += c >= ' ' && c <= '~' ? c : '?';
  return result + (text.size() > kMost ? "...'" : "'");
}

std::string_view closest(std::string_view name, std::span<const std::string_view> candidates) {
  std::string_view best;
  size_t least = 3;
  for (const std::string_view candidate : candidates) {
    if (name.size() > candidate.size() + 2) continue;
    const size_t distance = edit_distance(name, candidate);
    if (distance >= least || distance >= candidate.size()) continue;
    least = distance;
    best = candidate;
  }
  return best;
}

std::string_view value_of(const Spec& spec, const Option& option) {
  const auto found = spec.options.find(std::string(option.name));
  return found == spec.options.end() ? option.fallback : std::string_view(found->second);
}

std::string hint(std::string_view name, std::span<const std::string_view> candidates) {
  const std::string_view meant = closest(name, candidates);
  return meant.empty() ? "" : fmt::format("; did you mean {}?", meant);
}

base::Status<> check_name(std::string_view what, std::string_view name) {
  if (is_name(name) && name.find('-') == std::string_view::npos) return base::Done{};
  return base::fail("a {} named {}: names have small letters, digits and _ only", what,
                    quote(name));
}

base::Status<> check_options(const Spec& spec, std::span<const Option> options) {
  std::vector<std::string_view> known;
  for (const Option& option : options) known.push_back(option.name);
  for (const auto& [name, value] : spec.options) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (known.empty()) return base::fail("{} has no options, but {} is given", spec.name, name);
    return base::fail("{} has no option {}{}; it has {}", spec.name, quote(name), hint(name, known),
                      fmt::join(known, ", "));
  }
  return base::Done{};
}

base::Result<Spec> parse_spec(std::string_view text) {
  constexpr std::string_view kForm = "a KV spec is NAME[:key=value[,key=value]...]";
  const size_t colon = text.find(':');
  Spec spec{.name = std::string(text.substr(0, colon)), .options = {}};
  if (!is_name(spec.name))
    return base::fail("{} does not begin with a strategy's name: {}", quote(text), kForm);
  if (colon == std::string_view::npos) return spec;
  for (size_t begin = colon + 1;;) {
    const size_t comma = text.find(',', begin);
    const std::string_view pair = text.substr(begin, comma - begin);
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos || !is_name(pair.substr(0, equals)) ||
        equals + 1 == pair.size())
      return base::fail("{} in {} is not key=value: {}", quote(pair), quote(text), kForm);
    const std::string key(pair.substr(0, equals));
    if (!spec.options.emplace(key, pair.substr(equals + 1)).second)
      return base::fail("{} gives {} twice", quote(text), key);
    if (comma == std::string_view::npos) return spec;
    begin = comma + 1;
  }
}

base::Result<uint64_t> read_number(const Spec& spec, const Option& option, uint64_t least,
                                   uint64_t most) {
  const std::string_view text = value_of(spec, option);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    return base::fail("{}: {}={} is not a whole number from {} to {} ({})", spec.name, option.name,
                      quote(text), least, most, option.summary);
  return value;
}

base::Result<uint64_t> read_decimal(const Spec& spec, const Option& option, uint64_t least,
                                    uint64_t most) {
  const std::string_view text = value_of(spec, option);
  const std::optional<uint64_t> value = millionths(text);
  if (!value || *value < least || *value > most)
    return base::fail("{}: {}={} is not a decimal number from {} to {} ({})", spec.name,
                      option.name, quote(text), decimal(least), decimal(most), option.summary);
  return *value;
}

base::Result<bool> read_switch(const Spec& spec, const Option& option) {
  const std::string_view text = value_of(spec, option);
  if (text != "on" && text != "off")
    return base::fail("{}: {}={} is neither on nor off ({})", spec.name, option.name, quote(text),
                      option.summary);
  return text == "on";
}

base::Result<size_t> read_choice(const Spec& spec, const Option& option,
                                 std::initializer_list<std::string_view> choices) {
  const std::string_view text = value_of(spec, option);
  const auto found = std::find(choices.begin(), choices.end(), text);
  if (found == choices.end())
    return base::fail("{}: {}={} is none of {} ({})", spec.name, option.name, quote(text),
                      fmt::join(choices, ", "), option.summary);
  return static_cast<size_t>(found - choices.begin());
}

std::string spec_text(const Spec& spec) {
  std::string text = spec.name;
  char before = ':';
  for (const auto& [key, value] : spec.options) {
    text += before + key + '=' + value;
    before = ',';
  }
  return text;
}

}  // namespace kvick::kv
