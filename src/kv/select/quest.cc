// Quest: chooses pages of rows by an upper bound of the score of their keys, from the minimum and
// maximum of each channel ("Quest: Query-Aware Sparsity for Efficient Long-Context LLM Inference",
// Tang et al. 2024, section 3.3 and algorithm 1). The bound of one query is sum_i max(q_i * min_i,
// q_i * max_i), which is the product of [max(q, 0), min(q, 0)] and [max, min]. The bounds of
// queries that share a view are summed, which is one product too.

#include <limits>
#include <numeric>

#include "kv/rows/candidates.h"
#include "kv/select/row_arithmetic.h"
#include "kv/select/select_store.h"

namespace kvick::kv {
namespace {

constexpr Option kOptions[] = {
    budget_option(),
    sinks_option(),
    recent_option(),
    dense_layers_option("2"),
    {.name = "page", .summary = "rows of a page, which are chosen together", .fallback = "16"},
    candidates_option(
        "pages whose bounds are compared, as a multiple of those chosen: the pages of the groups "
        "of 16 that have the highest bounds; 0: all pages",
        "0"),
    least_option(),
    loss_option()};
constexpr uint32_t kMostPage = 256;
constexpr uint32_t kBlockPages = 16;  // per block of summaries, which is a group of pages

class Quest final : public Selector {
 public:
  Quest(const Setup& setup, const Selection& selection, Candidates candidates)
      : Selector(selection),
        candidates_(candidates),
        kernels_(kernels_of(setup)),
        shape_(setup.shape),
        // The type of the keys, or f16 if keys are quantised.
        type_(kernels::dtype_info(shape_.k_type).block > 1 || kernels::is_static(shape_.k_type)
                  ? kernels::DType::kF16
                  : shape_.k_type) {}

  SummaryShape summary() const override {
    const uint32_t bounds = kBlockPages + (candidates_.all() ? 0 : 1);
    return {.rows = kBlockPages * page(), .bytes = bounds * page_bytes()};
  }

  void summarise(const RowsOfHead& rows, uint32_t first, uint32_t end) const override {
    const uint32_t dims = shape_.head_dim;
    std::vector<float> key(dims), bounds(2 * size_t{dims});  // most, least
    for_each_row(rows.segment, first, end, [&](uint32_t row, const std::byte* k, const std::byte*) {
      read_key(rows.segment, k, key);
      transform(kernels_, shape_.hadamard_blocks().k, key);
      std::byte* const at = bounds_at(rows, row / page());
      if (row % page() == 0)
        set_empty(bounds);
      else if (row == first)
        kernels::to_f32(type_, at, bounds.size(), bounds.data());
      widen(bounds, key.data(), key.data());
      if (row % page() + 1 != page() && row + 1 != end) return;
      kernels_.store_row(type_, bounds.data(), bounds.size(), at);
      if (!candidates_.all()) widen_group(rows, row / page(), bounds);
    });
  }

  void choose(const SelectRequest& question, base::Arena& scratch,
              SelectedRows& choice) const override {
    const uint32_t dims = shape_.head_dim, unit = page();
    const std::span<float> q = scratch.make<float>(2 * size_t{dims});
    std::fill(q.begin(), q.end(), 0.0F);
    for (const float* query : question.queries)
      for (uint32_t i = 0; i < dims; ++i) {
        q[i] += std::max(query[i], 0.0F);
        q[dims + i] += std::min(query[i], 0.0F);
      }
    const auto ranges = pages_to_compare(question, q, scratch);
    const std::span<float> scores = scratch.make<float>(count_rows(ranges));
    float* score = scores.data();
    for (const kernels::Range& range : ranges)
      for (uint32_t at = range.begin; at < range.end;) {
        const uint32_t n = std::min(range.end, (at / kBlockPages + 1) * kBlockPages) - at;
        kernels_.dot_rows(type_, bounds_at(question.rows, at), page_bytes(), n, q.data(), q.size(),
                          score);
        score += n;
        at += n;
      }
    const uint32_t take = question.top_rows.take / unit;
    const auto highest_pages = highest(kernels_, scores, take, scratch);
    const std::span<uint32_t> pages = scratch.make<uint32_t>(take);
    std::copy(highest_pages.begin(), highest_pages.end(), pages.begin());
    to_rows(ranges, pages);
    const std::span<uint32_t> rows = scratch.make<uint32_t>(question.top_rows.take);
    auto row = rows.begin();
    for (const uint32_t page : pages) {
      std::iota(row, row + unit, page * unit);
      row += unit;
    }
    choice.rows = rows;
  }

  uint64_t choice_bytes(const TopRows& top_rows, uint32_t) const override {
    const kernels::Range groups = groups_of(top_rows);
    const uint32_t count = groups.end - groups.begin, take = groups_to_compare(top_rows);
    if (take == count) return (top_rows.last - top_rows.first) / page() * page_bytes();
    return (count + uint64_t{kBlockPages} * take) * page_bytes();
  }

