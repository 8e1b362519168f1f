// The default: the operating system's page table is the block table. Each sequence reserves address
// space for the whole context once; a page of it becomes memory when a row in it is first written.
// Rows are contiguous and never copied, and each region wastes less than a page. A fork maps the
// same pages, and the MMU copies those that it writes to. Why it is the default:
// docs/adr/0002-virtual-is-the-default.md; how forks work:
// docs/adr/0012-forks-by-the-page-table.md.

#include "kv/stores/virtual_store.h"
#include "kv/strategy/options.h"
#include "kv/values/saturating.h"

namespace kvick::kv {
namespace {

constexpr Option kOptions[] = {
    {.name = "hugepages",
     .summary = "pages of 2 MiB: fewer page faults and TLB misses, more waste; forks are copies",
     .fallback = "off"}};

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

base::Result<Pages> pages_of(const Spec& spec) {
  KVICK_TRY(const bool huge, read_switch(spec, kOptions[0]));
  return huge ? Pages::kHuge : Pages::kSystem;
}

base::Result<std::unique_ptr<RowStore>> make(const Setup& setup, const Spec& spec) {
  KVICK_TRY(const Pages pages, pages_of(spec));
  if (pages == Pages::kHuge)
    if (auto works = huge_pages_work(); !works.ok())
      return base::fail("{}: hugepages=on: {}", spec.name, works.error().message);
  return std::unique_ptr<RowStore>(
      std::make_unique<VirtualStore>(setup, VirtualOptions{.pages = pages}));
}

void limit_traits(const Spec& spec, Traits& traits) {
  const auto pages = pages_of(spec);
  if (pages.ok() && *pages == Pages::kHuge) traits.cheap_fork = false;
}

base::Result<Cost> cost(const Setup& setup, const Spec& spec, const Load& load) {
  KVICK_TRY(const Pages pages, pages_of(spec));
  const Shape& shape = setup.shape;
  const uint64_t page = bytes_of(pages), first = shape.first_seen(load.tokens);
  const auto region = [&](bool is_v) {
    const uint64_t row = shape.row_bytes(is_v);
    return round_up(load.tokens * row, page) - first * row / page * page;
  };
  const uint64_t heads = uint64_t{shape.layers} * shape.kv_heads;
  const uint64_t sequence = saturating_mul(heads, region(false) + region(true));
  return Cost{.fast_bytes = saturating_mul(sequence, load.sequences),
              .slow_bytes = 0,
              .read_bytes_per_token = shape.seen_rows(load.tokens) * shape.token_bytes(),
              .copied_bytes = 0};
}

}  // namespace

Strategy virtual_strategy() {
  return {
      .name = "virtual",
      .summary =
          "contiguous, grown and shared by the page table: no copies, less than a page of waste "
          "per region",
      .options = kOptions,
      .traits = {.cheap_fork = true, .buckets = true, .holds_old = true, .moves_rows = true},
      .limit_traits = limit_traits,
      .make_rows = make,
      .cost = cost};
}

}  // namespace kvick::kv
