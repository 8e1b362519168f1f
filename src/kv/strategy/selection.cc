#include "kv/strategy/selection.h"

#include <algorithm>

namespace kvick::kv {
namespace {

constexpr uint64_t kMillion = 1000000;
constexpr uint32_t kMostRows = uint32_t{1} << 30;

}  // namespace

uint32_t Selection::budget(uint32_t committed) const {
  if (share == 0) return rows;
  return std::max(least,
                  static_cast<uint32_t>((uint64_t{committed} * share + kMillion - 1) / kMillion));
}

Selection Selection::raised(uint32_t times) const {
  Selection raised = *this;
  const auto raise = [](uint32_t count) { return std::min(kMostRows, count + count / 2 + 1); };
  for (; times > 0; --times) {
    if (share > 0) {
      raised.share = std::min(kMillion, raised.share + raised.share / 2 + 1);
      raised.least = raise(raised.least);
    } else {
      raised.rows = raise(raised.rows);
    }
  }
  return raised;
}

TopRows Selection::of(uint32_t committed) const {
  const uint64_t first = (uint64_t{sinks} + unit - 1) / unit * unit;
  const uint32_t last = committed > recent ? (committed - recent) / unit * unit : 0;
  if (last <= first) return {.first = committed, .last = committed, .take = 0};
  TopRows top_rows = {.first = static_cast<uint32_t>(first), .last = last, .take = 0};
  const uint32_t always = top_rows.read_rows(committed), most = budget(committed);
  if (most > always) top_rows.take = std::min((most - always) / unit * unit, last - top_rows.first);
  return top_rows;
}

base::Status<> read_budget(const Spec& spec, const Option& option, Selection& selection) {
  const auto given = spec.options.find(std::string(option.name));
  const std::string_view text =
      given == spec.options.end() ? option.fallback : std::string_view(given->second);
  if (text.find('.') != std::string_view::npos) {
    KVICK_TRY(selection.share, read_decimal(spec, option, 1, kMillion));
    KVICK_TRY(selection.least, read_rows(spec, least_option()));
  } else {
    if (spec.options.contains(std::string(least_option().name)))
      return base::fail("{}: least= is for a budget that is a share, such as 0.25, not for {} rows",
                        spec.name, text);
    KVICK_TRY(const uint64_t rows, read_number(spec, option, 1, kMostRows));
    selection.rows = static_cast<uint32_t>(rows);
  }
  return base::Done{};
}

base::Status<> read_loss(const Spec& spec, Selection& selection) {
  if (value_of(spec, loss_option()) == "0") return base::Done{};
  KVICK_TRY(const uint64_t loss, read_decimal(spec, loss_option(), 0, kMillion));
  selection.loss = static_cast<uint32_t>(loss);
  return base::Done{};
}

base::Result<uint32_t> read_rows(const Spec& spec, const Option& option) {
  KVICK_TRY(const uint64_t rows, read_number(spec, option, 0, kMostRows));
  return static_cast<uint32_t>(rows);
}

base::Result<Selection> read_selection(const Spec& spec,
                                       std::span<const Option, kSelectionOptions> options) {
  Selection selection;
  KVICK_TRY_VOID(read_budget(spec, options[0], selection));
  KVICK_TRY(selection.sinks, read_rows(spec, options[1]));
  KVICK_TRY(selection.recent, read_rows(spec, options[2]));
  KVICK_TRY(selection.dense_layers, read_rows(spec, options[3]));
  return selection;
}

}  // namespace kvick::kv