 private:
  // The bounds of no key: widen() replaces them.
  void set_empty(std::span<float> bounds) const {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    std::fill_n(std::fill_n(bounds.begin(), shape_.head_dim, -kInfinity), shape_.head_dim,
                kInfinity);
  }
  void widen(std::span<float> bounds, const float* most, const float* least) const {
    const uint32_t dims = shape_.head_dim;
    for (uint32_t i = 0; i < dims; ++i) {
      bounds[i] = std::max(bounds[i], most[i]);
      bounds[dims + i] = std::min(bounds[dims + i], least[i]);
    }
  }
  // A group's bounds lie behind those of its pages.
  std::byte* group_at(const RowsOfHead& rows, uint32_t group) const {
    return rows.summary(group) + kBlockPages * page_bytes();
  }
  void widen_group(const RowsOfHead& rows, uint32_t page, std::span<const float> of_page) const {
    std::vector<float> bounds(of_page.size());
    std::byte* const at = group_at(rows, page / kBlockPages);
    if (page % kBlockPages == 0)
      set_empty(bounds);
    else
      kernels::to_f32(type_, at, bounds.size(), bounds.data());
    widen(bounds, of_page.data(), of_page.data() + shape_.head_dim);
    kernels_.store_row(type_, bounds.data(), bounds.size(), at);
  }
  kernels::Range groups_of(const TopRows& top_rows) const {
    const uint32_t end = top_rows.last / page();
    return {top_rows.first / page() / kBlockPages, (end + kBlockPages - 1) / kBlockPages};
  }
  // Returns how many of the groups have their pages compared. Bounds of groups are read only if it
  // is not all.
  uint32_t groups_to_compare(const TopRows& top_rows) const {
    const kernels::Range groups = groups_of(top_rows);
    const uint32_t count = groups.end - groups.begin;
    return candidates_.all() ? count
                             : candidates_.pages(top_rows.take / page(), kBlockPages, count);
  }
  // q: the query that bounds are multiplied with.
  std::span<const kernels::Range> pages_to_compare(const SelectRequest& question,
                                                   std::span<const float> q,
                                                   base::Arena& scratch) const {
    const kernels::Range pages = {question.top_rows.first / page(),
                                  question.top_rows.last / page()};
    const std::span<kernels::Range> range = scratch.make<kernels::Range>(1);
    range[0] = pages;
    const uint32_t begin = groups_of(question.top_rows).begin;
    const uint32_t count = groups_of(question.top_rows).end - begin;
    const uint32_t take = groups_to_compare(question.top_rows);
    if (take == count) return range;
    const std::span<float> scores = scratch.make<float>(count);
    for (uint32_t i = 0; i < count; ++i) {
      constexpr uint32_t kAhead = 8;  // groups: they lie apart in memory
      if (i + kAhead < count) {
        const std::byte* const later = group_at(question.rows, begin + i + kAhead);
        for (size_t at = 0; at < page_bytes(); at += base::kCacheLine)
          __builtin_prefetch(later + at, 0, 2);
      }
      kernels_.dot_rows(type_, group_at(question.rows, begin + i), page_bytes(), 1, q.data(),
                        q.size(), &scores[i]);
    }
    const auto highest_groups = highest(kernels_, scores, take, scratch);
    const std::span<uint32_t> groups = scratch.make<uint32_t>(take);
    for (uint32_t i = 0; i < take; ++i) groups[i] = begin + highest_groups[i];
    return rows_of_pages(groups, kBlockPages, pages, scratch);
  }

  uint32_t page() const { return selection().unit; }
  size_t page_bytes() const { return kernels::dtype_bytes(type_, 2 * size_t{shape_.head_dim}); }
  std::byte* bounds_at(const RowsOfHead& rows, uint32_t page) const {
    return rows.summary(page / kBlockPages) + page % kBlockPages * page_bytes();
  }

  Candidates candidates_;
  const kernels::Table& kernels_;
  Shape shape_;
  kernels::DType type_;  // of bounds
};

base::Result<std::unique_ptr<const Selector>> selector_of(const Setup& setup) {
  KVICK_TRY(Selection selection,
            read_selection(setup.select.spec, std::span(kOptions).first<kSelectionOptions>()));
  KVICK_TRY_VOID(read_loss(setup.select.spec, selection));
  KVICK_TRY(const uint64_t page, read_number(setup.select.spec, kOptions[4], 1, kMostPage));
  selection.unit = static_cast<uint32_t>(page);
  KVICK_TRY(const Candidates candidates, read_candidates(setup.select.spec, kOptions[5]));
  return std::unique_ptr<const Selector>(std::make_unique<Quest>(setup, selection, candidates));
}

}  // namespace

Policy quest_policy() {
  return {.name = "quest",
          .summary = "the pages whose keys may score highest, by the bounds of each channel",
          .options = kOptions,
          .change_traits = selecting_traits,
          .make = make_selecting<selector_of>,
          .cost = cost_selecting<selector_of>};
}

}  // namespace kvick::kv
