// Quest: chooses pages of rows by the minimum and maximum of each channel of their keys ("Quest:
// Query-Aware Sparsity for Efficient Long-Context LLM Inference", Tang et al. 2024, section 3.3 and
// algorithm 1).
//
// A page's keys lie between its bounds, so the product of a query with a key is around q * middle,
// and at most that plus sum_i |q_i| * half_i, where half = (max - min) / 2. The paper takes this
// upper bound, which few keys come near: their distances from the middle differ in sign. We add a
// part of it (`spread`), and `spread=1` is the paper's. This estimate is one product, of
// [q + spread * |q|, q - spread * |q|] / 2 and [max, min].
//
// Bounds are kept in 8 bits, as q8 keeps keys, so that few bytes are read to choose; a key may lie
// outside of them by half a step of the codes. Those of the last page, which grows, are kept as
// they are.
//
// Queries that share a view choose together: by the sum of their softmax probabilities of the
// pages. Sums of bounds follow the query with the largest norm.

#include <cmath>
#include <limits>

#include "kv/rows/candidates.h"
#include "kv/select/block_vectors.h"
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
    {.name = "spread",
     .summary =
         "how far above the middle of a page's keys its best key is assumed: 1: at the upper "
         "bound, as in the paper; 0: at the middle",
     .fallback = "0.3"},
    least_option(),
    loss_option()};
constexpr uint32_t kMostPage = 256;
constexpr uint32_t kGroupPages = 16;
// Per block of summaries, in which each head of a layer has a piece of its own. With 64 pages a
// piece is 9 KB or more, and fewer pieces mean fewer waits for memory; the first row of a sequence
// already takes such a piece in each head.
constexpr uint32_t kBlockPages = 64;

class Quest final : public Selector {
 public:
  struct Asked {
    Selection selection;
    Candidates candidates;
    float spread = 0;
  };

  Quest(const Setup& setup, const Asked& asked)
      : Selector(asked.selection),
        candidates_(asked.candidates),
        spread_(asked.spread),
        kernels_(kernels_of(setup)),
        shape_(setup.shape),
        // The type of the keys, or f16 if keys are quantised.
        type_(kernels::dtype_info(shape_.k_type).block > 1 || kernels::is_static(shape_.k_type)
                  ? kernels::DType::kF16
                  : shape_.k_type),
        bounds_(kernels_, {.per_block = kBlockPages, .dims = 2 * shape_.head_dim, .scaled = true}) {
  }

  SummaryShape summary() const override {
    const uint32_t whole = 1 + (candidates_.all() ? 0 : kBlockPages / kGroupPages);
    return {.rows = kBlockPages * page(), .bytes = bounds_.bytes() + whole * whole_bytes()};
  }

  void summarise(const RowsOfHead& rows, uint32_t first, uint32_t end) const override {
    const uint32_t dims = shape_.head_dim;
    std::vector<float> key(dims), bounds(2 * size_t{dims});  // most, least
    for_each_row(rows.segment, first, end, [&](uint32_t row, const std::byte* k, const std::byte*) {
      read_key(rows.segment, k, key);
      transform(kernels_, shape_.hadamard_blocks().k, key);
      const uint32_t number = row / page();
      std::byte* const block = rows.summary(number / kBlockPages);
      std::byte* const last = block + bounds_.bytes();  // bounds of the last page, if it grows
      if (row % page() == 0)
        set_empty(bounds);
      else if (row == first)
        kernels::to_f32(type_, last, bounds.size(), bounds.data());
      widen(bounds, key.data(), key.data());
      const bool full = row % page() + 1 == page();
      if (!full && row + 1 != end) return;
      // Also those of a full page are rounded to the type first, so that they do not depend on how
      // many rows came at a time.
      kernels_.store_row(type_, bounds.data(), bounds.size(), last);
      if (full) {
        kernels::to_f32(type_, last, bounds.size(), bounds.data());
        bounds_.round(block, number % kBlockPages, bounds);
      }
      if (!candidates_.all()) widen_group(rows, number, bounds);
    });
  }

