#include "kv/rows/candidates.h"

#include <algorithm>

namespace kvick::kv {
namespace {

constexpr uint64_t kOne = 1000000, kMost = 1000 * kOne;

}  // namespace

uint32_t Candidates::pages(uint32_t take, uint32_t rows, uint32_t pages) const {
  const uint64_t whole = rows * kOne;
  constexpr uint64_t kCut = 2;  // the first and the last page
  return static_cast<uint32_t>(
      std::min<uint64_t>(pages, (take * factor + whole - 1) / whole + kCut));
}

base::Result<Candidates> read_candidates(const Spec& spec, const Option& option) {
  KVICK_TRY(const uint64_t factor, read_decimal(spec, option, 0, kMost));
  if (factor != 0 && factor < kOne)
    return base::fail("{}: {} must be 0 (score all rows) or a multiple of the budget from 1 to {}",
                      spec.name, option.name, kMost / kOne);
  return Candidates{.factor = factor};
}

std::span<const kernels::Range> rows_of_pages(std::span<const uint32_t> pages, uint32_t unit,
                                              kernels::Range within, base::Arena& scratch) {
  const std::span<kernels::Range> ranges = scratch.make<kernels::Range>(pages.size());
  size_t count = 0;
  for (const uint32_t page : pages) {
    const kernels::Range rows = {.begin = std::max(within.begin, page * unit),
                                 .end = std::min(within.end, (page + 1) * unit)};
    if (count > 0 && ranges[count - 1].end == rows.begin)
      ranges[count - 1].end = rows.end;
    else
      ranges[count++] = rows;
  }
  return ranges.first(count);
}

uint32_t count_rows(std::span<const kernels::Range> ranges) {
  uint32_t rows = 0;
  for (const kernels::Range& range : ranges) rows += range.end - range.begin;
  return rows;
}

void to_rows(std::span<const kernels::Range> ranges, std::span<uint32_t> indices) {
  auto range = ranges.begin();
  uint32_t before = 0;  // rows of earlier ranges
  for (uint32_t& index : indices) {
    while (index - before >= range->end - range->begin)
      before += range->end - range->begin, ++range;
    index = range->begin + (index - before);
  }
}

}  // namespace kvick::kv
