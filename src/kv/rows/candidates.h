#pragma once
// Ranges of rows, and the option that limits a choice to some of the rows.

#include <span>

#include "base/memory.h"
#include "kernels/formats/matrix.h"
#include "kv/strategy/selection.h"

namespace kvick::kv {

// How many rows a policy scores, as a multiple of those that it takes. It finds them by bounds of
// pages of rows.
struct Candidates {
  uint64_t factor = 0;  // in millionths; 0: all rows are scored

  bool all() const { return factor == 0; }
  // Returns how many of `pages` pages of `rows` rows have their rows scored, of which the first
  // and the last may be cut. They have at least `take` rows.
  uint32_t pages(uint32_t take, uint32_t rows, uint32_t pages) const;
};

constexpr Option candidates_option(std::string_view summary, std::string_view fallback) {
  return {.name = "candidates", .summary = summary, .fallback = fallback};
}
// Error: not 0, nor a number from 1 to 1000.
base::Result<Candidates> read_candidates(const Spec& spec, const Option& option);

// Returns the rows of these pages, ascending, of `unit` rows each, within `within`.
std::span<const kernels::Range> rows_of_pages(std::span<const uint32_t> pages, uint32_t unit,
                                              kernels::Range within, base::Arena& scratch);
uint32_t count_rows(std::span<const kernels::Range> ranges);
// Replaces ascending indices into the ranges' rows by the rows.
void to_rows(std::span<const kernels::Range> ranges, std::span<uint32_t> indices);

}  // namespace kvick::kv
