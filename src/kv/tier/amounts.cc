#include "kv/tier/amounts.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace kvick::kv {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kBytes[] = {{"", 1},
                           {"B", 1},
                           {"KB", 1e3},
                           {"MB", 1e6},
                           {"GB", 1e9},
                           {"TB", 1e12},
                           {"KiB", 1024.0},
                           {"MiB", 1048576.0},
                           {"GiB", 1073741824.0},
                           {"TiB", 1099511627776.0}};
constexpr Unit kRates[] = {{"B/s", 1}, {"KB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}};
constexpr Unit kTimes[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};

std::optional<double> amount(std::string_view text, std::span<const Unit> units) {
  const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto unit = std::find_if(units.begin(), units.end(),
                                 [&](const Unit& one) { return one.name == text.substr(end); });
  double number = 0;
  const auto [last, error] = std::from_chars(text.data(), text.data() + end, number);
  if (unit == units.end() || error != std::errc() || last != text.data() + end) return std::nullopt;
  return number * unit->factor;
}

}  // namespace

base::Result<uint64_t> read_bytes(const Spec& spec, const Option& option, uint64_t least,
                                  uint64_t most) {
  const std::string_view text = value_of(spec, option);
  const std::optional<double> bytes = amount(text, kBytes);
  if (!bytes || *bytes < static_cast<double>(least) || *bytes > static_cast<double>(most))
    return base::fail("{}: {}={} is no number of bytes from {} to {}, such as 512MiB ({})",
                      spec.name, option.name, quote(text), least, most, option.summary);
  return static_cast<uint64_t>(*bytes);
}

base::Result<double> read_rate(const Spec& spec, const Option& option) {
  const std::string_view text = value_of(spec, option);
  const std::optional<double> rate = amount(text, kRates);
  if (!rate || *rate <= 0)
    return base::fail("{}: {}={} is no rate, such as 4GB/s ({})", spec.name, option.name,
                      quote(text), option.summary);
  return *rate;
}

base::Result<double> read_seconds(const Spec& spec, const Option& option) {
  const std::string_view text = value_of(spec, option);
  const std::optional<double> seconds = amount(text, kTimes);
  if (!seconds)
    return base::fail("{}: {}={} is no time, such as 2us ({})", spec.name, option.name, quote(text),
                      option.summary);
  return *seconds;
}

}  // namespace kvick::kv