  void choose(const SelectRequest& question, base::Arena& scratch,
              SelectedRows& choice) const override {
    const uint32_t unit = page();
    const std::span<const float> queries = queries_of_bounds(question, scratch);
    const auto ranges = pages_to_compare(question, queries, scratch);
    const uint32_t count = count_rows(ranges);
    const auto score = [&](std::span<const float> q, float* scores) {
      bounds_.score(question.rows, ranges, q, scratch, scores, count);
    };
    const std::span<float> scores = weights(question, queries, count, scratch, score);
    const uint32_t take = question.top_rows.take / unit;
    const auto highest_pages = highest(kernels_, scores, take, scratch);
    const std::span<uint32_t> pages = scratch.make<uint32_t>(take);
    std::copy(highest_pages.begin(), highest_pages.end(), pages.begin());
    to_rows(ranges, pages);
    for (uint32_t& page : pages) page *= unit;
    choice.rows = pages;
    choice.each = unit;
  }

  uint64_t choice_bytes(const TopRows& top_rows, uint32_t) const override {
    const kernels::Range groups = groups_of(top_rows);
    const uint32_t count = groups.end - groups.begin, take = groups_to_compare(top_rows);
    const uint64_t page_bytes = bounds_.bytes() / kBlockPages;
    if (take == count) return (top_rows.last - top_rows.first) / page() * page_bytes;
    return count * whole_bytes() + uint64_t{kGroupPages} * take * page_bytes;
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
  // The bounds of a block's groups lie behind those of its pages and of the last page.
  std::byte* group_at(const RowsOfHead& rows, uint32_t group) const {
    constexpr uint32_t kGroups = kBlockPages / kGroupPages;
    return rows.summary(group / kGroups) + bounds_.bytes() + (1 + group % kGroups) * whole_bytes();
  }
  void widen_group(const RowsOfHead& rows, uint32_t page, std::span<const float> of_page) const {
    std::vector<float> bounds(of_page.size());
    std::byte* const at = group_at(rows, page / kGroupPages);
    if (page % kGroupPages == 0)
      set_empty(bounds);
    else
      kernels::to_f32(type_, at, bounds.size(), bounds.data());
    widen(bounds, of_page.data(), of_page.data() + shape_.head_dim);
    kernels_.store_row(type_, bounds.data(), bounds.size(), at);
  }
  kernels::Range groups_of(const TopRows& top_rows) const {
    const uint32_t end = top_rows.last / page();
    return {top_rows.first / page() / kGroupPages, (end + kGroupPages - 1) / kGroupPages};
  }
  // Returns how many of the groups have their pages compared. Bounds of groups are read only if it
  // is not all.
  uint32_t groups_to_compare(const TopRows& top_rows) const {
    const kernels::Range groups = groups_of(top_rows);
    const uint32_t count = groups.end - groups.begin;
    return candidates_.all() ? count
                             : candidates_.pages(top_rows.take / page(), kGroupPages, count);
  }
  // Returns what bounds are multiplied with: [queries][2 * head_dim].
  std::span<const float> queries_of_bounds(const SelectRequest& question,
                                           base::Arena& scratch) const {
    const uint32_t dims = shape_.head_dim;
    const std::span<float> all = scratch.make<float>(question.queries.size() * 2 * dims);
    float* q = all.data();
    for (const float* query : question.queries) {
      for (uint32_t i = 0; i < dims; ++i) {
        const float part = spread_ * std::abs(query[i]);
        q[i] = (query[i] + part) / 2;
        q[dims + i] = (query[i] - part) / 2;
      }
      q += 2 * size_t{dims};
    }
    return all;
  }
  // Returns the probabilities of `count` bounds, summed over the queries. score(q, out) sets out,
  // [queries of q][count], to their products with some queries.
  template <class Score>
  std::span<float> weights(const SelectRequest& question, std::span<const float> queries,
                           uint32_t count, base::Arena& scratch, const Score& score) const {
    const size_t values = 2 * size_t{shape_.head_dim};
    return summed_probabilities(
        kernels_, question.queries.size(), count, scratch,
        [&](size_t first, size_t n, float* scores) {
          score(queries.subspan(first * values, n * values), scores);
        },
        [&](size_t query, std::span<float> scores) {
          const float* const sinks = question.sinks;
          return softmax_weights(
              kernels_, scores,
              {.scale = question.scale,
               .softcap = question.softcap,
               .sink = sinks != nullptr ? sinks + query % question.group : nullptr});
        });
  }
  std::span<const kernels::Range> pages_to_compare(const SelectRequest& question,
                                                   std::span<const float> queries,
                                                   base::Arena& scratch) const {
    const kernels::Range pages = {question.top_rows.first / page(),
                                  question.top_rows.last / page()};
    const std::span<kernels::Range> range = scratch.make<kernels::Range>(1);
    range[0] = pages;
    const uint32_t begin = groups_of(question.top_rows).begin;
    const uint32_t count = groups_of(question.top_rows).end - begin;
    const uint32_t take = groups_to_compare(question.top_rows);
    if (take == count) return range;
    const size_t values = 2 * size_t{shape_.head_dim};
    const auto score = [&](std::span<const float> q, float* scores) {
      for (uint32_t i = 0; i < count; ++i) {
        constexpr uint32_t kAhead = 8;  // groups: they lie apart in memory
        if (i + kAhead < count) {
          const std::byte* const later = group_at(question.rows, begin + i + kAhead);
          for (size_t at = 0; at < whole_bytes(); at += base::kCacheLine)
            __builtin_prefetch(later + at, 0, 2);
        }
        for (size_t of = 0; of * values < q.size(); ++of)
          kernels_.dot_rows(type_, group_at(question.rows, begin + i), 0, 1, &q[of * values],
                            values, scores + of * count + i);
      }
    };
    const std::span<float> scores = weights(question, queries, count, scratch, score);
    const auto highest_groups = highest(kernels_, scores, take, scratch);
    const std::span<uint32_t> groups = scratch.make<uint32_t>(take);
    for (uint32_t i = 0; i < take; ++i) groups[i] = begin + highest_groups[i];
    return rows_of_pages(groups, kGroupPages, pages, scratch);
  }

  uint32_t page() const { return selection().unit; }
  // Bytes of bounds that are not rounded.
  size_t whole_bytes() const { return kernels::dtype_bytes(type_, 2 * size_t{shape_.head_dim}); }

  Candidates candidates_;
  float spread_;
  const kernels::Table& kernels_;
  Shape shape_;
  kernels::DType type_;  // of bounds that are not rounded
  BlockVectors bounds_;  // of pages: [most, least] of each channel
};

base::Result<std::unique_ptr<const Selector>> selector_of(const Setup& setup) {
  const Spec& spec = setup.select.spec;
  Quest::Asked asked;
  KVICK_TRY(asked.selection, read_selection(spec, std::span(kOptions).first<kSelectionOptions>()));
  KVICK_TRY_VOID(read_loss(spec, asked.selection));
  KVICK_TRY(const uint64_t page, read_number(spec, kOptions[4], 1, kMostPage));
  asked.selection.unit = static_cast<uint32_t>(page);
  KVICK_TRY(asked.candidates, read_candidates(spec, kOptions[5]));
  constexpr uint64_t kOne = 1000000;
  KVICK_TRY(const uint64_t spread, read_decimal(spec, kOptions[6], 0, kOne));
  asked.spread = static_cast<float>(spread) / static_cast<float>(kOne);
  return std::unique_ptr<const Selector>(std::make_unique<Quest>(setup, asked));
}

}  // namespace

Policy quest_policy() {
  return {
      .name = "quest",
      .summary =
          "the pages whose best keys are estimated to score highest, by the bounds of each channel",
      .options = kOptions,
      .change_traits = selecting_traits,
      .make = make_selecting<selector_of>,
      .cost = cost_selecting<selector_of>};
}

}  // namespace kvick::kv
