#include "kv/selection.h"

#include <algorithm>

namespace kvick::kv {
namespace {

constexpr uint64_t kMillion = 1000000;
constexpr uint32_t kMostRows = uint32_t{1} << 30;

}  // namespace

uint32_t Selection::budget(uint32_t committed) const {
  if (share == 0) return rows;
  return static_cast<uint32_t>((uint64_t{committed} * share + kMillion - 1) / kMillion);
}

Choosing Selection::of(uint32_t committed) const {
  const uint64_t first = (uint64_t{sinks} + unit - 1) / unit * unit;
  const uint32_t last = committed > recent ? (committed - recent) / unit * unit : 0;
  if (last <= first) return {.first = committed, .last = committed, .take = 0};
  Choosing choosing = {.first = static_cast<uint32_t>(first), .last = last, .take = 0};
  const uint32_t always = choosing.read_rows(committed), most = budget(committed);
  if (most > always) choosing.take = std::min((most - always) / unit * unit, last - choosing.first);
  return choosing;
}

base::Result<Selection> read_selection(const Spec& spec,
                                       std::span<const Option, kSelectionOptions> options) {
  Selection selection;
  const auto given = spec.options.find("budget");
  const std::string_view budget =
      given == spec.options.end() ? options[0].fallback : std::string_view(given->second);
  if (budget.find('.') != std::string_view::npos) {
    KVICK_TRY(selection.share, read_decimal(spec, options[0], 1, kMillion));
  } else {
    KVICK_TRY(const uint64_t rows, read_number(spec, options[0], 1, kMostRows));
    selection.rows = static_cast<uint32_t>(rows);
  }
  KVICK_TRY(const uint64_t sinks, read_number(spec, options[1], 0, kMostRows));
  KVICK_TRY(const uint64_t recent, read_number(spec, options[2], 0, kMostRows));
  KVICK_TRY(const uint64_t dense, read_number(spec, options[3], 0, kMostRows));
  selection.sinks = static_cast<uint32_t>(sinks);
  selection.recent = static_cast<uint32_t>(recent);
  selection.dense_layers = static_cast<uint32_t>(dense);
  return selection;
}

}  // namespace kvick::kv
